"""A dry run: a MutableHost that makes no change, notes each, and reads back what it noted."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath, PurePosixPath

from llmops.core.errors import Unsupported
from llmops.core.files import Change
from llmops.core.hardware import GpuReading
from llmops.host import (
    ChildProcess,
    Completed,
    FileStatus,
    Host,
    ListeningSocket,
    Lock,
    ProcessInfo,
    Response,
    StreamTimings,
)


@dataclass(frozen=True)
class _Noted:
    text: str
    mode: int
    uid: int
    gid: int


class _NoLock:
    def release(self) -> None:
        """Nothing was taken."""


class Rehearsal:
    """Wraps a Host. `changes` are the files that differ in the end, `commands` what would have been run, in order."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._noted: dict[str, _Noted | None] = {}
        self._commands: list[tuple[str, ...]] = []

    @property
    def changes(self) -> tuple[Change, ...]:
        """One per file whose content, mode or existence would differ."""
        found = (self._change(path, after) for path, after in self._noted.items())
        return tuple(change for change in found if change is not None)

    @property
    def commands(self) -> tuple[tuple[str, ...], ...]:
        """Commands that would have been executed; each is taken to succeed silently."""
        return tuple(self._commands)

    def write_text(
        self, path: PurePath | str, text: str, *, mode: int, uid: int | None = None, gid: int | None = None
    ) -> None:
        """Noted."""
        own = self._host.effective_uid()
        self._noted[str(path)] = _Noted(text, mode, own if uid is None else uid, own if gid is None else gid)

    def remove(self, path: PurePath | str) -> None:
        """Noted."""
        self._noted[str(path)] = None

    def remove_directory_if_empty(self, path: PurePath | str) -> None:
        """Nothing: an empty directory is no part of the result."""

    def execute(self, argv: Sequence[str], *, timeout_seconds: float = 120.0) -> Completed:
        """Noted, and taken to succeed."""
        self._commands.append(tuple(argv))
        return Completed(tuple(argv), 0, "", "")

    def spawn(self, argv: Sequence[str], environment: Mapping[str, str]) -> ChildProcess:
        """Refused: nothing that a real child would say can be rehearsed."""
        raise Unsupported(f"a dry run does not start {argv[0]}", hint="run it without --dry-run, or use --trial")

    def lock(self, path: PurePath | str) -> Lock:
        """Nothing is taken, since nothing is changed."""
        return _NoLock()

    def read_text(self, path: PurePath | str) -> str:
        """What was noted, else what the machine has."""
        noted = self._look(path)
        return self._host.read_text(str(path)) if noted is None else noted.text

    def read_bytes(self, path: PurePath | str, offset: int, length: int) -> bytes:
        """What was noted, else what the machine has."""
        noted = self._look(path)
        if noted is None:
            return self._host.read_bytes(str(path), offset, length)
        return noted.text.encode("utf-8")[offset : offset + length]

    def status(self, path: PurePath | str) -> FileStatus:
        """What was noted, else what the machine has; a noted file has no device and no inode yet (0)."""
        noted = self._look(path)
        if noted is None:
            return self._host.status(str(path))
        size = len(noted.text.encode("utf-8"))
        return FileStatus("file", size, noted.mode, noted.uid, noted.gid, self._host.now(), 0, 0)

    def list_directory(self, path: PurePath | str) -> tuple[str, ...]:
        """What the machine has, with the noted files added and the removed ones left out."""
        directory = PurePosixPath(path)
        noted = {PurePosixPath(name): after for name, after in self._noted.items()}
        here = {name.name: after for name, after in noted.items() if name.parent == directory}
        added = {name for name, after in here.items() if after is not None}
        try:
            names = set(self._host.list_directory(str(path)))
        except FileNotFoundError:
            if not added:
                raise
            names = set()
        gone = {name for name, after in here.items() if after is None}
        return tuple(sorted((names | added) - gone))

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

    def _look(self, path: PurePath | str) -> _Noted | None:
        """The noted file, None where nothing was noted; FileNotFoundError where it was removed."""
        if str(path) not in self._noted:
            return None
        noted = self._noted[str(path)]
        if noted is None:
            raise FileNotFoundError(2, "No such file or directory", str(path))
        return noted

    def _change(self, path: str, after: _Noted | None) -> Change | None:
        try:
            before, status = self._host.read_text(str(path)), self._host.status(path)
        except FileNotFoundError:
            if after is None:
                return None
            return Change(path, None, after.text, after_mode=after.mode)
        if after is None:
            return Change(path, before, None, status.mode, None, status.uid, status.gid)
        if (before, status.mode) == (after.text, after.mode):
            return None
        return Change(path, before, after.text, status.mode, after.mode, status.uid, status.gid)
