"""Files that llmops would write, and the difference between them and the disk."""

from __future__ import annotations

from dataclasses import dataclass

PUBLIC_FILE_MODE = 0o644


@dataclass(frozen=True)
class RenderedFile:
    """The exact content of one file as it should be."""

    path: str
    content: str
    mode: int = PUBLIC_FILE_MODE


@dataclass(frozen=True)
class Change:
    """One file that differs: `before` None means it does not exist, `after` None means that it is to go."""

    path: str
    before: str | None
    after: str | None
    before_mode: int | None = None
    after_mode: int | None = PUBLIC_FILE_MODE
    before_uid: int | None = None
    before_gid: int | None = None
