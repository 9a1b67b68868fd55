"""A Host that passes every question on and keeps every answer, to be replayed elsewhere."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path, PurePath
from typing import TypeVar

from llmops.core.hardware import GpuReading
from llmops.core.serialization import encode
from llmops.host import Completed, FileStatus, Host, ListeningSocket, ProcessInfo, Response, StreamTimings, recording
from llmops.host.recording import Question, Recording
from llmops.host.scrub import Scrubber, host_names

T = TypeVar("T")


class RecordingHost:
    """Wraps a Host; `save` writes all that was asked, without what belongs to nobody else."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._kept = Recording()
        self._lock = threading.Lock()

    def save(self, directory: Path) -> None:
        """Scrub and write the recording; raises OSError where the directory cannot be written."""
        Scrubber(host_names(self._host)).recording(self._kept).save(directory)

    def read_text(self, path: PurePath | str) -> str:
        """Passed on and kept."""
        return self._keep(lambda: self._host.read_text(str(path)), encode, "read_text", str(path))

    def read_bytes(self, path: PurePath | str, offset: int, length: int) -> bytes:
        """Passed on and kept; bytes are not scrubbed."""
        read = lambda: self._host.read_bytes(str(path), offset, length)  # noqa: E731
        return self._keep(read, recording.encode_bytes, "read_bytes", str(path), offset, length)

    def status(self, path: PurePath | str) -> FileStatus:
        """Passed on and kept."""
        return self._keep(lambda: self._host.status(str(path)), encode, "status", str(path))

    def list_directory(self, path: PurePath | str) -> tuple[str, ...]:
        """Passed on and kept."""
        return self._keep(lambda: self._host.list_directory(str(path)), encode, "list_directory", str(path))

    def resolve(self, path: PurePath | str) -> str:
        """Passed on and kept."""
        return self._keep(lambda: self._host.resolve(str(path)), encode, "resolve", str(path))

    def query(self, argv: Sequence[str], *, timeout_seconds: float = 20.0) -> Completed:
        """Passed on and kept."""
        ask = lambda: self._host.query(argv, timeout_seconds=timeout_seconds)  # noqa: E731
        return self._keep(ask, encode, "query", tuple(argv))

    def which(self, program: str) -> str | None:
        """Passed on and kept."""
        return self._keep(lambda: self._host.which(program), encode, "which", program)

    def get(self, url: str, *, timeout_seconds: float = 5.0) -> Response:
        """Passed on and kept."""
        return self._keep(lambda: self._host.get(url, timeout_seconds=timeout_seconds), encode, "get", url)

    def post(self, url: str, payload: Mapping[str, object], *, timeout_seconds: float = 300.0) -> Response:
        """Passed on and kept."""
        ask = lambda: self._host.post(url, payload, timeout_seconds=timeout_seconds)  # noqa: E731
        return self._keep(ask, encode, "post", url, payload)

    def stream_completion(
        self, url: str, payload: Mapping[str, object], *, timeout_seconds: float = 300.0
    ) -> StreamTimings:
        """Passed on and kept."""
        ask = lambda: self._host.stream_completion(url, payload, timeout_seconds=timeout_seconds)  # noqa: E731
        return self._keep(ask, encode, "stream_completion", url, payload)

    def gpus(self) -> GpuReading:
        """Passed on and kept."""
        return self._keep(self._host.gpus, encode, "gpus")

    def affinity_cpus(self) -> int | None:
        """Passed on and kept."""
        return self._keep(self._host.affinity_cpus, encode, "affinity_cpus")

    def processes(self) -> tuple[ProcessInfo, ...]:
        """Passed on and kept."""
        return self._keep(self._host.processes, _encode_processes, "processes")

    def listening_sockets(self) -> tuple[ListeningSocket, ...]:
        """Passed on and kept."""
        return self._keep(self._host.listening_sockets, encode, "listening_sockets")

    def memory_read_seconds(self, buffer_bytes: int, threads: int, passes: int) -> tuple[float, ...]:
        """Passed on and kept."""
        measure = lambda: self._host.memory_read_seconds(buffer_bytes, threads, passes)  # noqa: E731
        return self._keep(measure, encode, "memory_read_seconds", buffer_bytes, threads, passes)

    def effective_uid(self) -> int:
        """Passed on and kept."""
        return self._keep(self._host.effective_uid, encode, "effective_uid")

    def environment(self) -> Mapping[str, str]:
        """Passed on and kept."""
        return self._keep(self._host.environment, encode, "environment")

    def now(self) -> float:
        """Passed on; the first answer is kept."""
        now = self._host.now()
        question = Question.of("now")
        if question not in self._kept.answers:
            self._kept.add(question, now)
        return now

    def monotonic(self) -> float:
        """Passed on; a replay has its own clock."""
        return self._host.monotonic()

    def sleep(self, seconds: float) -> None:
        """Passed on."""
        self._host.sleep(seconds)

    def together(self, jobs: Sequence[Callable[[], StreamTimings]]) -> tuple[StreamTimings, ...]:
        """Passed on; each job asks this host, which keeps its answer."""
        return self._host.together(jobs)

    def _keep(self, ask: Callable[[], T], as_json: Callable[[T], object], name: str, *arguments: object) -> T:
        question = Question.of(name, *arguments)
        try:
            answer = ask()
        except OSError as failure:
            with self._lock:
                self._kept.add_failure(question, failure)
            raise
        with self._lock:
            self._kept.add(question, as_json(answer))
        return answer


def _encode_processes(processes: tuple[ProcessInfo, ...]) -> object:
    return [recording.encode_process(process) for process in processes]
