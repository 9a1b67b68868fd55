"""Signals that end a run become one exception, so that whatever was begun is undone on the way out."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator
from types import FrameType

from llmops.core.errors import Interrupted

ENDING_SIGNALS = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """Raise Interrupted in the main thread at the first ending signal; later ones do nothing, so that undo ends.

    A signal that is ignored at the start (nohup) stays ignored. Handlers are put back at the end.
    """
    arrived: list[int] = []

    def handle(signal_number: int, _frame: FrameType | None) -> None:
        # A function and not SIG_IGN for the later ones: commands that undo starts must not inherit the ignoring.
        arrived.append(signal_number)
        if len(arrived) == 1:
            raise Interrupted(signal_number)

    listened = [number for number in ENDING_SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, handle) for number in listened}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
