"""Percentiles, spread, gaps: one definition of each for everything that llmops measures."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Percentiles:
    """Half, 95 and 99 of 100 values are at or below these; None where there are no values."""

    p50: float | None
    p95: float | None
    p99: float | None
    max: float | None


def percentile(values: Iterable[float], fraction: float) -> float:
    """The value below which `fraction` (0 to 1) of the values lie, between neighbours by linear interpolation.

    Position (n - 1) x fraction in the sorted values: what numpy, pandas and R do by default (Hyndman and Fan, type 7).
    Raises ValueError for no values or a fraction outside 0 to 1.
    """
    ordered = sorted(values)
    if not ordered or not 0.0 <= fraction <= 1.0:
        raise ValueError(f"percentile {fraction} of {len(ordered)} values")
    position = (len(ordered) - 1) * fraction
    below = int(position)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (position - below)


def percentiles(values: Iterable[float]) -> Percentiles:
    """The four figures that are always shown together: a p95 alone hides a single long stall, the maximum shows it."""
    ordered = sorted(values)
    if not ordered:
        return Percentiles(None, None, None, None)
    return Percentiles(percentile(ordered, 0.5), percentile(ordered, 0.95), percentile(ordered, 0.99), ordered[-1])


def median(values: Iterable[float]) -> float:
    """The middle value; raises ValueError for none."""
    return percentile(values, 0.5)


def spread(values: Iterable[float]) -> float:
    """(largest - smallest) / median: 0.1 says that repeats differ by a tenth. Raises ValueError for a median of 0."""
    ordered = sorted(values)
    middle = median(ordered)
    if middle == 0:
        raise ValueError("the spread around 0 has no meaning")
    return (ordered[-1] - ordered[0]) / middle


def intervals(times: Sequence[float]) -> tuple[float, ...]:
    """Seconds between each time and the next; times in order."""
    return tuple(later - earlier for earlier, later in itertools.pairwise(times))


def stalls(gaps: Iterable[float], longest_gap_seconds: float) -> tuple[float, ...]:
    """The gaps that are longer than a reader accepts."""
    return tuple(gap for gap in gaps if gap > longest_gap_seconds)
