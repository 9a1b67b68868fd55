"""Several models in memory at the same time, or any of them: the budget of the worst case."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from llmops.core.memory.budget import PARTS, MemoryBudget
from llmops.core.plan import MemoryModel, Shape

# Set aside once for the whole machine or card, whatever is loaded.
_ONCE = "reserve_bytes"


def worst_together(models: Sequence[MemoryModel], count: int) -> MemoryModel:
    """A memory model in which the `count` models that need most of a device are loaded there at the same time."""

    def memory(shape: Shape) -> tuple[MemoryBudget, ...]:
        devices = zip(*(model(shape) for model in models), strict=True)
        return tuple(_worst(rows, count) for rows in devices)

    return models[0] if len(models) == 1 else memory


def _worst(rows: Sequence[MemoryBudget], count: int) -> MemoryBudget:
    """The rows of one device are of the same device: what is available there is the same in all."""
    largest = sorted(rows, key=lambda row: row.used_bytes, reverse=True)[:count]
    parts = {part: sum(getattr(row, part) for row in largest) for part in PARTS if part != _ONCE}
    return replace(largest[0], **parts, ranges=_ranges(largest))


def _ranges(rows: Sequence[MemoryBudget]) -> tuple[tuple[str, int, int, str], ...]:
    """The range of each part over all rows; a row that gives none for a part adds its fixed value."""
    reasons = {part: why for row in reversed(rows) for part, _, _, why in row.ranges}
    found = []
    for part, why in reasons.items():
        ends = [
            next(((low, high) for name, low, high, _ in row.ranges if name == part), (getattr(row, part),) * 2)
            for row in rows
        ]
        found.append((part, sum(low for low, _ in ends), sum(high for _, high in ends), why))
    order = [part for part, *_ in rows[0].ranges]
    return tuple(sorted(found, key=lambda one: order.index(one[0]) if one[0] in order else len(order)))
