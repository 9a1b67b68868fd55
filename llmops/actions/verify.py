"""Verification: is the plan what really runs, does the engine serve it, and does the machine stay out of swap?"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from llmops.actions.load_checks import Load, load_checks, measured_rates, put_under_load
from llmops.actions.memory_checks import memory_checks
from llmops.actions.readable import readable_check
from llmops.core.errors import EngineNotAnswering
from llmops.core.plan import MeasuredRates, Plan
from llmops.core.verification import Check, CheckStatus, VerificationReport
from llmops.engines.base import Engine, Health
from llmops.engines.found import KEY, InForce, Installation
from llmops.host import Host

FIRST_REPLY = "first_reply"
LOAD_CHECKS = (FIRST_REPLY, "two_requests", "longest_gap", "no_swap", "no_rereading")


@dataclass(frozen=True)
class Verified:
    """The checks, and the rates that were measured on the way; None where the load test was not possible."""

    report: VerificationReport
    rates: MeasuredRates | None
    in_force: InForce


def verify(
    host: Host,
    engine: Engine,
    installation: Installation,
    plan: Plan,
    *,
    progress: Callable[[str], None],
    recorded: bool = False,
) -> Verified:
    """Compare what is in force with the plan, then send test requests; nothing is changed.

    A recording (`recorded`) is only looked at: it answers no request that was not sent when it was made.
    Raise EngineNotAnswering where no server answers at all, or one whose answers are not this engine's.
    """
    progress("looking at what is in force")
    installation = current(host, engine, installation)
    in_force = engine.in_force(host, installation)
    _require_ready(host, engine, installation, in_force)
    if not recorded and engine.prepare(host, plan, in_force):
        in_force = engine.in_force(host, installation)
    configuration = engine.checks(engine.expectations(plan, installation, in_force), installation, in_force)
    reason = "a recording answers no test requests" if recorded else _no_load_because(in_force)
    if reason is not None:
        untested = tuple(Check(name, "", None, CheckStatus.NOT_EVALUATED, reason) for name in LOAD_CHECKS)
        checks = (*configuration, *untested, *_machine_checks(host, installation, plan, in_force))
        return Verified(VerificationReport(checks), None, in_force)

    def others() -> int:
        return engine.in_force(host, installation).processing or 0

    model = engine.model_name(plan, in_force)
    load = _load(host, plan, in_force, others=others, model=model, progress=progress)
    own = engine.load_checks(host, plan, in_force)
    after = engine.in_force(host, installation)
    checks = (*configuration, *load_checks(plan, load), *own, *_machine_checks(host, installation, plan, after))
    return Verified(VerificationReport(checks), _rates_to_remember(load, progress), after)


def _machine_checks(host: Host, installation: Installation, plan: Plan, seen: InForce) -> tuple[Check, ...]:
    """Its memory, and whether the server could be started again."""
    return (*memory_checks(host, plan, seen), *readable_check(host, installation, plan.model))


def _rates_to_remember(load: Load, progress: Callable[[str], None]) -> MeasuredRates | None:
    if load.was_disturbed:
        progress(f"other work took {load.others_share:.0%} of the processors meanwhile: these rates are not remembered")
        return None
    return measured_rates(load)


def current(host: Host, engine: Engine, installation: Installation) -> Installation:
    """The installation as it is now: a program on disk may have been made a unit since it was found."""
    if installation.unit is not None or installation.pid is not None:
        return installation
    started = [found for found in engine.detect(host) if found.command == installation.command]
    return next((found for found in started if found.unit or found.pid), installation)


def _require_ready(host: Host, engine: Engine, installation: Installation, in_force: InForce) -> None:
    name = installation.unit or installation.detail or engine.name
    if in_force.pid is None or in_force.arguments is None:
        why = dict(in_force.unseen).get("arguments", "it is not running")
        raise EngineNotAnswering(f"{name}: {why}", hint=_how_to_look(installation))
    if in_force.url is None:
        return
    health = engine.health(host, in_force.url)
    if health is Health.READY:
        _require_own_word(engine, in_force, _how_to_look(installation))
        return
    said = {
        Health.DOWN: f"{name} runs (process {in_force.pid}) but nothing answers at {in_force.url}",
        Health.LOADING: f"{name} is still loading its model at {in_force.url}",
        Health.NONSENSE: f"what answers at {in_force.url} is not {engine.name}",
    }[health]
    raise EngineNotAnswering(said, hint=_how_to_look(installation))


def _require_own_word(engine: Engine, in_force: InForce, hint: str) -> None:
    """An engine of this kind says how many slots it has to everybody who has its key; another program does not."""
    unseen = dict(in_force.unseen)
    if not in_force.told_of_itself and KEY not in unseen:
        said = unseen.get("props", "it does not say how many slots it has")
        raise EngineNotAnswering(f"what answers at {in_force.url} is not {engine.name}: {said}", hint=hint)


def _how_to_look(installation: Installation) -> str:
    if installation.unit is not None:
        return f"read its log: journalctl -u {installation.unit} -n 100"
    return "start it, or give the plan a trial: llmops tune --trial"


def _no_load_because(in_force: InForce) -> str | None:
    """Why test requests cannot be sent, or None."""
    unseen = dict(in_force.unseen)
    if in_force.url is None:
        return unseen.get("url", "where it listens is not known")
    return unseen.get(KEY)


def _load(
    host: Host,
    plan: Plan,
    in_force: InForce,
    *,
    others: Callable[[], int],
    model: str | None,
    progress: Callable[[str], None],
) -> Load:
    progress("sending test requests: one alone, then two at once")
    load = put_under_load(host, in_force, plan, others=others, model=model)
    if load.is_good(plan):
        return load
    # The first requests may bring back what was swapped out or dropped from the page cache before, and other people's
    # requests may have been in the way: only what happens twice is a finding.
    progress("sending them once more, to tell a coincidence from a fault")
    return put_under_load(host, in_force, plan, others=others, model=model, before_it=load)
