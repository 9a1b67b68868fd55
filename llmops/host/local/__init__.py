"""The machine that llmops runs on. This package is the only one that starts processes and opens connections."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import PurePath

from llmops.core.hardware import GpuReading
from llmops.host import (
    ChildProcess,
    Completed,
    FileStatus,
    ListeningSocket,
    Lock,
    ProcessInfo,
    Response,
    StreamTimings,
)
from llmops.host.local import files

# The parts are imported where they are used: a command that only reads files must not pay for an HTTP library.


class LocalHost:
    """A MutableHost for this machine, with the rights of this process.

    `api_key` goes with every request: this host asks nobody but the servers on its machine.
    """

    def __init__(self, *, api_key: str | None = None) -> None:
        self._headers = {} if api_key is None else {"Authorization": f"Bearer {api_key}"}

    def read_text(self, path: PurePath | str) -> str:
        """The whole text file; undecodable bytes become U+FFFD."""
        return files.read_text(str(path))

    def read_bytes(self, path: PurePath | str, offset: int, length: int) -> bytes:
        """At most `length` bytes from `offset`."""
        return files.read_bytes(str(path), offset, length)

    def status(self, path: PurePath | str) -> FileStatus:
        """What stat says, links followed."""
        return files.status(str(path))

    def list_directory(self, path: PurePath | str) -> tuple[str, ...]:
        """Names in sorted order."""
        return files.list_directory(str(path))

    def resolve(self, path: PurePath | str) -> str:
        """The path with every link followed."""
        return files.resolve(str(path))

    def query(self, argv: Sequence[str], *, timeout_seconds: float = 20.0) -> Completed:
        """Run a command that changes nothing."""
        from llmops.host.local import commands

        return commands.run(tuple(argv), timeout_seconds=timeout_seconds)

    def which(self, program: str) -> str | None:
        """The absolute path of a program on PATH."""
        return files.which(program)

    def get(self, url: str, *, timeout_seconds: float = 5.0) -> Response:
        """GET, redirects not followed."""
        from llmops.host.local import http

        return http.get(url, timeout_seconds=timeout_seconds, headers=self._headers)

    def stream_completion(
        self, url: str, payload: Mapping[str, object], *, timeout_seconds: float = 300.0
    ) -> StreamTimings:
        """POST a payload and time every event of the answer."""
        from llmops.host.local import http

        return http.stream(url, payload, timeout_seconds=timeout_seconds, headers=self._headers)

    def post(self, url: str, payload: Mapping[str, object], *, timeout_seconds: float = 300.0) -> Response:
        """POST JSON, redirects not followed."""
        from llmops.host.local import http

        return http.post(url, payload, timeout_seconds=timeout_seconds, headers=self._headers)

    def gpus(self) -> GpuReading:
        """The cards as NVML reports them."""
        from llmops.host.local import nvml

        return nvml.read_gpus()

    def affinity_cpus(self) -> int | None:
        """Processors that this process may be scheduled on."""
        return len(os.sched_getaffinity(0))

    def processes(self) -> tuple[ProcessInfo, ...]:
        """Every process that /proc shows."""
        from llmops.host.local import processes

        return processes.read_processes()

    def listening_sockets(self) -> tuple[ListeningSocket, ...]:
        """Every listening TCP socket of this network namespace."""
        from llmops.host.local import listeners

        return listeners.read_listening_sockets()

    def memory_read_seconds(self, buffer_bytes: int, threads: int, passes: int) -> tuple[float, ...]:
        """Wall seconds of each pass over the buffer."""
        from llmops.host.local import memory_read

        return memory_read.memory_read_seconds(buffer_bytes, threads, passes)

    def effective_uid(self) -> int:
        """0 for root."""
        return os.geteuid()

    def environment(self) -> Mapping[str, str]:
        """A copy of the environment of this process."""
        return dict(os.environ)

    def now(self) -> float:
        """Seconds since 1970."""
        return time.time()

    def monotonic(self) -> float:
        """Seconds of a clock that never steps."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Wait."""
        time.sleep(seconds)

    def together(self, jobs: Sequence[Callable[[], StreamTimings]]) -> tuple[StreamTimings, ...]:
        """Run the jobs at the same time, one thread each."""
        from llmops.host.local import threads

        return threads.run_together(tuple(jobs))

    def write_text(
        self, path: PurePath | str, text: str, *, mode: int, uid: int | None = None, gid: int | None = None
    ) -> None:
        """Write atomically and durably; see files.write_text."""
        files.write_text(str(path), text, mode=mode, uid=uid, gid=gid)

    def remove(self, path: PurePath | str) -> None:
        """Remove a file durably; nothing where there is none."""
        files.remove(str(path))

    def remove_directory_if_empty(self, path: PurePath | str) -> None:
        """Remove an empty directory durably; nothing where it is absent or holds something."""
        files.remove_directory_if_empty(str(path))

    def execute(self, argv: Sequence[str], *, timeout_seconds: float = 120.0) -> Completed:
        """Run a command that changes something."""
        from llmops.host.local import commands

        return commands.run(tuple(argv), timeout_seconds=timeout_seconds)

    def spawn(self, argv: Sequence[str], environment: Mapping[str, str]) -> ChildProcess:
        """Start a child whose environment is this process's with `environment` over it."""
        from llmops.host.local import children

        return children.spawn(tuple(argv), environment)

    def lock(self, path: PurePath | str) -> Lock:
        """Take an exclusive lock at once or raise Locked."""
        from llmops.host.local import locks

        return locks.take(str(path))
