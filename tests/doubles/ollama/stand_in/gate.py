"""The slots of a loaded model: first come, first served, with no limit on how many wait."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable


class ClientGone(Exception):
    """The client closed the connection."""


class Gate:
    """A semaphore that keeps the order of arrival."""

    def __init__(self, slots: int) -> None:
        self._free = slots
        self._lock = threading.Lock()
        self._waiting: deque[threading.Event] = deque()

    def enter(self, gone: Callable[[], bool]) -> None:
        """Wait for a slot; ClientGone when the client left first, and its place is free again."""
        with self._lock:
            if self._free and not self._waiting:
                self._free -= 1
                return
            turn = threading.Event()
            self._waiting.append(turn)
        while not turn.wait(0.1):
            if gone() and self._give_up(turn):
                raise ClientGone

    def leave(self) -> None:
        """Pass the slot to the next in line."""
        with self._lock:
            if self._waiting:
                self._waiting.popleft().set()
            else:
                self._free += 1

    def _give_up(self, turn: threading.Event) -> bool:
        with self._lock:
            if turn.is_set():
                return False
            self._waiting.remove(turn)
            return True
