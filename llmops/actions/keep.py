"""Keeping what is in force: a second run, a busy minute or an upgrade of llmops changes no number."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

from llmops.core.limits import hard_violations, violations
from llmops.core.plan import Fixed, Plan
from llmops.core.problem import Problem
from llmops.core.sizing import size_explicit
from llmops.core.throughput import speeds
from llmops.engines.base import Served


@dataclass(frozen=True)
class Kept:
    """A plan that stays, and why; `is_users_own` where llmops did not make it and so renders nothing."""

    plan: Plan
    reason: str
    is_users_own: bool


def keep_applied(applied: Plan, fixed: Fixed, problem: Problem) -> Kept | None:
    """The plan that llmops applied last, while the same is asked for and memory and context still suffice.

    Rates that turned out otherwise are said, not acted on: the numbers move when the user asks for it.
    """
    same_request = (
        applied.workload == problem.workload
        and applied.policy == problem.policy
        and _same_model(applied, problem)
        and _agrees(fixed, applied)
    )
    if not same_request:
        return None
    explicit = size_explicit(replace(problem, fixed=_as_fixed(applied)))
    if hard_violations(problem, explicit):
        return None
    advice = tuple(f"{line}; `llmops tune --apply --replan` computes afresh" for line in violations(problem, explicit))
    kept = replace(
        applied,
        engine_version=problem.engine_version,
        budgets=explicit.budgets,
        speeds=speeds(problem.rates, problem.workload),
        reasons=explicit.reasons,
        in_flight=explicit.in_flight,
        wait_probability=explicit.wait_probability,
        wait_seconds_mean=explicit.wait_seconds_mean,
        warnings=advice,
    )
    return Kept(kept, "the applied plan still satisfies memory and context", is_users_own=False)


def keep_served(served: Served, fixed: Fixed, problem: Problem) -> Kept | None:
    """The user's own configuration, where it breaks no limit of the policy."""
    explicit = size_explicit(replace(problem, fixed=served.values))
    if violations(problem, explicit) or not _agrees(fixed, explicit):
        return None
    return Kept(explicit, "what runs now breaks no limit", is_users_own=True)


def _same_model(applied: Plan, problem: Problem) -> bool:
    before, now = applied.model, problem.model
    return (before.reference, before.parameters, before.weights_bytes) == (
        now.reference,
        now.parameters,
        now.weights_bytes,
    )


def _agrees(fixed: Fixed, plan: Plan) -> bool:
    """Whether every value that the user fixes is what the plan has."""
    in_plan, computed = _as_fixed(plan), Fixed()
    return all(
        getattr(fixed, field.name) in {getattr(computed, field.name), getattr(in_plan, field.name)}
        for field in fields(Fixed)
        if field.name != "context_tokens"
    ) and (fixed.context_tokens is None or fixed.context_tokens <= plan.context_tokens_per_slot)


def _as_fixed(plan: Plan) -> Fixed:
    return Fixed(
        slots=plan.slots,
        context_tokens=plan.context_tokens_per_slot,
        cache_type_k=plan.cache_type_k,
        cache_type_v=plan.cache_type_v,
        queue_requests=plan.queue_requests,
        batch_tokens=plan.batch_tokens,
        ubatch_tokens=plan.ubatch_tokens,
        kv_unified=plan.kv_unified,
        swa_full=plan.swa_full,
        flash_attention=plan.flash_attention,
        repack=plan.repack,
        prompt_cache_bytes=plan.prompt_cache_bytes,
        context_checkpoints=plan.context_checkpoints,
    )
