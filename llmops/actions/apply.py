"""Making a plan live under systemd: files, restart, readiness, verification; the old state on any failure."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass

from llmops import checkpoint, systemd
from llmops.actions import recovery
from llmops.actions.conflicts import require_consent
from llmops.actions.port import require_port
from llmops.actions.serving import drain, serves
from llmops.actions.target import (
    ApplyOptions,
    Target,
    read_target,
    require_appliable,
    require_model,
    require_readable,
    restart_reason,
)
from llmops.core.documents import plan_document
from llmops.core.errors import EngineNotAnswering, Misconfigured, ProblemsFound
from llmops.core.files import Change
from llmops.core.plan import Plan
from llmops.core.verification import VerificationReport
from llmops.engines.base import Engine
from llmops.engines.found import Installation
from llmops.host import MutableHost

__all__ = ["Applied", "ApplyOptions", "apply"]

# Some engines end a few seconds after they were ready, on their first real work or when a limit is met.
STEADY_SECONDS = 10.0


@dataclass(frozen=True)
class Applied:
    """What an apply did: nothing (`changed` False), or the files it wrote, its number in the history, the report."""

    changed: bool
    unit: str
    changes: tuple[Change, ...] = ()
    checkpoint: int | None = None
    restarted: bool = False
    report: VerificationReport | None = None
    recovered: int | None = None


def apply(
    host: MutableHost,
    engine: Engine,
    installation: Installation,
    plan: Plan,
    *,
    options: ApplyOptions,
    verify: Callable[[Installation], VerificationReport],
    progress: Callable[[str], None],
) -> Applied:
    """Make the plan live, verified, or leave the machine as it was.

    `verify` gets the installation as it is by then: with the unit that was installed.

    Raise Unsupported, NoPermission, Locked or ConflictingSetting before anything is changed, RolledBack or
    RollbackFailed afterwards. A machine that already runs the plan is left alone: no write, no restart.
    """
    require_appliable(engine, installation, plan, install_unit=options.install_unit)
    systemd.require_systemd(host)
    recovery.require_root(host, "change how the engine is started")
    with checkpoint.locked(host):
        unfinished = checkpoint.recover(host)
        if unfinished is not None:
            progress(f"a change that was cut short (number {unfinished.identifier}) was taken back first")
        target = read_target(host, engine, installation, plan, options)
        applied = _Run(host, engine, plan, target, options, verify, progress).make_live()
    return dataclasses.replace(applied, recovered=None if unfinished is None else unfinished.identifier)


@dataclass(frozen=True)
class _Run:
    """One apply with the lock held."""

    host: MutableHost
    engine: Engine
    plan: Plan
    target: Target
    options: ApplyOptions
    verify: Callable[[Installation], VerificationReport]
    progress: Callable[[str], None]

    def make_live(self) -> Applied:
        target, host = self.target, self.host
        accepted = self._consent()
        before = self._require_usable()
        reason = self._restart_reason()
        if not target.changes and reason is None:
            return Applied(changed=False, unit=target.unit)
        if reason is not None and before.active:
            drain(
                host,
                self.engine,
                target.installation,
                limit_seconds=self.options.drain_seconds,
                progress=self.progress,
            )
        record = self._record(before, accepted)
        report = checkpoint.carry_out(
            host,
            record,
            plan_document(self.plan, arguments=target.words),
            lambda: self._bring_up(reason),
            ready=self._ready if before.active else None,
            reload=before.need_daemon_reload,
        )
        return Applied(
            changed=True,
            unit=target.unit,
            changes=target.changes,
            checkpoint=record.identifier,
            restarted=reason is not None,
            report=report,
        )

    def _consent(self) -> tuple[str, ...]:
        earlier = checkpoint.in_effect(checkpoint.read_checkpoints(self.host), self.engine.name)
        return require_consent(
            self.target.contradictions,
            take_over=self.options.take_over,
            accepted=earlier[-1].accepted if earlier else (),
            unit=self.target.unit,
        )

    def _require_usable(self) -> systemd.UnitState:
        unit = self.target.unit
        state = systemd.state(self.host, unit)
        if state.load_state == "masked":
            raise Misconfigured(f"{unit} is masked", hint=f"allow it to start: systemctl unmask {unit}")
        require_model(self.host, self.plan)
        require_readable(self.host, self.target, self.plan)
        require_port(self.host, unit, self.target.in_force)
        return state

    def _restart_reason(self) -> str | None:
        if any(change.path != recovery.UNIT_PATH for change in self.target.changes):
            return "its settings change"
        return restart_reason(self.host, self.target)

    def _record(self, before: systemd.UnitState, accepted: tuple[str, ...]) -> checkpoint.Checkpoint:
        target = self.target
        new_paths = tuple(change.path for change in target.changes if change.before is None)
        enable = [recovery.UNIT] if recovery.UNIT_PATH in new_paths else []
        if target.installs_unit and before.file_state != "enabled":
            enable.append(target.unit)
        return checkpoint.Checkpoint(
            identifier=checkpoint.next_identifier(self.host),
            kind="apply",
            engine=self.engine.name,
            unit=unit_before(target.unit, before),
            started_at_seconds=self.host.now(),
            changes=target.changes,
            directories=checkpoint.parents_missing(self.host, new_paths),
            enable=tuple(enable),
            accepted=accepted,
            summary=f"{self.plan.slots} slots x {self.plan.context_tokens_per_slot} tokens",
        )

    def _ready(self) -> bool:
        return serves(self.host, self.engine, self.target.installation)

    def _bring_up(self, reason: str | None) -> VerificationReport | None:
        if reason is None:  # only the unit for recovery at boot changes
            return None
        unit = self.target.unit
        self.progress(f"restarting {unit}: {reason}")
        start_again(self.host, unit)
        started = systemd.wait_until_ready(
            self.host,
            unit,
            self._ready,
            timeout_seconds=self.options.ready_seconds,
            explain=self.engine.last_words,
        )
        steady = self.host.monotonic() + STEADY_SECONDS
        self.progress(f"{unit} serves again; verifying")
        report = verified(self.verify(self.target.installation))
        systemd.stay_up(self.host, unit, started, until_seconds=steady)
        return report


def unit_before(unit: str, state: systemd.UnitState) -> checkpoint.UnitBefore:
    """What undo needs to know of the unit."""
    return checkpoint.UnitBefore(
        unit, state.exists, state.active_state, state.file_state == "enabled", state.invocation_id
    )


def start_again(host: MutableHost, unit: str) -> None:
    """Restart, or start what does not run; an error carries the unit's last words."""
    try:
        systemd.restart(host, unit)
    except Misconfigured as refused:
        words = " | ".join(systemd.journal_tail(host, unit, lines=6))
        raise EngineNotAnswering(
            f"{unit} did not start; its last words: {words}" if words else refused.message,
            hint=f"read the log: journalctl -u {unit} -n 100",
        ) from refused


def verified(report: VerificationReport) -> VerificationReport:
    """The report, where something was seen and nothing failed; raise ProblemsFound otherwise."""
    if report.failed:
        failures = "; ".join(
            f"{check.name}: expected {check.expected}, found {check.observed}" for check in report.failed
        )
        raise ProblemsFound(f"verification failed: {failures}", hint="see the checks: llmops verify")
    if not report.passed:
        raise ProblemsFound("verification could not see anything of the running engine", hint="llmops verify --debug")
    return report
