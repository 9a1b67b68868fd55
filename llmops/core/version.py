"""Versions, and facts that changed with them: tables, never `if version >=` in logic."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")
_NUMBERS = re.compile(r"\d+(?:\.\d+)*")


@dataclass(frozen=True, order=True)
class Version:
    """Release numbers in order of weight; a llama.cpp build is one number: Version((11434,))."""

    parts: tuple[int, ...]

    @classmethod
    def parse(cls, text: str) -> Version | None:
        """The first dotted number in the text, or None."""
        match = _NUMBERS.search(text)
        return cls(tuple(int(part) for part in match.group().split("."))) if match else None

    def __str__(self) -> str:
        return ".".join(str(part) for part in self.parts)


@dataclass(frozen=True)
class Since(Generic[T]):
    """From this version on the fact has this value, as the source says."""

    version: Version
    value: T
    source: str


@dataclass(frozen=True)
class Timeline(Generic[T]):
    """What a fact was from which version on; rows sorted from old to new."""

    rows: tuple[Since[T], ...]

    def at(self, version: Version | None) -> T:
        """The value in force at a version; an unknown version counts as the newest known one."""
        if version is None:
            return self.rows[-1].value
        held = [row for row in self.rows if row.version <= version]
        return held[-1].value if held else self.rows[0].value
