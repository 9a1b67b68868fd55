"""Children that live as long as llmops wants them to: started, listened to, and surely ended."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Mapping
from typing import IO

from llmops.host.local.commands import kill_group, shell_exit_code, start
from llmops.host.local.signals import held_back

KEPT_OUTPUT_BYTES = 256 * 1024
_POLL_SECONDS = 0.02


def spawn(argv: tuple[str, ...], environment: Mapping[str, str]) -> LocalChild:
    """Start a child in a session of its own. Call it from a thread that lives on: the child dies with that thread."""
    child: LocalChild | None = None
    try:
        with held_back():
            child = LocalChild(start(argv, environment, subprocess.STDOUT))
    except BaseException:
        if child is not None:
            child.stop(grace_seconds=0.0)
        raise
    return child


class LocalChild:
    """A running child and the end of what it printed."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.pid = process.pid
        self._process = process
        self._printed = bytearray()
        self._lock = threading.Lock()
        assert process.stdout is not None  # noqa: S101 - asked for in spawn
        self._reader = threading.Thread(target=self._read, args=(process.stdout,), daemon=True)
        self._reader.start()

    def exit_code(self) -> int | None:
        """None while it runs; 128 + n after a death by signal n.

        The child is looked at and not reaped, so that its group number stays its own until `stop`.
        """
        if self._process.returncode is not None:
            return shell_exit_code(self._process.returncode)
        found = os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        if found is None:
            return None
        return found.si_status if found.si_code == os.CLD_EXITED else 128 + found.si_status

    def output(self) -> str:
        """The last 256 KiB that it printed, both streams."""
        with self._lock:
            return self._printed.decode("utf-8", errors="replace")

    def stop(self, *, grace_seconds: float) -> int:
        """SIGTERM to the whole group, SIGKILL to what is left of it after the grace; the exit code."""
        if self._process.returncode is None:
            try:
                if self.exit_code() is None:
                    kill_group(self.pid, signal.SIGTERM)
                    self._wait(grace_seconds)
            finally:
                # Also when we are interrupted in the wait, and also for grandchildren of a leader that has gone.
                kill_group(self.pid, signal.SIGKILL)
                self._process.wait()
        self._reader.join(timeout=1.0)
        return shell_exit_code(self._process.returncode)

    def _wait(self, grace_seconds: float) -> None:
        deadline = time.monotonic() + grace_seconds
        while self.exit_code() is None and time.monotonic() < deadline:
            time.sleep(_POLL_SECONDS)

    def _read(self, stream: IO[bytes]) -> None:
        with stream:
            while piece := os.read(stream.fileno(), 65536):
                with self._lock:
                    self._printed += piece
                    del self._printed[:-KEPT_OUTPUT_BYTES]
