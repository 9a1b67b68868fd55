"""Hostile directories: files with holes, links, pipes and loops, laid out for one reading and taken away again."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

MEMORY_DISK = Path("/dev/shm")  # thousands of small files, each for a moment


@dataclass(frozen=True)
class File:
    """A file of `content`, and after it a hole of `hole_bytes`."""

    content: bytes
    hole_bytes: int = 0


@dataclass(frozen=True)
class Link:
    """A symbolic link; the target as it is written."""

    target: str


@dataclass(frozen=True)
class Pipe:
    """A FIFO that nobody writes to."""


@dataclass(frozen=True)
class Folder:
    """An empty directory."""


Entry = File | Link | Pipe | Folder


@contextmanager
def workplace() -> Iterator[Path]:
    """A new directory, in memory where there is such a place."""
    where = str(MEMORY_DISK) if os.access(MEMORY_DISK, os.W_OK) else None
    directory = Path(tempfile.mkdtemp(prefix="llmops-fuzz-", dir=where))
    try:
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def lay_out(root: Path, tree: Mapping[str, Entry]) -> None:
    """Make the tree below an emptied root; an entry that cannot stand where another stands is left out.

    So is what would be made through a link: nothing is ever written outside the root.
    """
    for old in root.iterdir():
        if not old.is_symlink() and old.is_dir():
            shutil.rmtree(old)
        else:
            old.unlink()
    for name, entry in tree.items():
        path = root / name
        with suppress(OSError):
            if not any(parent.is_symlink() for parent in path.parents if parent.is_relative_to(root)):
                _make(path, entry)


def _make(path: Path, entry: Entry) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(entry, Link):
        path.symlink_to(entry.target)
    elif isinstance(entry, Pipe):
        os.mkfifo(path)
    elif isinstance(entry, Folder):
        path.mkdir()
    else:
        with path.open("xb") as stream:
            stream.write(entry.content)
            stream.truncate(len(entry.content) + entry.hole_bytes)
