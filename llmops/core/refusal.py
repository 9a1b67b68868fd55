"""Why nothing fits, and the smallest change that would."""

from __future__ import annotations

from dataclasses import replace

from llmops.core.errors import DoesNotFit
from llmops.core.fitting import longest_single_context, short_by_bytes
from llmops.core.plan import Shape
from llmops.core.problem import Problem
from llmops.core.units import format_bytes


def does_not_fit(problem: Problem, shape: Shape) -> DoesNotFit:
    """Name what is missing and the smallest change that would help."""
    safety = problem.policy.safety_factor
    shape = _most_compact(problem, shape)
    smallest = replace(shape, slots=problem.fixed.slots or 1)
    budgets = problem.memory(smallest)
    short = short_by_bytes(budgets, safety)
    worst = max(budgets, key=lambda budget: short_by_bytes((budget,), safety))
    longest = longest_single_context(shape, problem.model.context_tokens_trained, problem.memory, safety)
    if problem.fixed.slots and problem.fixed.slots > 1:
        remedy = f"free or add {format_bytes(short)} on {worst.device}, or ask for fewer slots"
    elif longest >= problem.workload.prompt_tokens + problem.workload.reply_tokens:
        remedy = f"--context {longest} fits with one slot; or free {format_bytes(short)} on {worst.device}"
    else:
        weights = problem.model.weights_bytes
        remedy = (
            f"free or add {format_bytes(short)} on {worst.device}, or take a model file under"
            f" {format_bytes(max(weights - short, 0))} (now {format_bytes(weights)})"
        )
    return DoesNotFit(
        f"{problem.model.reference} with {smallest.slots} slot(s) of {smallest.context_tokens_per_slot} tokens needs"
        f" {format_bytes(worst.used_bytes)} on {worst.device}, which has {format_bytes(worst.available_bytes)}",
        hint=remedy,
    )


def _most_compact(problem: Problem, shape: Shape) -> Shape:
    """The shape with the last cache type that the search tried, so that what is missing is really the least."""
    types = problem.fallback_cache_types
    return replace(shape, cache_type_k=types[-1], cache_type_v=types[-1]) if types else shape
