"""The same question is asked of the machine once."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from llmops.host import Completed, ListeningSocket, ProcessInfo
from llmops.host.one_look import OneLook
from tests.unit.fake_machine import FakeMachine


class Counted(FakeMachine):
    """Counts what it is asked."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[str] = []

    def processes(self) -> tuple[ProcessInfo, ...]:
        """Counted."""
        self.asked.append("processes")
        return (ProcessInfo(1, None, None, ("init",), None, 0, None),)

    def listening_sockets(self) -> tuple[ListeningSocket, ...]:
        """Counted."""
        self.asked.append("listeners")
        return (ListeningSocket("127.0.0.1", 8080, 1),)

    def query(self, argv: Sequence[str], *, timeout_seconds: float = 20.0) -> Completed:
        """Counted; `gone` cannot be run."""
        self.asked.append(argv[0])
        if argv[0] == "gone":
            raise FileNotFoundError(argv[0])
        return Completed(tuple(argv), 0, f"answer {len(self.asked)}", "")


def test_processes_listeners_and_commands_are_asked_for_once() -> None:
    machine = Counted()
    look = OneLook(machine)
    assert look.processes() is look.processes()
    assert look.listening_sockets() is look.listening_sockets()
    assert look.query(["docker", "ps"]) is look.query(("docker", "ps"))
    assert look.query(("docker", "info")) != look.query(("docker", "ps"))
    assert machine.asked == ["processes", "listeners", "docker", "docker"]


def test_a_command_that_cannot_be_run_is_tried_again() -> None:
    machine = Counted()
    look = OneLook(machine)
    for _ in range(2):
        with pytest.raises(FileNotFoundError):
            look.query(("gone",))
    assert machine.asked == ["gone", "gone"]


def test_everything_else_is_passed_on() -> None:
    machine = Counted()
    assert OneLook(machine).effective_uid() == machine.effective_uid()
