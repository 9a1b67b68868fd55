"""Memory budgets for people: what each part takes of every device."""

from __future__ import annotations

from collections.abc import Sequence

from llmops.cli.text.layout import bullets, heading, table
from llmops.core.memory.budget import PARTS, MemoryBudget
from llmops.core.units import format_bytes

_MOST_COLUMNS = 3


def budget_text(budgets: Sequence[MemoryBudget]) -> str:
    """One column per device with all parts; with many devices one row per device."""
    if not budgets:
        return ""
    body = _by_part(budgets) if len(budgets) <= _MOST_COLUMNS else _by_device(budgets)
    devices: dict[tuple[str, str], list[str]] = {}
    for budget in budgets:
        for part, low, high, why in budget.ranges:
            if why and low != high:
                devices.setdefault((_part_name(part), why), []).append(budget.device)
    notes = [f"{name} on {' and '.join(where)}: {why}" for (name, why), where in devices.items()]
    return heading("Memory") + "\n" + body + ("\n" + bullets(notes) if notes else "")


def _by_part(budgets: Sequence[MemoryBudget]) -> str:
    rows = []
    for part in PARTS:
        if any(getattr(budget, part) for budget in budgets):
            rows.append((_part_name(part), *(_part_size(budget, part) for budget in budgets)))
    rows.append(("free", *(_free(budget) for budget in budgets)))
    rows += _pool_rows(budgets)
    rows.append(("available", *(format_bytes(budget.available_bytes) for budget in budgets)))
    rows.append(("installed", *(format_bytes(budget.total_bytes) for budget in budgets)))
    return table(rows, ("part", *(budget.device for budget in budgets)))


def _pool_rows(budgets: Sequence[MemoryBudget]) -> list[tuple[str, ...]]:
    """What a pool of pages holds, in the engine's own words."""
    if all(budget.cache_tokens is None for budget in budgets):
        return []
    return [
        ("cache tokens", *(_count(budget.cache_tokens) for budget in budgets)),
        ("usable cache tokens", *(_count(budget.usable_cache_tokens) for budget in budgets)),
        ("max concurrency", *(_held(budget) for budget in budgets)),
    ]


def _count(number: int | None) -> str:
    return "" if number is None else f"{number:,}"


def _by_device(budgets: Sequence[MemoryBudget]) -> str:
    is_paged = any(budget.cache_tokens is not None for budget in budgets)
    rows = [
        (
            budget.device,
            format_bytes(budget.weights_bytes),
            format_bytes(budget.cache_bytes),
            *(() if is_paged else (format_bytes(budget.used_bytes),)),
            format_bytes(budget.available_bytes),
            _free(budget),
            *((_count(budget.cache_tokens), _held(budget)) if is_paged else ()),
        )
        for budget in budgets
    ]
    if is_paged:
        return table(rows, ("device", "weights", "cache", "available", "free", "cache tokens", "concurrency"))
    return table(rows, ("device", "weights", "cache", "used", "available", "free"))


def _held(budget: MemoryBudget) -> str:
    return "" if budget.max_concurrency is None else f"{budget.max_concurrency:.2f}x"


def _part_name(part: str) -> str:
    return part.removesuffix("_bytes").replace("_", " ")


def _part_size(budget: MemoryBudget, part: str) -> str:
    for name, low, high, _ in budget.ranges:
        if name == part and low != high:
            return f"{format_bytes(low)} to {format_bytes(high)}"
    return format_bytes(getattr(budget, part))


def _free(budget: MemoryBudget) -> str:
    free = budget.free_bytes
    return format_bytes(free) if free >= 0 else f"{format_bytes(-free)} short"
