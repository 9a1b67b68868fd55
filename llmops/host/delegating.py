"""A Host in front of another one: what a subclass does not answer itself, the other does."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from llmops.core.hardware import GpuReading
    from llmops.host import Completed, FileStatus, Host, ListeningSocket, ProcessInfo, Response, StreamTimings


class DelegatingHost:
    """Passes every question on."""

    def __init__(self, host: Host) -> None:
        self._host = host

    def read_text(self, path: PurePath | str) -> str:
        """What the machine says."""
        return self._host.read_text(str(path))

    def read_bytes(self, path: PurePath | str, offset: int, length: int) -> bytes:
        """What the machine says."""
        return self._host.read_bytes(str(path), offset, length)

    def status(self, path: PurePath | str) -> FileStatus:
        """What the machine says."""
        return self._host.status(str(path))

    def list_directory(self, path: PurePath | str) -> tuple[str, ...]:
        """What the machine says."""
        return self._host.list_directory(str(path))

    def resolve(self, path: PurePath | str) -> str:
        """What the machine says."""
        return self._host.resolve(str(path))

    def query(self, argv: Sequence[str], *, timeout_seconds: float = 20.0) -> Completed:
        """What the machine says."""
        return self._host.query(argv, timeout_seconds=timeout_seconds)

    def which(self, program: str) -> str | None:
        """What the machine says."""
        return self._host.which(program)

    def get(self, url: str, *, timeout_seconds: float = 5.0) -> Response:
        """What the machine says."""
        return self._host.get(url, timeout_seconds=timeout_seconds)

    def post(self, url: str, payload: Mapping[str, object], *, timeout_seconds: float = 300.0) -> Response:
        """What the machine says."""
        return self._host.post(url, payload, timeout_seconds=timeout_seconds)

    def stream_completion(
        self, url: str, payload: Mapping[str, object], *, timeout_seconds: float = 300.0
    ) -> StreamTimings:
        """What the machine says."""
        return self._host.stream_completion(url, payload, timeout_seconds=timeout_seconds)

    def gpus(self) -> GpuReading:
        """What the machine says."""
        return self._host.gpus()

    def affinity_cpus(self) -> int | None:
        """What the machine says."""
        return self._host.affinity_cpus()

    def processes(self) -> tuple[ProcessInfo, ...]:
        """What the machine says."""
        return self._host.processes()

    def listening_sockets(self) -> tuple[ListeningSocket, ...]:
        """What the machine says."""
        return self._host.listening_sockets()

    def memory_read_seconds(self, buffer_bytes: int, threads: int, passes: int) -> tuple[float, ...]:
        """What the machine says."""
        return self._host.memory_read_seconds(buffer_bytes, threads, passes)

    def effective_uid(self) -> int:
        """What the machine says."""
        return self._host.effective_uid()

    def environment(self) -> Mapping[str, str]:
        """What the machine says."""
        return self._host.environment()

    def now(self) -> float:
        """What the machine says."""
        return self._host.now()

    def monotonic(self) -> float:
        """What the machine says."""
        return self._host.monotonic()

    def sleep(self, seconds: float) -> None:
        """What the machine says."""
        self._host.sleep(seconds)

    def together(self, jobs: Sequence[Callable[[], StreamTimings]]) -> tuple[StreamTimings, ...]:
        """What the machine says."""
        return self._host.together(jobs)
