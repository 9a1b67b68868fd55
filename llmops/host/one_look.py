"""One look at a machine: who asks for the same a second time gets the first answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from llmops.host.delegating import DelegatingHost

if TYPE_CHECKING:
    from llmops.host import Completed, Host, ListeningSocket, ProcessInfo


class OneLook(DelegatingHost):
    """Reads processes and listeners once and runs each command once: for what looks and does not wait.

    Detecting every engine and what it serves would otherwise walk through /proc several times for each of them, and
    start the container managers again.
    """

    def __init__(self, host: Host) -> None:
        super().__init__(host)
        self._processes: tuple[ProcessInfo, ...] | None = None
        self._listeners: tuple[ListeningSocket, ...] | None = None
        self._answers: dict[tuple[str, ...], Completed] = {}

    def processes(self) -> tuple[ProcessInfo, ...]:
        """As they were at the first question."""
        if self._processes is None:
            self._processes = self._host.processes()
        return self._processes

    def listening_sockets(self) -> tuple[ListeningSocket, ...]:
        """As they were at the first question."""
        if self._listeners is None:
            self._listeners = self._host.listening_sockets()
        return self._listeners

    def query(self, argv: Sequence[str], *, timeout_seconds: float = 20.0) -> Completed:
        """What the command said the first time; one that could not be run is tried again."""
        words = tuple(argv)
        if words not in self._answers:
            self._answers[words] = self._host.query(words, timeout_seconds=timeout_seconds)
        return self._answers[words]
