"""One llmops at a time: a lock that the kernel takes back when its holder dies."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from llmops.core.errors import Locked


class LocalLock:
    """An exclusive flock; the file names its holder."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor: int | None = descriptor

    def release(self) -> None:
        """Give it back; a second call does nothing. The file stays: removing it would let two holders in."""
        if self._descriptor is not None:
            os.ftruncate(self._descriptor, 0)
            os.close(self._descriptor)
            self._descriptor = None


def take(path: str) -> LocalLock:
    """Take the lock at once; raises Locked with the holder's process number."""
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as held:
        holder = os.pread(descriptor, 32, 0).decode("ascii", errors="replace").strip()
        os.close(descriptor)
        raise Locked(
            f"another llmops{f' (process {holder})' if holder else ''} holds {path}",
            hint="wait until it has ended, then run the same command again",
        ) from held
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, f"{os.getpid()}\n".encode("ascii"), 0)
    return LocalLock(descriptor)
