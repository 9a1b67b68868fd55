"""A draft model beside the one that it guesses tokens for: memory of both on the same devices."""

from __future__ import annotations

from dataclasses import replace

from llmops.core.memory.budget import MemoryBudget
from llmops.core.model import ModelSpec

# What the second model adds to a device; process, driver and reserve are there once.
_ADDED = ("weights_bytes", "cache_bytes", "state_bytes", "compute_bytes", "output_bytes")


def together(own: tuple[MemoryBudget, ...], draft: tuple[MemoryBudget, ...]) -> tuple[MemoryBudget, ...]:
    """The budgets of a model with those of its draft added, device by device."""
    beside = {budget.device: budget for budget in draft}
    return tuple(_sum(budget, beside[budget.device]) if budget.device in beside else budget for budget in own)


def _sum(own: MemoryBudget, draft: MemoryBudget) -> MemoryBudget:
    parts = {part: getattr(own, part) + getattr(draft, part) for part in _ADDED}
    added = {part: (low, high) for part, low, high, _ in draft.ranges}
    ranges = []
    for part, low, high, why in own.ranges:
        more = added.get(part, (getattr(draft, part),) * 2) if part in _ADDED else (0, 0)
        ranges.append((part, low + more[0], high + more[1], why))
    return replace(own, **parts, ranges=tuple(ranges))


def with_draft(model: ModelSpec, draft: ModelSpec) -> ModelSpec:
    """One model with the weights and caches of both: what an engine counts that keeps both in one pool."""
    return replace(
        model,
        attention_layers=model.attention_layers + draft.attention_layers,
        state_layers=model.state_layers + draft.state_layers,
        parameters=model.parameters + draft.parameters,
        weights_bytes=model.weights_bytes + draft.weights_bytes,
        file_bytes=model.file_bytes + draft.file_bytes,
        tensors=model.tensors + draft.tensors,
    )
