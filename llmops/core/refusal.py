"""Why nothing fits, and the smallest changes that would: each is tried on the memory model before it is named."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace

from llmops.core.errors import DoesNotFit
from llmops.core.fitting import longest_fitting_context, most_fitting_slots, short_by_bytes
from llmops.core.memory.budget import MemoryBudget
from llmops.core.memory.ggml_runtime import device_context_range
from llmops.core.plan import Shape
from llmops.core.problem import Problem, Split
from llmops.core.units import GIB, MIB, format_bytes

# What stays free of a machine grows by at most this share of the memory that is added to it.
_RESERVED_OF_ADDED = 0.05
# Of a card; the rest is for what runs beside the engine and for graphs that it does not count.
_MOST_PERCENT = 95


def does_not_fit(problem: Problem, shape: Shape) -> DoesNotFit:
    """Name what is missing and the smallest changes that would help, least painful first."""
    smallest = replace(_most_compact(problem, shape), slots=problem.fixed.slots or 1)
    budgets = problem.memory(smallest)
    safety = problem.policy.safety_factor
    worst = max(budgets, key=lambda budget: short_by_bytes((budget,), safety))
    plural = "slot" if smallest.slots == 1 else "slots"
    spills = problem.choices.spills_by_itself and problem.on_gpu and worst.device != "host"
    said = f"; {problem.engine} by itself would leave layers to the processor, and be slower" if spills else ""
    return DoesNotFit(
        f"{problem.model.reference} with {smallest.slots} {plural} of {smallest.context_tokens_per_slot} tokens needs"
        f" {_what_is_there(smallest, worst)}" + said,
        hint="; or ".join(_remedies(problem, smallest, budgets)),
    )


def _what_is_there(shape: Shape, worst: MemoryBudget) -> str:
    """What is needed and what is there: of a pool whose size is given, cache, else memory of the device."""
    given, needed = shape.kv_memory_bytes, worst.needed_cache_bytes
    if given is not None and needed is not None and worst.free_bytes >= 0:
        return f"{format_bytes(needed)} of cache on {worst.device}, and {format_bytes(given)} of it are given"
    return f"{format_bytes(worst.required_bytes)} on {worst.device}, which has {format_bytes(worst.available_bytes)}"


def _most_compact(problem: Problem, shape: Shape) -> Shape:
    """The shape with the last cache type that the search tried, so that what is missing is really the least."""
    types = problem.fallback_cache_types
    return replace(shape, cache_type_k=types[-1], cache_type_v=types[-1]) if types else shape


def _remedies(problem: Problem, smallest: Shape, budgets: tuple[MemoryBudget, ...]) -> Iterator[str]:
    yield from _smaller_requests(problem, smallest)
    if problem.choices.is_paged:
        yield from _more_for_the_pool(problem, smallest, budgets)
        return
    yield from _split_with_host(problem, smallest)
    on_host = replace(smallest, gpu_layers=None, cpu_expert_layers=0, tensor_split=())
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


def _more_for_the_pool(problem: Problem, smallest: Shape, budgets: tuple[MemoryBudget, ...]) -> Iterator[str]:
    """More of each card, more cards, or smaller weights: a pool of pages gets what is left of a share."""
    safety = problem.policy.safety_factor
    worst = max(budgets, key=lambda budget: short_by_bytes((budget,), safety))
    short = short_by_bytes((worst,), safety)
    if smallest.kv_memory_bytes is not None and worst.free_bytes >= 0:
        # Of a pool too small for one request the budget shows what that needs, not what is given.
        yield f"--kv-memory {math.ceil((worst.cache_bytes + short) / MIB)}MiB fits"
        return
    if worst.device == "host" and len(budgets) > 1:  # its processes are too large, not the pool
        yield _to_be_found(worst, short)
        return
    share = _larger_share(problem, smallest)
    if share is not None:
        yield f"--gpu-memory-utilization {share:g} fits, if nothing else needs the card"
    split = _larger_split(problem, smallest)
    if split is not None:
        cards = split.cards
        yield f"{cards} such cards with --tensor-parallel {split.tensor_parallel} fit"
    weights = problem.model.weights_bytes
    parts = smallest.cards
    if short * parts < weights:
        yield f"take a checkpoint under {_rounded_down(weights - short * parts)} (now {format_bytes(weights)})"
    else:
        yield f"{_rounded_up(short)} more on each of {parts} cards" if parts > 1 else f"{_rounded_up(short)} more"


def _split_with_host(problem: Problem, smallest: Shape) -> Iterator[str]:
    """What the processor could keep, least harm first: experts, of which a token reads few, then whole layers."""
    fixed = problem.fixed
    given = fixed.gpu_layers is not None or fixed.cpu_expert_layers is not None
    if not problem.on_gpu or given or not problem.choices.splits_with_host:
        return
    layers = problem.model.layers
    if problem.model.experts:
        fewest = _least(layers, lambda count: _fits_on_cards(problem, replace(smallest, cpu_expert_layers=count)))
        found = replace(smallest, cpu_expert_layers=fewest)
        if fewest and _fits(problem, found):
            speed = _speed_text(problem, found)
            yield f"--n-cpu-moe {fewest} fits: experts of {fewest} of {layers} layers in main memory, {speed}"
            return
    whole = problem.layers_to_place
    moved = _least(whole - 1, lambda count: _fits_on_cards(problem, replace(smallest, gpu_layers=whole - count)))
    found = replace(smallest, gpu_layers=whole - moved)
    if moved and _fits(problem, found):
        speed = _speed_text(problem, found)
        yield f"--gpu-layers {whole - moved} fits: {moved} of {layers} layers with the processor, {speed}"


def _least(most: int, suffices: Callable[[int], bool]) -> int:
    """The smallest number from 1 to `most` that suffices, where every larger one does too; 0 where none does."""
    if most < 1 or not suffices(most):
        return 0
    low, high = 1, most
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if suffices(middle) else (middle + 1, high)
    return low


def _fits(problem: Problem, shape: Shape) -> bool:
    return short_by_bytes(problem.memory(shape), problem.policy.safety_factor) <= 0


def _fits_on_cards(problem: Problem, shape: Shape) -> bool:
    cards = [budget for budget in problem.memory(shape) if budget.device != "host"]
    return short_by_bytes(cards, problem.policy.safety_factor) <= 0 if cards else _fits(problem, shape)


def _speed_text(problem: Problem, shape: Shape) -> str:
    rates = problem.rates_of(shape)
    low, likely, high = (1.0 / rate.step_seconds(1) for rate in (rates.low, rates.likely, rates.high))
    return f"about {likely:.3g} tokens/s alone ({low:.3g} to {high:.3g})"


def _larger_share(problem: Problem, smallest: Shape) -> float | None:
    """The smallest larger share of the cards with which it fits, where so much of them is free."""
    cards = [gpu for gpu in problem.hardware.gpus if gpu.total_bytes and gpu.usable_bytes is not None]
    if smallest.gpu_memory_utilization is None or not cards:
        return None
    free = min((gpu.usable_bytes or 0) / (gpu.total_bytes or 1) for gpu in cards)
    for percent in range(int(smallest.gpu_memory_utilization * 100) + 1, min(_MOST_PERCENT, int(free * 100)) + 1):
        larger = replace(smallest, gpu_memory_utilization=percent / 100)
        if short_by_bytes(problem.memory(larger), problem.policy.safety_factor) <= 0:
            return percent / 100
    return None


def _larger_split(problem: Problem, smallest: Shape) -> Split | None:
    """The fewest cards of the same kind, more than there are, on which it fits."""
    if problem.memory_with_cards is None:
        return None
    for split in problem.choices.larger_splits:
        larger = replace(smallest, tensor_parallel=split.tensor_parallel, pipeline_parallel=split.pipeline_parallel)
        memory = problem.memory_with_cards(split.cards)
        if short_by_bytes(memory(larger), problem.policy.safety_factor) <= 0:
            return split
    return None


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
    elif longest and smallest.slots == 1:
        yield f"requests of at most {longest} tokens fit: smaller --prompt-tokens and --reply-tokens"


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
            else f"{_rounded_up(size + _taken_by_a_larger_card(budget, size))} more on {budget.device}"
        )
    more = f"add {_rounded_up(size / (1 - _RESERVED_OF_ADDED))}"
    return f"free {_rounded_up(size)} (or {more}) on host" if freeable else f"{more} on host"


def _taken_by_a_larger_card(budget: MemoryBudget, size: float) -> int:
    """What the driver of a card with that much more may take beyond what it takes of this one."""
    now, then = (device_context_range(int(total))[2] for total in (budget.total_bytes, budget.total_bytes + size))
    return then - now


def _rounded_up(size: float) -> str:
    """As people read it, never less than it is: what is freed by this figure must suffice."""
    unit = GIB if size >= GIB else MIB
    return format_bytes(math.ceil(size * 100 / unit) * unit / 100)


def _rounded_down(size: float) -> str:
    unit = GIB if size >= GIB else MIB
    return format_bytes(math.floor(size * 100 / unit) * unit / 100)
