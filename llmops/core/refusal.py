"""Why nothing fits, and the smallest changes that would: each is tried on the memory model before it is named."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

from llmops.core.errors import DoesNotFit
from llmops.core.fitting import longest_fitting_context, most_fitting_slots, short_by_bytes
from llmops.core.memory.budget import MemoryBudget
from llmops.core.plan import Shape
from llmops.core.problem import Problem
from llmops.core.units import GIB, MIB, format_bytes

# What stays free of a machine grows by at most this share of the memory that is added to it.
_RESERVED_OF_ADDED = 0.05


def does_not_fit(problem: Problem, shape: Shape) -> DoesNotFit:
    """Name what is missing and the smallest changes that would help, least painful first."""
    smallest = replace(_most_compact(problem, shape), slots=problem.fixed.slots or 1)
    budgets = problem.memory(smallest)
    safety = problem.policy.safety_factor
    worst = max(budgets, key=lambda budget: short_by_bytes((budget,), safety))
    plural = "slot" if smallest.slots == 1 else "slots"
    return DoesNotFit(
        f"{problem.model.reference} with {smallest.slots} {plural} of {smallest.context_tokens_per_slot} tokens needs"
        f" {format_bytes(worst.used_bytes)} on {worst.device}, which has {format_bytes(worst.available_bytes)}",
        hint="; or ".join(_remedies(problem, smallest, budgets)),
    )


def _most_compact(problem: Problem, shape: Shape) -> Shape:
    """The shape with the last cache type that the search tried, so that what is missing is really the least."""
    types = problem.fallback_cache_types
    return replace(shape, cache_type_k=types[-1], cache_type_v=types[-1]) if types else shape


def _remedies(problem: Problem, smallest: Shape, budgets: tuple[MemoryBudget, ...]) -> Iterator[str]:
    yield from _smaller_requests(problem, smallest)
    on_host = replace(smallest, gpu_layers=None)
    if problem.on_gpu and short_by_bytes(problem.memory(on_host), problem.policy.safety_factor) <= 0:
        yield "--no-gpu fits: all of it in main memory, on the processor, slower"
    crowded = [budget.device for budget in budgets if budget.device != "host" and _leaves_no_room(budget)]
    if crowded and len(problem.hardware.gpus) > len(crowded):
        names = " and ".join(crowded)
        yield f"hide {names} from the engine (CUDA_VISIBLE_DEVICES in its unit) and plan with --gpu for the other cards"
        return
    missing = _missing(budgets, problem.policy.safety_factor)
    yield " and ".join(_to_be_found(budget, size) for budget, size in missing)
    # A smaller quantisation shrinks the weights on every device by the same share.
    share = max((size / budget.weights_bytes if budget.weights_bytes else math.inf) for budget, size in missing)
    if share < 1.0:
        weights = problem.model.weights_bytes
        yield f"take a model file under {_rounded_down(weights * (1 - share))} (now {format_bytes(weights)})"


def _smaller_requests(problem: Problem, smallest: Shape) -> Iterator[str]:
    safety = problem.policy.safety_factor
    if smallest.prompt_cache_bytes or smallest.context_checkpoints:
        without = replace(smallest, prompt_cache_bytes=0, context_checkpoints=0)
        if short_by_bytes(problem.memory(without), safety) <= 0:
            yield "leave --cache-ram and --ctx-checkpoints out: they are then given what is left"
    slots = most_fitting_slots(smallest, problem.memory, safety)
    if slots:
        yield f"--slots {slots} fits"
    longest = longest_fitting_context(smallest, problem.model.context_tokens_trained, problem.memory, safety)
    if longest >= problem.workload.prompt_tokens + problem.workload.reply_tokens:
        yield f"--context {longest} fits with {smallest.slots} slot{'' if smallest.slots == 1 else 's'}"


def _leaves_no_room(card: MemoryBudget) -> bool:
    """Whether the engine's mere presence is too much for a card, before any layer lies on it."""
    return card.used_bytes - card.weights_bytes - card.cache_bytes - card.state_bytes > card.available_bytes


def _missing(budgets: tuple[MemoryBudget, ...], safety_factor: float) -> list[tuple[MemoryBudget, float]]:
    """Every device that is short, and the bytes that are missing there.

    Layers are shared out by the free memory of the cards: all of them get their share of what is missing, so that the
    shares stay as they are.
    """
    short = {budget.device: short_by_bytes((budget,), safety_factor) for budget in budgets}
    cards = [budget for budget in budgets if budget.device != "host"]
    factor = max((short[card.device] / card.available_bytes for card in cards if card.available_bytes), default=0.0)
    missing: list[tuple[MemoryBudget, float]] = []
    for budget in budgets:
        size = float(short[budget.device])
        if budget.device != "host" and len(cards) > 1:
            size = max(size, factor * budget.available_bytes)
        if size > 0:
            missing.append((budget, size))
    return missing


def _to_be_found(budget: MemoryBudget, size: float) -> str:
    """Memory in use can be freed; beyond that only more of it helps."""
    freeable = budget.available_bytes + size <= budget.total_bytes
    if budget.device != "host":
        return (
            f"free {_rounded_up(size)} on {budget.device}"
            if freeable
            else f"{_rounded_up(size)} more on {budget.device}"
        )
    more = f"add {_rounded_up(size / (1 - _RESERVED_OF_ADDED))}"
    return f"free {_rounded_up(size)} (or {more}) on host" if freeable else f"{more} on host"


def _rounded_up(size: float) -> str:
    """As people read it, never less than it is: what is freed by this figure must suffice."""
    unit = GIB if size >= GIB else MIB
    return format_bytes(math.ceil(size * 100 / unit) * unit / 100)


def _rounded_down(size: float) -> str:
    unit = GIB if size >= GIB else MIB
    return format_bytes(math.floor(size * 100 / unit) * unit / 100)
