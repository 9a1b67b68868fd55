"""Swap space: size, use and kind. It is reported so that a plan can stay away from it."""

from __future__ import annotations

from dataclasses import dataclass

from llmops.core.hardware import Observation, Swap
from llmops.core.units import KIB
from llmops.host import Host
from llmops.probe.sources import Notes, Text, read_source, to_int

_SWAPS = "/proc/swaps"


@dataclass(frozen=True)
class _Area:
    kind: str
    total_bytes: int
    used_bytes: int


def read_swap(host: Host) -> tuple[Swap, tuple[Observation, ...]]:
    """The swap areas in use, added up."""
    notes = Notes()
    text = read_source(host, _SWAPS)
    areas = _areas(text)
    swap = Swap(
        total_bytes=notes.note("swap.total_bytes", _sum(areas, "total_bytes"), f"{_SWAPS} Size", text.reason),
        used_bytes=notes.note("swap.used_bytes", _sum(areas, "used_bytes"), f"{_SWAPS} Used", text.reason),
        kind=notes.note("swap.kind", _kind(areas), f"{_SWAPS} Type", text.reason),
    )
    return swap, tuple(notes.rows)


def _areas(text: Text) -> tuple[_Area, ...] | None:
    """Rows of file name, type, size and use in KiB, priority; None when the file has not even its heading."""
    lines = (text.content or "").splitlines()
    if not lines:
        return None
    areas = []
    for line in lines[1:]:
        words = line.split()
        size, used = (to_int(words[2]), to_int(words[3])) if len(words) >= 5 else (None, None)
        if size is not None and used is not None:
            kind = "zram" if words[0].startswith("/dev/zram") else words[1]
            areas.append(_Area(kind, size * KIB, used * KIB))
    return tuple(areas)


def _sum(areas: tuple[_Area, ...] | None, quantity: str) -> int | None:
    return None if areas is None else sum(getattr(area, quantity) for area in areas)


def _kind(areas: tuple[_Area, ...] | None) -> str | None:
    if areas is None:
        return None
    kinds = {area.kind for area in areas}
    if len(kinds) > 1:
        return "mixed"
    return kinds.pop() if kinds else "none"
