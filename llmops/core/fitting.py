"""Making slots x context fit the memory: the levers in their order, and what would help when none does."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from llmops.core.memory.budget import MemoryBudget
from llmops.core.model import ModelSpec
from llmops.core.plan import MemoryModel, Shape
from llmops.core.units import MIB

CONTEXT_STEP_TOKENS = 256
# The prompt cache grows in whole conversations; less than this holds none worth keeping.
PROMPT_CACHE_STEP_BYTES = 256 * MIB
PROMPT_CACHE_MOST_BYTES = 8192 * MIB
CHECKPOINTS_MOST = 8


@dataclass(frozen=True)
class Fitted:
    """The shape that fits, and which levers were pulled on the way (in order)."""

    shape: Shape
    levers: tuple[str, ...]


def short_by_bytes(budgets: Iterable[MemoryBudget], safety_factor: float) -> int:
    """Bytes missing on the worst device; 0 or less means that it fits.

    Cache and state must fit in `safety_factor` of the room for them, so that a full cache never preempts or spills.
    """
    return max(_short_by_bytes(budget, safety_factor) for budget in budgets)


def _short_by_bytes(budget: MemoryBudget, safety_factor: float) -> int:
    needed = budget.needed_cache_bytes
    if needed is None:
        margin = round((budget.cache_bytes + budget.state_bytes) * (1 / safety_factor - 1))
        return margin - budget.free_bytes
    # One request alone is never interrupted by another: the margin is for the others.
    others = max(0, needed - (budget.request_cache_bytes or 0))
    missing = needed + round(others * (1 / safety_factor - 1)) - budget.cache_bytes
    beyond = -budget.free_bytes
    return missing + beyond if min(missing, beyond) > 0 else max(missing, beyond)


def fit(
    start: Shape, context_floor_tokens: int, cache_types: tuple[str, ...], memory: MemoryModel, safety_factor: float
) -> Fitted | None:
    """Pull the levers until it fits: shorter context (not under the floor), the next cache type, fewer slots."""
    search = _Search(memory, safety_factor)
    if search.fits(start):
        return Fitted(start, ())
    levers: tuple[str, ...] = ()
    shape = replace(start, context_tokens_per_slot=context_floor_tokens)
    if shape != start:
        levers = ("shorter context",)
        if search.fits(shape):
            return Fitted(search.longest_context(shape, start.context_tokens_per_slot), levers)
    for cache_type in cache_types:
        if cache_type in {start.cache_type_k, start.cache_type_v}:
            continue
        shape = replace(shape, cache_type_k=cache_type, cache_type_v=cache_type)
        levers = (*levers, f"{cache_type} cache")
        if search.fits(shape):
            return Fitted(search.longest_context(shape, start.context_tokens_per_slot), levers)
    fewer = search.most_slots(shape)
    return Fitted(fewer, (*levers, "fewer slots")) if fewer else None


def spend_rest(
    shape: Shape, memory: MemoryModel, safety_factor: float, *, conversations_bytes: int, loaded_models: int = 1
) -> Shape:
    """Give a part of what is left on the host to saved prompts and checkpoints; both stay bounded on purpose.

    Each of several loaded models keeps its own prompts.
    """
    rest = host_rest_bytes(memory(shape), safety_factor)
    checkpoint_bytes = rest - host_rest_bytes(memory(replace(shape, context_checkpoints=1)), safety_factor)
    checkpoints = CHECKPOINTS_MOST
    if checkpoint_bytes > 0:
        checkpoints = max(0, min(CHECKPOINTS_MOST, rest // 4 // checkpoint_bytes))
    with_checkpoints = replace(shape, context_checkpoints=checkpoints)
    room = min(rest // (2 * loaded_models), PROMPT_CACHE_MOST_BYTES)
    useful = -(-conversations_bytes // PROMPT_CACHE_STEP_BYTES) * PROMPT_CACHE_STEP_BYTES
    prompt_cache = max(0, min(room, useful)) // PROMPT_CACHE_STEP_BYTES * PROMPT_CACHE_STEP_BYTES
    return replace(with_checkpoints, prompt_cache_bytes=prompt_cache)


def longest_fitting_context(shape: Shape, trained_tokens: int, memory: MemoryModel, safety_factor: float) -> int:
    """The longest context that fits with this shape's slots; 0 where not even the shortest does."""
    search = _Search(memory, safety_factor)
    shortest = replace(shape, context_tokens_per_slot=CONTEXT_STEP_TOKENS)
    if not search.fits(shortest):
        return 0
    return search.longest_context(shortest, trained_tokens).context_tokens_per_slot


def most_fitting_slots(shape: Shape, memory: MemoryModel, safety_factor: float) -> int:
    """The most slots, fewer than the shape has, that fit; 0 where not even one does."""
    fewer = _Search(memory, safety_factor).most_slots(shape)
    return fewer.slots if fewer else 0


def conversations_bytes(model: ModelSpec, users: int, shape: Shape) -> int:
    """Host bytes of one saved conversation per user, each as long as its slot."""
    per_token = sum(
        layer.cache_bytes_per_token(shape.cache_type_k, shape.cache_type_v) for layer in model.attention_layers
    )
    return users * shape.context_tokens_per_slot * per_token


def host_rest_bytes(budgets: tuple[MemoryBudget, ...], safety_factor: float) -> int:
    """What these budgets leave of the host's memory beyond the margin; never negative."""
    return max(0, -short_by_bytes([budget for budget in budgets if budget.device == "host"], safety_factor))


@dataclass(frozen=True)
class _Search:
    memory: MemoryModel
    safety_factor: float

    def fits(self, shape: Shape) -> bool:
        return short_by_bytes(self.memory(shape), self.safety_factor) <= 0

    def longest_context(self, fitting: Shape, most_tokens: int) -> Shape:
        """From a shape that fits, the longest context up to `most_tokens` that still does."""
        low, high = fitting.context_tokens_per_slot // CONTEXT_STEP_TOKENS, most_tokens // CONTEXT_STEP_TOKENS
        while low < high:
            middle = (low + high + 1) // 2
            if self.fits(replace(fitting, context_tokens_per_slot=middle * CONTEXT_STEP_TOKENS)):
                low = middle
            else:
                high = middle - 1
        return replace(fitting, context_tokens_per_slot=max(fitting.context_tokens_per_slot, low * CONTEXT_STEP_TOKENS))

    def most_slots(self, shape: Shape) -> Shape | None:
        """The most slots under those of the shape that fit; None if one does not."""
        low, high = 0, shape.slots
        while low < high:
            middle = (low + high + 1) // 2
            if self.fits(replace(shape, slots=middle)):
                low = middle
            else:
                high = middle - 1
        return replace(shape, slots=low) if low else None
