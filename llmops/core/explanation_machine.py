"""Why a plan's numbers about the machine are what they are: processors, batches, memory."""

from __future__ import annotations

from dataclasses import replace

from llmops.core.explanation_paged import paged_reasons
from llmops.core.fitting import conversations_bytes, host_rest_bytes
from llmops.core.memory.budget import PARTS, MemoryBudget
from llmops.core.plan import NOT_COMPUTED, Plan, Reason
from llmops.core.problem import Problem
from llmops.core.processors import MOST_UBATCH_TOKENS, batch_tokens, decode_threads
from llmops.core.units import format_bytes


def machine_reasons(problem: Problem, plan: Plan) -> tuple[Reason, ...]:
    """Threads, batches, placement, host memory, every budget; of an engine with one pool of pages its own numbers."""
    budgets = tuple(_budget_reason(budget, plan.policy.safety_factor) for budget in plan.budgets)
    if problem.choices.is_paged:
        return (*paged_reasons(problem, plan), *budgets)
    return (
        *_thread_reasons(problem, plan),
        _batch_reason(problem, plan),
        *_switch_reasons(problem, plan),
        _prompt_cache_reason(problem, plan),
        *budgets,
    )


def _thread_reasons(problem: Problem, plan: Plan) -> tuple[Reason, ...]:
    cpu = problem.hardware.cpu
    formula = (
        "decode: least of (performance or else physical) cores, usable cores, usable threads; prefill: usable threads"
    )
    if plan.threads != decode_threads(cpu):
        formula += "; kept from an earlier plan"
    return (
        Reason(
            "threads",
            f"{plan.threads} decode, {plan.batch_threads} prefill",
            formula,
            (
                ("performance cores", str(cpu.performance_cores)),
                ("physical cores", str(cpu.physical_cores)),
                ("usable cores", str(cpu.usable_cores)),
                ("usable threads", str(cpu.usable_threads)),
                ("quota", str(cpu.quota_cores)),
                ("affinity", str(cpu.affinity_cpus)),
            ),
            "probe",
        ),
        Reason(
            "waiting of threads",
            "asleep" if plan.passive_waiting else "the engine's default",
            "asleep where processors are virtual or under a quota, if waking costs at most 20 % of a step alone",
            (
                ("virtual", "yes" if "hypervisor" in cpu.flags else "no"),
                ("quota", str(cpu.quota_cores)),
                ("layers", str(plan.model.layers)),
            ),
            "probe",
        ),
    )


def _batch_reason(problem: Problem, plan: Plan) -> Reason:
    policy, rates, fixed = problem.policy, problem.rates, problem.fixed
    prefill = rates.likely.prefill_tokens_per_second
    formula = "largest power of two <= prefill rate x longest gap, within 64..2048, at least one per slot"
    formula += "; a larger one would bring first tokens sooner and stop running streams longer"
    if policy.protect == "ttft":
        formula = "the engine's large batch: the first token comes sooner, running streams stop longer"
    if fixed.batch_tokens is not None:
        formula = NOT_COMPUTED
    elif batch_tokens(prefill, policy, fixed, plan.slots)[0] != plan.batch_tokens:
        formula += "; kept from an earlier plan"
    return Reason(
        "batch_tokens",
        f"{plan.batch_tokens} (physical {plan.ubatch_tokens})",
        f"{formula}; physical: at most {fixed.ubatch_tokens or MOST_UBATCH_TOKENS} of it",
        (
            ("prefill", f"{prefill:.5g} tokens/s"),
            ("gap", f"{policy.max_gap_seconds:g} s"),
            ("slots", str(plan.slots)),
            ("protect", policy.protect),
        ),
        rates.source,
    )


def _switch_reasons(problem: Problem, plan: Plan) -> tuple[Reason, ...]:
    fixed = problem.fixed
    layers = "none" if plan.gpu_layers is None else str(plan.gpu_layers)
    return (
        Reason(
            "gpu_layers",
            layers,
            "all layers and the output on the cards, or none: a plan never spills"
            if fixed.gpu_layers is None
            else NOT_COMPUTED,
            (("layers", str(plan.model.layers)), ("cards", str(len(problem.hardware.gpus)))),
            "probe and the engine's build" if fixed.gpu_layers is None else "the user",
        ),
        *_split_reasons(plan),
        Reason(
            "kv_unified",
            "one pool" if plan.kv_unified else "a cache for each slot",
            "a pool only where it is asked for: when it is full, every running request fails",
            (),
            "policy" if fixed.kv_unified is None else "the user",
        ),
        Reason(
            "flash_attention",
            plan.flash_attention,
            "auto: the engine turns it on where it can; a quantised cache of values needs it",
            (),
            "policy" if fixed.flash_attention is None else "the user",
        ),
        Reason(
            "weights in memory",
            f"{'mapped' if plan.memory_mapped else 'read'}, {'rearranged' if plan.repack else 'as stored'}",
            "mapped and rearranged for this processor where it has kernels for it",
            (),
            "policy" if fixed.repack is None else "the user",
        ),
    )


def _split_reasons(plan: Plan) -> tuple[Reason, ...]:
    """Only where the user divides the model by himself."""
    given = (
        ("cpu_expert_layers", plan.cpu_expert_layers, "first layers whose experts stay in main memory"),
        ("tensor_split", "/".join(f"{share:g}" for share in plan.tensor_split), "shares of the cards in the layers"),
    )
    return tuple(Reason(name, str(value), formula, (), "the user") for name, value, formula in given if value)


def _prompt_cache_reason(problem: Problem, plan: Plan) -> Reason:
    fixed = problem.fixed
    bare = replace(plan.shape, prompt_cache_bytes=0, context_checkpoints=0)
    left = host_rest_bytes(problem.memory(bare), plan.policy.safety_factor)
    formula = (
        "saved prompts: least of half of what is left, a conversation per user (up to whole 256 MiB), 8 GiB;"
        " checkpoints: at most 8 per slot in a quarter of what is left"
    )
    if fixed.prompt_cache_bytes is not None:
        formula = NOT_COMPUTED
    conversations = conversations_bytes(plan.model, plan.workload.users, plan.shape)
    return Reason(
        "prompt_cache",
        f"{format_bytes(plan.prompt_cache_bytes)}, {plan.context_checkpoints} checkpoints per slot",
        formula,
        (("left on the host", format_bytes(left)), ("a conversation per user", format_bytes(conversations))),
        "host memory budget",
    )


def _budget_reason(budget: MemoryBudget, safety_factor: float) -> Reason:
    parts = ((part, getattr(budget, part)) for part in PARTS)
    ranges = "; ".join(
        f"{part.removesuffix('_bytes').replace('_', ' ')} {format_bytes(low)} to {format_bytes(high)}: {why}"
        for part, low, high, why in budget.ranges
        if low != high
    )
    formula = (
        "sum of the parts, ranges at their high end; a full cache uses at most "
        f"{safety_factor:.0%} of the room for it; swap never counts"
    )
    if budget.needed_cache_bytes is not None:
        formula = "sum of the parts, ranges at the end that leaves least cache; the cache is the rest of the share"
    return Reason(
        f"memory of {budget.device}",
        f"{format_bytes(budget.used_bytes)} of {format_bytes(budget.available_bytes)}",
        formula,
        tuple((part.removesuffix("_bytes").replace("_", " "), format_bytes(size)) for part, size in parts if size),
        "model header and engine rules" + (f"; {ranges}" if ranges else ""),
    )
