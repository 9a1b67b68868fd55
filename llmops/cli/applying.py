"""What tune --apply and apply share: a plan in, the live plan and its report out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from llmops.cli.planning import change_documents, planned_data, planned_for, planned_text
from llmops.cli.result import Result, Status, failed
from llmops.core.errors import Interrupted, LlmopsError, NotInstalled
from llmops.core.serialization import encode

if TYPE_CHECKING:
    from llmops.actions.apply import Applied, ApplyOptions
    from llmops.cli.session import Session
    from llmops.cli.settings import Settings
    from llmops.core.hardware import Hardware
    from llmops.core.plan import Plan
    from llmops.engines.base import Engine
    from llmops.engines.found import Installation
    from llmops.host import MutableHost

_KEPT = "Nothing to do: what runs breaks no limit. --replan computes afresh."


@dataclass(frozen=True)
class Candidate:
    """A plan that is about to be made live; `data` and `shown` describe it, whatever comes of it.

    `recovered` is the number of a change that was cut short and taken back before this plan was made.
    """

    engine: Engine
    installation: Installation
    plan: Plan
    hardware: Hardware
    data: Mapping[str, Any]
    shown: Callable[[], str]
    recovered: int | None = None


def require_present(engine: Engine, installation: Installation) -> None:
    """Raise NotInstalled, with the official steps, where there is no engine to start; else what the engine says."""
    from llmops.actions.plan import ABSENT

    if installation.managed_by == ABSENT:
        steps = "; ".join(engine.install_steps)
        raise NotInstalled(f"{engine.name} is not installed; nothing was changed", hint=f"install it first: {steps}")
    engine.require_usable(installation)


def apply_options(flags: Mapping[str, Any], settings: Settings) -> ApplyOptions:
    """How far the apply may go, from flags and configuration file."""
    from llmops.actions.apply import ApplyOptions

    drain = settings.value("drain-seconds")
    given = {} if drain is None else {"drain_seconds": drain}
    return ApplyOptions(take_over=flags["take_over"], install_unit=flags["install_unit"], **given)


def apply_planned(
    command: str, host: MutableHost, session: Session, flags: Mapping[str, Any], *, replan: bool
) -> Result:
    """Make the plan that the options ask for and apply it."""
    from llmops.actions.recovery import recover_first

    recovered = recover_first(host, session.progress)
    planned, settings = planned_for(host, flags, session, live=True, measure=True, replan=replan)
    data = {**planned_data(planned, settings), "recovered": recovered}

    def shown() -> str:
        return planned_text(planned, settings, explain=flags["explain"])

    if planned.changes_nothing:
        status = Status.OK if recovered is None else Status.CHANGED
        return Result(command, status, data={**data, "files": [], "checks": []}, text=lambda: f"{shown()}\n\n{_KEPT}")
    if planned.unclear is not None:
        return failed(command, planned.unclear, data=data, text=shown)
    candidate = Candidate(planned.engine, planned.installation, planned.plan, planned.hardware, data, shown, recovered)
    return apply_candidate(command, host, session, candidate, apply_options(flags, settings))


def apply_candidate(
    command: str, host: MutableHost, session: Session, candidate: Candidate, options: ApplyOptions
) -> Result:
    """Apply; an error carries the plan, so that what was refused can be read."""
    from llmops.actions.live import make_live

    try:
        require_present(candidate.engine, candidate.installation)
        applied = make_live(
            host,
            candidate.engine,
            candidate.installation,
            candidate.plan,
            hardware=candidate.hardware,
            options=options,
            progress=session.progress,
        )
    except (LlmopsError, Interrupted) as error:
        return failed(command, error, data=candidate.data, text=candidate.shown)
    recovered = candidate.recovered if applied.recovered is None else applied.recovered
    status = Status.CHANGED if applied.changed or recovered is not None else Status.OK

    def text() -> str:
        return f"{candidate.shown()}\n\n{applied_text(applied, verbose=session.verbose)}"

    data = {**candidate.data, **applied_data(applied), "recovered": recovered}
    return Result(command, status, data=data, text=text)


def applied_data(applied: Applied) -> dict[str, Any]:
    """The keys of `data` that an apply adds."""
    return {
        "files": change_documents(applied.changes),
        "checks": [] if applied.report is None else [encode(check) for check in applied.report.checks],
        "unit": applied.unit,
        "restarted": applied.restarted,
        "checkpoint": applied.checkpoint,
    }


def applied_text(applied: Applied, *, verbose: bool = False) -> str:
    """What was done, for people."""
    from llmops.cli.text.changes import checks_text
    from llmops.cli.text.layout import good, sections

    if not applied.changed:
        return good(f"Nothing to do: {applied.unit} already runs this plan.")
    done = f"Live in {applied.unit} (number {applied.checkpoint}); to go back: llmops rollback"
    files = "\n".join(f"  wrote {change.path}" for change in applied.changes if change.after is not None)
    checks = "" if applied.report is None else checks_text(applied.report.checks, verbose=verbose)
    return sections((checks, f"{good(done)}\n{files}".rstrip()))
