"""One hostile input under the limits: 64 MiB more of memory, 2 seconds of processor, and no error but our own."""

from __future__ import annotations

import resource
import signal
import time
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from llmops.core.errors import LlmopsError

MEMORY_BYTES = 64 * 1024 * 1024
CPU_SECONDS = 2.0
MESSAGE_LETTERS = 4_096
_PAGE_BYTES = resource.getpagesize()


class Finding(AssertionError):
    """An input that broke a limit, or came out as another error than ours."""


class TookTooLong(BaseException):
    """Not an Exception, so that no `except` of the code under test hides it."""


@dataclass(frozen=True)
class Outcome:
    """What became of one input: `read`, or the code of the error that refused it."""

    kind: str
    cpu_seconds: float


def under_limits(read: Callable[[], object]) -> Outcome:
    """Read once; raises Finding where a limit or a promise is broken."""
    began = time.process_time()
    kind = "read"
    try:
        with _limited():
            read()
    except LlmopsError as refused:
        kind = refused.code
        _check_complaint(refused)
    except MemoryError as problem:
        raise Finding(f"needs more than {MEMORY_BYTES >> 20} MiB") from problem
    except TookTooLong as problem:
        raise Finding(f"takes more than {CPU_SECONDS} s") from problem
    except Exception as problem:  # whatever else comes out is what is looked for
        raise Finding(f"comes out as {type(problem).__name__}: {problem}") from problem
    seconds = time.process_time() - began
    if seconds > CPU_SECONDS:
        raise Finding(f"takes {seconds:.1f} s")
    return Outcome(kind, seconds)


def peak_bytes(read: Callable[[], object]) -> int:
    """The most that Python held at one time while reading; raises Finding above the limit."""
    tracemalloc.start()
    try:
        with suppress(LlmopsError):
            read()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    if peak > MEMORY_BYTES:
        raise Finding(f"holds {peak / 2**20:.1f} MiB")
    return peak


def _check_complaint(refused: LlmopsError) -> None:
    """An error says what and what to do, in a length and in letters that a terminal can be given."""
    text = refused.message + (refused.hint or "")
    if not refused.message or not refused.hint:
        raise Finding(f"refused without a message or a hint: {refused.message!r}")
    if len(text) > MESSAGE_LETTERS or not text.isprintable():
        raise Finding(f"refused in {len(text)} letters, or in letters that a terminal obeys: {text[:200]!r}")


@contextmanager
def _limited() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    mapped = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0]) * _PAGE_BYTES
    old_profile = signal.signal(signal.SIGPROF, _stop)
    resource.setrlimit(resource.RLIMIT_AS, (mapped + MEMORY_BYTES, hard))
    signal.setitimer(signal.ITIMER_PROF, CPU_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
        signal.signal(signal.SIGPROF, old_profile)


def _stop(_number: int, _frame: FrameType | None) -> None:
    raise TookTooLong
