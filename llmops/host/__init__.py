"""The only door to the machine: `Host` looks, `MutableHost` changes. Who asks for a Host cannot change anything."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Protocol

from llmops.core.hardware import GpuReading


@dataclass(frozen=True)
class Completed:
    """A command that ended; the caller knows which exit codes are answers."""

    argv: tuple[str, ...]
    exit_code: int
    stdout: str
    stderr: str


@dataclass(frozen=True)
class FileStatus:
    """What stat says of one path, links followed; `kind` is file, directory, socket, device or other."""

    kind: str
    size_bytes: int
    mode: int
    uid: int
    gid: int
    modified_seconds: float
    device: int
    inode: int


@dataclass(frozen=True)
class Response:
    """An HTTP answer: any status is an answer."""

    status: int
    body: str
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class StreamTimings:
    """One streamed completion, times in seconds since the request was sent.

    `events` holds one (time, JSON text) per server-sent event that carried data. `error` is None for a whole stream.
    """

    started_seconds: float
    status: int | None
    headers_seconds: float | None
    events: tuple[tuple[float, str], ...]
    ended_seconds: float
    error: str | None = None


@dataclass(frozen=True)
class ListeningSocket:
    """A TCP socket that listens; `pid` is None where it may not be seen."""

    address: str
    port: int
    pid: int | None


@dataclass(frozen=True)
class ProcessInfo:
    """One process: None for what this user may not read."""

    pid: int
    parent_pid: int | None
    executable: str | None
    argv: tuple[str, ...]
    environment: tuple[tuple[str, str], ...] | None
    uid: int | None
    control_group: str | None


class Host(Protocol):
    """Looking at a machine. Paths are absolute; OSError subclasses mean what they mean in Python."""

    def read_text(self, path: PurePosixPath | str) -> str:
        """The whole text file (undecodable bytes replaced); FileNotFoundError, PermissionError, OSError as usual."""
        ...

    def read_bytes(self, path: PurePosixPath | str, offset: int, length: int) -> bytes:
        """At most `length` bytes from `offset`; fewer only at the end of the file."""
        ...

    def status(self, path: PurePosixPath | str) -> FileStatus:
        """Raise FileNotFoundError where nothing is."""
        ...

    def list_directory(self, path: PurePosixPath | str) -> tuple[str, ...]:
        """Names in sorted order; FileNotFoundError where there is no directory, OSError where it holds too many."""
        ...

    def resolve(self, path: PurePosixPath | str) -> str:
        """The path with every link followed."""
        ...

    def query(self, argv: Sequence[str], *, timeout_seconds: float = 20.0) -> Completed:
        """Run a command that changes nothing; FileNotFoundError where the program is absent, TimeoutError when late."""
        ...

    def which(self, program: str) -> str | None:
        """The absolute path of a program on PATH."""
        ...

    def get(self, url: str, *, timeout_seconds: float = 5.0) -> Response:
        """GET; ConnectionRefusedError where nobody listens, ConnectionError for no HTTP, TimeoutError when late."""
        ...

    def stream_completion(
        self, url: str, payload: Mapping[str, object], *, timeout_seconds: float = 300.0
    ) -> StreamTimings:
        """POST a JSON payload and time every event of the streamed answer; failures are in the result."""
        ...

    def post(self, url: str, payload: Mapping[str, object], *, timeout_seconds: float = 300.0) -> Response:
        """POST JSON; ConnectionError where nothing answers, TimeoutError when late."""
        ...

    def gpus(self) -> GpuReading:
        """The cards as NVML reports them."""
        ...

    def affinity_cpus(self) -> int | None:
        """Processors that this process may be scheduled on."""
        ...

    def processes(self) -> tuple[ProcessInfo, ...]:
        """Every process that /proc shows."""
        ...

    def listening_sockets(self) -> tuple[ListeningSocket, ...]:
        """Every listening TCP socket, with its owner where this user may see it."""
        ...

    def memory_read_seconds(self, buffer_bytes: int, threads: int, passes: int) -> tuple[float, ...]:
        """Read `buffer_bytes` (written before) with that many threads, `passes` times; wall seconds of each pass."""
        ...

    def effective_uid(self) -> int:
        """0 for root."""
        ...

    def environment(self) -> Mapping[str, str]:
        """The environment of this process."""
        ...

    def now(self) -> float:
        """Seconds since 1970."""
        ...

    def monotonic(self) -> float:
        """Seconds of a clock that never steps."""
        ...

    def sleep(self, seconds: float) -> None:
        """Wait."""
        ...

    def together(self, jobs: Sequence[Callable[[], StreamTimings]]) -> tuple[StreamTimings, ...]:
        """Run the jobs at the same time, one thread each; their results in order."""
        ...


class ChildProcess(Protocol):
    """A process that llmops started and will end."""

    pid: int

    def exit_code(self) -> int | None:
        """None while it runs."""
        ...

    def output(self) -> str:
        """What it has printed so far (both streams, the last 256 KiB)."""
        ...

    def stop(self, *, grace_seconds: float) -> int:
        """SIGTERM, after the grace SIGKILL, to the whole process group; the exit code."""
        ...


class Lock(Protocol):
    """An exclusive lock, released by `release` or by the end of the process."""

    def release(self) -> None:
        """Give it back."""
        ...


class MutableHost(Host, Protocol):
    """Changing a machine. Only apply, rollback and trial ask for this."""

    def write_text(
        self, path: PurePosixPath | str, text: str, *, mode: int, uid: int | None = None, gid: int | None = None
    ) -> None:
        """Atomic: a temporary file in the same directory, mode and owner, fsync, rename, fsync of the directory.

        Missing parent directories are made with mode 0755.
        """
        ...

    def remove(self, path: PurePosixPath | str) -> None:
        """Remove a file and make it durable; nothing where there is none."""
        ...

    def remove_directory_if_empty(self, path: PurePosixPath | str) -> None:
        """Remove an empty directory; nothing where it is absent or holds something."""
        ...

    def execute(self, argv: Sequence[str], *, timeout_seconds: float = 120.0) -> Completed:
        """Run a command that changes something."""
        ...

    def spawn(self, argv: Sequence[str], environment: Mapping[str, str]) -> ChildProcess:
        """Start a child in its own process group; it ends when llmops dies."""
        ...

    def lock(self, path: PurePosixPath | str) -> Lock:
        """Take an exclusive lock at once or raise llmops.core.errors.Locked, naming the holder."""
        ...
