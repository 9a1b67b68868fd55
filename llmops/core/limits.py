"""Which limits a configuration breaks. One that breaks none is kept: numbers change only for a reason."""

from __future__ import annotations

from dataclasses import replace

from llmops.core.demand import slots_fast_enough
from llmops.core.plan import Plan
from llmops.core.problem import Problem
from llmops.core.sizing import fits, needed_context
from llmops.core.units import format_bytes

# A batch is a power of two and rates are estimates: up to twice a limit is no reason to restart a server.
RATE_TOLERANCE = 2.0


def hard_violations(problem: Problem, plan: Plan) -> tuple[str, ...]:
    """Limits that a server must never break: memory with its margin, and room for one request."""
    lines = []
    if not fits(plan.budgets, plan.policy.safety_factor):
        worst = min(plan.budgets, key=lambda budget: budget.free_bytes)
        lines.append(
            f"it needs {format_bytes(worst.used_bytes)} of the {format_bytes(worst.available_bytes)} on {worst.device}"
        )
    needed = needed_context(problem)
    if plan.context_tokens_per_slot < min(needed, problem.model.context_tokens_trained):
        lines.append(f"a slot has {plan.context_tokens_per_slot} tokens and a request needs {needed}")
    return tuple(lines)


def violations(problem: Problem, plan: Plan) -> tuple[str, ...]:
    """Every limit of the policy that this configuration breaks, most serious first."""
    policy = plan.policy
    lines = list(hard_violations(problem, plan))
    if plan.wait_probability > policy.wait_probability:
        lines.append(
            f"with {plan.slots} slots {plan.wait_probability:.0%} of requests wait; the limit is"
            f" {policy.wait_probability:.0%}"
        )
    gap = plan.batch_tokens / problem.rates.likely.prefill_tokens_per_second
    if policy.protect == "itl" and problem.batch_is_free and gap > RATE_TOLERANCE * policy.max_gap_seconds:
        lines.append(
            f"a batch of {plan.batch_tokens} prompt tokens stops every stream for about {gap:.1f} s; the limit is"
            f" {policy.max_gap_seconds:g} s"
        )
    lines += _too_slow(problem, plan)
    if plan.kv_unified and plan.slots > 1 and problem.fixed.kv_unified is not True:
        lines.append("all slots share one pool of cache: when it is full, every running request fails")
    return tuple(lines)


def crowded_threads(problem: Problem, threads: int | None) -> tuple[str, ...]:
    """More threads than processors may be used: they stop each other at every step, whatever else is right."""
    usable = problem.hardware.cpu.usable_threads
    if threads is None or usable is None or threads <= usable:
        return ()
    return (f"{threads} threads share {usable} usable processors",)


def _too_slow(problem: Problem, plan: Plan) -> list[str]:
    """Only where fewer slots would help: a machine that is too slow for one user is no reason for another number."""
    at_once = min(plan.slots, plan.workload.users)
    least = plan.policy.minimum_tokens_per_second / RATE_TOLERANCE
    bearable = replace(plan.policy, minimum_tokens_per_second=least)
    if max(1, slots_fast_enough(problem.rates, bearable, at_once)) == at_once:
        return []
    rate = 1.0 / problem.rates.likely.step_seconds(at_once)
    return [f"{at_once} at once get {rate:.1f} tokens/s each; the minimum is {plan.policy.minimum_tokens_per_second:g}"]
