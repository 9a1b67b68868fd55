"""Waiting until a restarted unit really serves, and telling a crash loop from a slow start."""

from __future__ import annotations

from collections.abc import Callable

from llmops.core.errors import EngineNotAnswering
from llmops.host import Host
from llmops.systemd.control import UnitState, journal_tail, state

POLL_SECONDS = 0.5


def wait_until_ready(host: Host, unit: str, probe: Callable[[], bool], *, timeout_seconds: float) -> UnitState:
    """Return the state of the start that serves, once `probe` says yes while the unit stayed up as one start.

    Raise EngineNotAnswering with the unit's last words as soon as it died, was started anew, or the time is over.
    """
    first = state(host, unit)
    deadline = host.monotonic() + timeout_seconds
    while True:
        _check_alive(host, unit, first)
        if probe():
            _check_alive(host, unit, first)  # the answer may have come from somebody else while ours was dying
            return first
        if host.monotonic() >= deadline:
            raise _not_ready(host, unit, f"{unit} is up but was not ready to serve within {timeout_seconds:g} s")
        host.sleep(POLL_SECONDS)


def stay_up(host: Host, unit: str, first: UnitState, *, until_seconds: float) -> None:
    """Return at this time of Host.monotonic, or at once where it is over, if the unit is still the same start.

    Raise EngineNotAnswering, as `wait_until_ready` does, as soon as it is not.
    """
    while True:
        _check_alive(host, unit, first)
        left = until_seconds - host.monotonic()
        if left <= 0:
            return
        host.sleep(min(left, POLL_SECONDS))


def _check_alive(host: Host, unit: str, first: UnitState) -> None:
    now = state(host, unit)
    if now.active_state in {"failed", "inactive", "deactivating"} or now.sub_state == "auto-restart":
        how = f"exit status {now.exit_status}" if now.exit_status else f"result {now.result or 'unknown'}"
        raise _not_ready(host, unit, f"{unit} ended while starting ({how})")
    if now.restarts > first.restarts or now.invocation_id != first.invocation_id:
        raise _not_ready(host, unit, f"{unit} crashed and was started again by systemd")


def _not_ready(host: Host, unit: str, message: str) -> EngineNotAnswering:
    words = journal_tail(host, unit)
    said = f"; its last words: {' | '.join(words[-6:])}" if words else ""
    return EngineNotAnswering(message + said, hint=f"read the log: journalctl -u {unit} -n 100")
