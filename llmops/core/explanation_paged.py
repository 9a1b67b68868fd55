"""Why the numbers of an engine are what they are that keeps all requests in one pool of pages."""

from __future__ import annotations

from llmops.core.explanation_division import division_reasons
from llmops.core.memory.budget import MemoryBudget
from llmops.core.memory.vllm_budget import SEEN_REASON
from llmops.core.plan import NOT_COMPUTED, Plan, Reason
from llmops.core.problem import Problem
from llmops.core.processors import batch_tokens
from llmops.core.units import format_bytes


def paged_reasons(problem: Problem, plan: Plan) -> tuple[Reason, ...]:
    """Share of the card, pool, requests that it holds, division of the model, batch, switches."""
    return (
        _share_reason(problem, plan),
        *(_pool_reason(plan, budget) for budget in plan.budgets if budget.needed_cache_bytes is not None),
        *division_reasons(problem, plan),
        _batch_reason(problem, plan),
        *_switch_reasons(problem, plan),
    )


def _share_reason(problem: Problem, plan: Plan) -> Reason:
    if plan.kv_memory_bytes is not None:
        return Reason(
            "kv_memory_bytes", format_bytes(plan.kv_memory_bytes), "given: the pool of each card", (), "the user"
        )
    cards = tuple(
        (gpu.name or f"card {gpu.index}", f"{format_bytes(gpu.usable_bytes)} free of {format_bytes(gpu.total_bytes)}")
        for gpu in problem.hardware.gpus
        if gpu.usable_bytes is not None and gpu.total_bytes is not None
    )
    given = problem.fixed.gpu_memory_utilization is not None
    own = "the version's own share, or what is free where that is less: it does not start otherwise"
    return Reason(
        "gpu_memory_utilization",
        f"{plan.gpu_memory_utilization:g}" if plan.gpu_memory_utilization is not None else "none",
        NOT_COMPUTED if given else own,
        cards,
        "the user, or the version's default" if given else "the version's table and the probe",
    )


def _pool_reason(plan: Plan, budget: MemoryBudget) -> Reason:
    """How many requests of the planned length the pool holds, and with which margin they are bounded."""
    held = 0.0 if budget.max_concurrency is None else budget.max_concurrency
    was_seen = any(why == SEEN_REASON for _, _, _, why in budget.ranges)
    return Reason(
        f"cache pool of {budget.device}",
        f"{budget.cache_tokens} tokens, {held:.2f} requests of the planned length",
        "slots x blocks of one request <= usable blocks, with the margin for every request but the first: then none is"
        " interrupted; one block is never given out",
        (
            ("slots", str(plan.slots)),
            ("context", str(plan.context_tokens_per_slot)),
            ("pool", format_bytes(budget.cache_bytes)),
            ("needed by full slots", format_bytes(budget.needed_cache_bytes or 0)),
            ("usable tokens", str(budget.usable_cache_tokens)),
            ("margin", f"{1 - plan.policy.safety_factor:.0%}"),
        ),
        f"the engine's rules of blocks and groups; {SEEN_REASON if was_seen else 'the pessimistic end of every range'}",
    )


def _batch_reason(problem: Problem, plan: Plan) -> Reason:
    policy, rates, fixed, choices = problem.policy, problem.rates, problem.fixed, problem.choices
    prefill = rates.likely.prefill_tokens_per_second
    formula = "largest power of two <= prefill rate x longest gap, at most the engine's own, at least one per slot"
    formula += "; a larger one would bring first tokens sooner and make running streams wait longer"
    if policy.protect == "ttft":
        formula = "the engine's own large batch: the first token comes sooner, running streams wait longer for a step"
    if fixed.batch_tokens is not None:
        formula = NOT_COMPUTED
    elif batch_tokens(prefill, policy, fixed, plan.slots, choices.batch_limits)[0] != plan.batch_tokens:
        formula += "; kept from an earlier plan"
    elif plan.batch_tokens == choices.least_batch_tokens > 1:
        formula += "; no less than the server needs to start"
    return Reason(
        "batch_tokens",
        str(plan.batch_tokens),
        formula,
        (
            ("prefill", f"{prefill:.5g} tokens/s"),
            ("gap", f"{policy.max_gap_seconds:g} s"),
            ("engine's own", str(choices.most_batch_tokens)),
            ("slots", str(plan.slots)),
            ("protect", policy.protect),
        ),
        rates.source,
    )


def _switch_reasons(problem: Problem, plan: Plan) -> tuple[Reason, ...]:
    caching = {True: "on", False: "off", None: "the engine's own choice"}[plan.prefix_caching]
    return (
        Reason(
            "prefix_caching",
            caching,
            "equal beginnings of prompts are computed once; on by itself where the model allows it",
            (("workload", plan.workload.kind.value),),
            "the engine" if problem.fixed.prefix_caching is None else "the user",
        ),
        Reason(
            "enforce_eager",
            "on" if plan.enforce_eager else "off",
            "off: graphs make each step faster and take some memory",
            (),
            "the user" if plan.enforce_eager else "policy",
        ),
    )
