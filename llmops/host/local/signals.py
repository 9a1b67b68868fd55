"""Signals that end a run become one exception, so that whatever was begun is undone on the way out."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType

from llmops.core.errors import Interrupted

ENDING_SIGNALS = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)


class _State:
    """Python runs handlers in the main thread only, so this is one for the process."""

    held_back = 0
    waiting: int | None = None


_STATE = _State()


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """Raise Interrupted in the main thread at the first ending signal; later ones do nothing, so that undo ends.

    A signal that is ignored at the start (nohup) stays ignored. Handlers are put back at the end.
    """
    arrived: list[int] = []

    def handle(signal_number: int, _frame: FrameType | None) -> None:
        # A function and not SIG_IGN for the later ones: commands that undo starts must not inherit the ignoring.
        arrived.append(signal_number)
        if len(arrived) > 1:
            return
        if _STATE.held_back:
            _STATE.waiting = signal_number
            return
        raise Interrupted(signal_number)

    listened = [number for number in ENDING_SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, handle) for number in listened}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def held_back() -> Iterator[None]:
    """Let a signal wait until the end of the block: a process that is half started has no name to end it by."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    _STATE.held_back += 1
    try:
        yield
    finally:
        _STATE.held_back -= 1
        if _STATE.waiting is not None and not _STATE.held_back:
            arrived, _STATE.waiting = _STATE.waiting, None
            raise Interrupted(arrived)
