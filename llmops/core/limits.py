"""Which limits a configuration breaks. One that breaks none is kept: numbers change only for a reason."""

from __future__ import annotations

from llmops.core.plan import Plan
from llmops.core.problem import Problem
from llmops.core.sizing import fits, needed_context
from llmops.core.units import format_bytes

# A batch is a power of two and rates are estimates: a gap up to twice the limit is no reason to restart a server.
GAP_TOLERANCE = 2.0


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
    if policy.protect == "itl" and problem.batch_is_free and gap > GAP_TOLERANCE * policy.max_gap_seconds:
        lines.append(
            f"a batch of {plan.batch_tokens} prompt tokens stops every stream for about {gap:.1f} s; the limit is"
            f" {policy.max_gap_seconds:g} s"
        )
    if plan.kv_unified and plan.slots > 1 and problem.fixed.kv_unified is not True:
        lines.append("all slots share one pool of cache: when it is full, every running request fails")
    return tuple(lines)
