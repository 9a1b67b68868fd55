"""Going back to what was before a change that worked: the same journal, restart and waiting as an apply."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from llmops import checkpoint, systemd
from llmops.actions.apply import start_again, unit_before
from llmops.actions.recovery import UNIT_PATH, require_root
from llmops.actions.serving import drain, serves
from llmops.checkpoint import Checkpoint
from llmops.core.errors import RollbackFailed, UsageError
from llmops.core.files import Change
from llmops.engines.base import Engine
from llmops.engines.found import Installation
from llmops.host import Host, MutableHost

_READY_SECONDS = 600.0


@dataclass(frozen=True)
class WentBack:
    """The changes that were taken back, the files, and the number of this rollback in the history.

    `checkpoint` is None where only a change that was cut short had to be taken back.
    """

    unit: str
    reverted: tuple[int, ...]
    changes: tuple[Change, ...]
    checkpoint: int | None
    restarted: bool


def rollback(
    host: MutableHost,
    engines: Sequence[Engine],
    *,
    to: int | None = None,
    drain_seconds: float = 60.0,
    progress: Callable[[str], None],
) -> WentBack:
    """Take back the last change, or every change after number `to` (0: all of them).

    Raise UsageError where there is nothing to take back, RollbackFailed where a file was edited since,
    RolledBack where the old state does not come up (the newer one is back then).
    """
    require_root(host, "take a change back")
    _require_something(host)
    systemd.require_systemd(host)
    with checkpoint.locked(host):
        unfinished = checkpoint.recover(host)
        # A rollback that was cut short is undone like anything else, and then done: it is still what is wanted.
        if unfinished is not None and unfinished.kind == "apply" and to is None:
            ran = unfinished.unit.ran
            return WentBack(unfinished.unit.name, (unfinished.identifier,), unfinished.changes, None, ran)
        chosen = _chosen(checkpoint.read_checkpoints(host), to)
        record = _record(host, chosen)
        engine, installation = _engine_of(host, engines, record)
        return _Return(host, record, engine, installation, progress).go(drain_seconds)


def _require_something(host: Host) -> None:
    """Raise UsageError on a machine that llmops never changed, with or without systemd."""
    if not checkpoint.read_checkpoints(host) and checkpoint.read_content(host, checkpoint.JOURNAL_PATH) is None:
        raise UsageError("there is nothing to take back", hint="see: llmops history")


def _chosen(kept: tuple[Checkpoint, ...], to: int | None) -> tuple[Checkpoint, ...]:
    live = checkpoint.in_effect(kept)
    if to is None:
        chosen = live[-1:]
    else:
        if to != 0 and to not in {entry.identifier for entry in live}:
            raise UsageError(
                f"no change {to} is in effect", hint="see: llmops history; 0 is the state before the first"
            )
        last = live[-1].unit.name if live else ""
        chosen = tuple(entry for entry in live if entry.identifier > to and entry.unit.name == last)
    if not chosen:
        raise UsageError("there is nothing to take back", hint="see: llmops history")
    return chosen


def _record(host: Host, chosen: tuple[Checkpoint, ...]) -> Checkpoint:
    """The rollback as a change of its own: each file from what the last change made to what was before the first."""
    first, last = chosen[0], chosen[-1]
    made: dict[str, Change] = {}
    original: dict[str, Change] = {}
    for change in (change for entry in chosen for change in entry.changes):
        made[change.path] = change
        original.setdefault(change.path, change)
    wanted = [
        (path, original[path].before, original[path].before_mode, made[path].after) for path in reversed(original)
    ]
    edited = [path for path, _, _, expected in wanted if checkpoint.read_content(host, path) != expected]
    if edited:
        raise RollbackFailed(
            f"{', '.join(edited)} was edited since llmops wrote it",
            hint="nothing was changed: undo that edit or move it away, then run this again",
        )
    changes = (checkpoint.read_change(host, path, before, mode) for path, before, mode, _ in wanted)
    state = systemd.state(host, last.unit.name)
    return Checkpoint(
        identifier=checkpoint.next_identifier(host),
        kind="rollback",
        engine=last.engine,
        unit=unit_before(last.unit.name, state),
        started_at_seconds=host.now(),
        changes=tuple(change for change in changes if change is not None),
        disable=tuple(name for entry in reversed(chosen) for name in entry.enable),
        remove_directories=tuple(path for entry in chosen for path in entry.directories),
        reverts=tuple(entry.identifier for entry in chosen),
        summary=f"back to before {first.identifier}",
        reloadable=last.reloadable,
        last=(UNIT_PATH,),
    )


def _engine_of(
    host: Host, engines: Sequence[Engine], record: Checkpoint
) -> tuple[Engine, Installation] | tuple[None, None]:
    for engine in engines:
        if engine.name == record.engine:
            for installation in engine.detect(host):
                if installation.unit == record.unit.name:
                    return engine, installation
    return None, None


@dataclass(frozen=True)
class _Return:
    """One rollback with the lock held; without an engine only systemd is asked whether the unit is up."""

    host: MutableHost
    record: Checkpoint
    engine: Engine | None
    installation: Installation | None
    progress: Callable[[str], None]

    def go(self, drain_seconds: float) -> WentBack:
        record = self.record
        if self.engine is not None and self.installation is not None and record.unit.active_state == "active":
            drain(
                self.host,
                self.engine,
                self.installation,
                limit_seconds=drain_seconds,
                progress=self.progress,
            )
        restarted = checkpoint.carry_out(self.host, record, None, self._bring_up, ready=self._ready)
        return WentBack(record.unit.name, record.reverts, record.changes, record.identifier, restarted)

    def _ready(self) -> bool:
        if self.engine is None or self.installation is None:
            return systemd.is_active(self.host, self.record.unit.name)
        return serves(self.host, self.engine, self.installation)

    def _bring_up(self) -> bool:
        unit = self.record.unit
        if not unit.ran:
            return False
        if unit.name in self.record.disable:  # the unit itself was made by the change that is taken back
            self._stop(unit.name)
            return False
        self._start_again(unit.name)
        systemd.wait_until_ready(self.host, unit.name, self._ready, timeout_seconds=_READY_SECONDS)
        return True

    def _stop(self, unit: str) -> None:
        if self.record.reloadable:  # ended before its file went
            return
        self.progress(f"stopping {unit}")
        systemd.stop(self.host, unit)

    def _start_again(self, unit: str) -> None:
        if self.record.reloadable:
            self.progress(f"giving {unit} its earlier configuration")
            systemd.reload_or_restart(self.host, unit)
            return
        self.progress(f"restarting {unit} with its earlier configuration")
        start_again(self.host, unit)
