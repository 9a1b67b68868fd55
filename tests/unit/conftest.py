"""Unit tests start no process and open no socket: trying to ends the test with an error that no code can swallow."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest

# Names of CPython's audit events (docs.python.org/3/library/audit_events.html).
FORBIDDEN_EVENTS = frozenset(
    {
        "os.exec",
        "os.fork",
        "os.forkpty",
        "os.posix_spawn",
        "os.spawn",
        "os.system",
        "socket.__new__",
        "socket.bind",
        "socket.connect",
        "subprocess.Popen",
    }
)


class TouchedTheMachine(BaseException):
    """Not an Exception, so that no `except` of the code under test hides it."""


class _Guard:
    closed = False

    def hear(self, event: str, _arguments: object) -> None:
        if self.closed and event in FORBIDDEN_EVENTS:
            raise TouchedTheMachine(f"{event} in a unit test: substitute the Host, or move the test to another layer")


_GUARD = _Guard()
sys.addaudithook(_GUARD.hear)  # cannot be taken away again, hence the switch


@pytest.fixture(autouse=True)
def no_machine() -> Iterator[None]:
    """Closed while a unit test runs, open for the other layers."""
    _GUARD.closed = True
    try:
        yield
    finally:
        _GUARD.closed = False
