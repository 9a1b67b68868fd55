"""Which releases of vLLM serve an architecture, from the table of architectures.py."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from llmops.core.version import Version
from llmops.engines.vllm.architectures import ADDED, DROPPED, RELEASES

_PARTS = 3  # of a release; 0.33 is 0.33.0


@dataclass(frozen=True)
class Span:
    """The first and the last release that serve something; `last` None: the newest known one does."""

    first: str
    last: str | None = None

    def __str__(self) -> str:
        if self.last is None:
            return f"since {self.first}"
        return f"in {self.first}" if self.first == self.last else f"from {self.first} to {self.last}"


def release(text: str) -> Version:
    """A release's number, with all its parts."""
    parts = tuple(int(part) for part in text.split("."))
    return whole(Version(parts))


def whole(version: Version) -> Version:
    """The version with at least three parts."""
    return Version(version.parts + (0,) * (_PARTS - len(version.parts)))


NEWEST, OLDEST = release(RELEASES[-1]), release(RELEASES[0])


def is_known(version: Version) -> bool:
    """Whether the registry of exactly this version was read."""
    return whole(version) in {release(text) for text in RELEASES}


@cache
def served_at(version: Version) -> frozenset[str]:
    """What the newest known release that is not newer than this version serves."""
    served: set[str] = set()
    for text in RELEASES:
        if release(text) <= whole(version):
            served |= set(ADDED.get(text, "").split())
            served -= set(DROPPED.get(text, "").split())
    return frozenset(served)


def next_known(version: Version) -> Version:
    """The oldest known release that is not older than this version; the newest one where there is none."""
    return next((release(text) for text in RELEASES if release(text) >= whole(version)), NEWEST)


def spans(architecture: str) -> tuple[Span, ...]:
    """When it was served, from old to new; () for one that no known release serves."""
    found: list[Span] = []
    for number, text in enumerate(RELEASES):
        if architecture in ADDED.get(text, "").split():
            found.append(Span(text))
        elif architecture in DROPPED.get(text, "").split():
            found[-1] = Span(found[-1].first, RELEASES[number - 1])
    return tuple(found)
