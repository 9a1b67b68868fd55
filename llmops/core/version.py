"""Versions, and facts that changed with them: tables, never `if version >=` in logic."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")
_NUMBERS = re.compile(r"\d+(?:\.\d+)*")
# 11434, v0.33.0, b9265; 0.2x stands for 0.20 to 0.29, 0.9.x and 0.9.* for every 0.9.
_NAMED = re.compile(
    r"[A-Za-z]*(?P<numbers>\d+(?:\.\d+)*)(?:(?P<tens>x)(?![\w.])|(?P<rest>\.[x*])(?![\w.])|(?!\.?[x*]))"
)
_ANY_PATCH = 999


@dataclass(frozen=True, order=True)
class Version:
    """Release numbers in order of weight; a llama.cpp build is one number: Version((11434,))."""

    parts: tuple[int, ...]

    @classmethod
    def parse(cls, text: str) -> Version | None:
        """The first dotted number in the text, or None."""
        match = _NUMBERS.search(text)
        return cls(tuple(int(part) for part in match.group().split("."))) if match else None

    @classmethod
    def parse_newest(cls, text: str) -> Version | None:
        """The version that a person names, in full or in part: of 0.9.x and 0.2x the newest that it can mean.

        None for a text that does not begin as a version does.
        """
        match = _NAMED.match(text.strip())
        if match is None:
            return None
        parts = [int(part) for part in match.group("numbers").split(".")]
        if match.group("tens"):
            parts[-1] = parts[-1] * 10 + 9
        return cls((*parts, _ANY_PATCH) if match.group("tens") or match.group("rest") else tuple(parts))

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
