"""Waiting until a restarted unit really serves, and telling a crash loop from a slow start."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from llmops.core.errors import EngineNotAnswering
from llmops.host import Host
from llmops.systemd.control import UnitState, journal_tail, state

POLL_SECONDS = 0.5
# What is read of a start that failed: a traceback may be long, and the cause stands above it.
_EXPLAINED_LINES = 600
# An exit code and the log of a start, to why it ended.
Explain = Callable[[int, str], str]


@dataclass(frozen=True)
class _Start:
    """One start of a unit, and who can say why it ended."""

    unit: str
    first: UnitState
    explain: Explain | None = None


def wait_until_ready(
    host: Host, unit: str, probe: Callable[[], bool], *, timeout_seconds: float, explain: Explain | None = None
) -> UnitState:
    """Return the state of the start that serves, once `probe` says yes while the unit stayed up as one start.

    Raise EngineNotAnswering with the unit's last words as soon as it died, was started anew, or the time is over.
    Of one that ended, `explain` makes those words from its exit code and its log.
    """
    start = _Start(unit, state(host, unit), explain)
    deadline = host.monotonic() + timeout_seconds
    while True:
        _check_alive(host, start)
        if probe():
            _check_alive(host, start)  # the answer may have come from somebody else while ours was dying
            return start.first
        if host.monotonic() >= deadline:
            raise _not_ready(host, unit, f"{unit} is up but was not ready to serve within {timeout_seconds:g} s")
        host.sleep(POLL_SECONDS)


def stay_up(host: Host, unit: str, first: UnitState, *, until_seconds: float) -> None:
    """Return at this time of Host.monotonic, or at once where it is over, if the unit is still the same start.

    Raise EngineNotAnswering, as `wait_until_ready` does, as soon as it is not.
    """
    while True:
        _check_alive(host, _Start(unit, first))
        left = until_seconds - host.monotonic()
        if left <= 0:
            return
        host.sleep(min(left, POLL_SECONDS))


def _check_alive(host: Host, start: _Start) -> None:
    now, first = state(host, start.unit), start.first
    if now.active_state in {"failed", "inactive", "deactivating"} or now.sub_state == "auto-restart":
        how = f"exit status {now.exit_status}" if now.exit_status else f"result {now.result or 'unknown'}"
        raise _ended(host, start, f"{start.unit} ended while starting ({how})", now.exit_status)
    if now.restarts > first.restarts or now.invocation_id != first.invocation_id:
        raise _ended(host, start, f"{start.unit} crashed and was started again by systemd", now.exit_status)


def _ended(host: Host, start: _Start, message: str, exit_status: int | None) -> EngineNotAnswering:
    """The error of a start that ended: why, where somebody can tell it from its log, else its last words."""
    if start.explain is not None:
        identity = start.first.invocation_id
        log = journal_tail(host, start.unit, lines=_EXPLAINED_LINES, invocation_id=identity)
        if log:
            why = start.explain(exit_status or 1, "\n".join(log))
            return EngineNotAnswering(f"{message}: {why}", hint=_how_to_look(start.unit))
    return _not_ready(host, start.unit, message)


def _not_ready(host: Host, unit: str, message: str) -> EngineNotAnswering:
    words = journal_tail(host, unit)
    said = f"; its last words: {' | '.join(words[-6:])}" if words else ""
    return EngineNotAnswering(message + said, hint=_how_to_look(unit))


def _how_to_look(unit: str) -> str:
    return f"read the log: journalctl -u {unit} -n 100"
