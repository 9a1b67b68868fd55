"""A dry run: a MutableHost that makes no change, notes each, and reads back what it noted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath, PurePosixPath

from llmops.core.errors import Unsupported
from llmops.core.files import Change
from llmops.host import ChildProcess, Completed, FileStatus, Host, Lock
from llmops.host.delegating import DelegatingHost


@dataclass(frozen=True)
class _Noted:
    text: str
    mode: int
    uid: int
    gid: int


class _NoLock:
    def release(self) -> None:
        """Nothing was taken."""


class Rehearsal(DelegatingHost):
    """Wraps a Host. `changes` are the files that differ in the end, `commands` what would have been run, in order."""

    def __init__(self, host: Host) -> None:
        super().__init__(host)
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
