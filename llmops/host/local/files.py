"""Reading files, and changing them so that a crash at any moment leaves either the old file or the new one."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from llmops.host import FileStatus

DIRECTORY_MODE = 0o755
# Four times the entries of any directory that llmops has a use for; a stranger may have filled one without end.
MAX_ENTRIES = 16_384
TEMPORARY_SUFFIX = ".llmops-new"
_KINDS = (
    (stat.S_ISREG, "file"),
    (stat.S_ISDIR, "directory"),
    (stat.S_ISSOCK, "socket"),
    (stat.S_ISFIFO, "pipe"),
    (stat.S_ISCHR, "device"),
    (stat.S_ISBLK, "device"),
)


def read_text(path: str) -> str:
    """The whole file as UTF-8; undecodable bytes become U+FFFD, line ends stay as they are."""
    return Path(path).read_bytes().decode("utf-8", errors="replace")


def read_bytes(path: str, offset: int, length: int) -> bytes:
    """At most `length` bytes from `offset`; fewer only at the end of the file."""
    # O_NONBLOCK: a pipe put in the place of a file must not hold this program for ever.
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as stream:
        stream.seek(offset)
        return stream.read(length)


def status(path: str) -> FileStatus:
    """What stat says, links followed; FileNotFoundError where nothing is."""
    found = Path(path).stat()
    kind = next((name for matches, name in _KINDS if matches(found.st_mode)), "other")
    return FileStatus(
        kind=kind,
        size_bytes=found.st_size,
        mode=stat.S_IMODE(found.st_mode),
        uid=found.st_uid,
        gid=found.st_gid,
        modified_seconds=found.st_mtime,
        device=found.st_dev,
        inode=found.st_ino,
    )


def list_directory(path: str) -> tuple[str, ...]:
    """Names in sorted order; OSError for a directory that holds more than MAX_ENTRIES."""
    with os.scandir(path) as entries:
        names = [entry.name for entry in islice(entries, MAX_ENTRIES + 1)]
    if len(names) > MAX_ENTRIES:
        raise OSError(errno.EFBIG, f"holds more than {MAX_ENTRIES} entries", path)
    return tuple(sorted(names))


def resolve(path: str) -> str:
    """The path with every link followed; parts that do not exist stay as they are."""
    return os.path.realpath(path)  # a loop of links ends it; Path.resolve raises RuntimeError there before 3.13


def which(program: str) -> str | None:
    """The absolute path of a program on PATH."""
    import shutil  # it brings every compression along

    found = shutil.which(program)
    return None if found is None else str(Path(found).absolute())


def write_text(path: str, text: str, *, mode: int, uid: int | None = None, gid: int | None = None) -> None:
    """Replace the file in one step: temporary file beside it, mode, owner, fsync, rename, fsync of the directory.

    A file that is already so is left alone: going back must not fail because the disk is full or read-only.
    Owner and group None are those of this process. When anything fails nothing is left behind, directories included.
    """
    target, content = Path(path), text.encode("utf-8")
    # One fixed name: a run that was killed leaves at most one of these, and the next write takes it away.
    temporary = _temporary(target)
    if _unlinked(temporary):
        _sync_directory(target.parent)
    if _is_so(target, content, mode, uid, gid):
        return
    with _parents_made(target.parent):
        try:
            _write_new(temporary, content, mode, uid, gid)
            temporary.replace(target)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        _sync_directory(target.parent)


def remove(path: str) -> None:
    """Remove a file durably, and what a killed write left beside it; nothing where there is none."""
    target = Path(path)
    removed = [entry for entry in (_temporary(target), target) if _unlinked(entry)]
    if removed:
        _sync_directory(target.parent)


def remove_directory_if_empty(path: str) -> None:
    """Remove an empty directory durably; nothing where it is absent or holds something."""
    if not os.path.lexists(path):  # see _unlinked
        return
    try:
        Path(path).rmdir()
    except FileNotFoundError:
        return
    except OSError as problem:
        if problem.errno in (errno.ENOTEMPTY, errno.EEXIST):
            return
        raise
    _sync_directory(Path(path).parent)


def _unlinked(entry: Path) -> bool:
    """Remove an entry; False where there is none, which is looked at first: on a read-only disk unlink(2) and
    rmdir(2) fail with EROFS even for what does not exist."""
    if not os.path.lexists(entry):
        return False
    with contextlib.suppress(FileNotFoundError):
        entry.unlink()
        return True
    return False


def _is_so(target: Path, content: bytes, mode: int, uid: int | None, gid: int | None) -> bool:
    try:
        found = target.lstat()
        same = stat.S_ISREG(found.st_mode) and stat.S_IMODE(found.st_mode) == mode
        owned = uid in (None, found.st_uid) and gid in (None, found.st_gid)
        return same and owned and target.read_bytes() == content
    except OSError:
        return False


def _temporary(target: Path) -> Path:
    return target.with_name(f".{target.name}{TEMPORARY_SUFFIX}")


def _write_new(temporary: Path, content: bytes, mode: int, uid: int | None, gid: int | None) -> None:
    # O_EXCL and O_NOFOLLOW: in a directory that others can write to, nobody may put a link in the way.
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as stream:
        stream.write(content)
        stream.flush()
        if uid is not None or gid is not None:
            os.fchown(descriptor, -1 if uid is None else uid, -1 if gid is None else gid)
        # After the owner, because chown clears the set-user bits; explicit, because the umask must not matter.
        os.fchmod(descriptor, mode)
        os.fsync(descriptor)


@contextlib.contextmanager
def _parents_made(directory: Path) -> Iterator[None]:
    missing: list[Path] = []
    while not directory.is_dir():
        missing.append(directory)
        directory = directory.parent
    made: list[Path] = []
    try:
        for parent in reversed(missing):
            parent.mkdir(DIRECTORY_MODE)
            made.append(parent)
            parent.chmod(DIRECTORY_MODE)
            _sync_directory(parent.parent)
        yield
    except BaseException:
        for parent in reversed(made):
            remove_directory_if_empty(str(parent))
        raise


def _sync_directory(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
