"""Keeping what is in force: a second run, a busy minute or an upgrade of llmops changes no number."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

from llmops.core.errors import DoesNotFit
from llmops.core.fitting import CONTEXT_STEP_TOKENS
from llmops.core.limits import crowded_threads, hard_violations, violations
from llmops.core.model import ModelSpec
from llmops.core.overrides import GIVEN
from llmops.core.plan import Fixed, Plan
from llmops.core.problem import Problem
from llmops.core.processors import decode_threads
from llmops.core.sizing import as_it_is_now, size, size_explicit
from llmops.engines.found import Served

# Firmware and kernels take a little more or less of the memory from one boot to the next.
_SAME_SIZE = 0.05


@dataclass(frozen=True)
class Kept:
    """A plan that stays, and why; `is_users_own` where llmops did not make it and so renders nothing."""

    plan: Plan
    reason: str
    is_users_own: bool


def keep_applied(applied: Plan, fixed: Fixed, problem: Problem, *, described: bool = False) -> Kept | None:
    """The plan that llmops applied last, while the same is asked for and memory, context and threads still suffice.

    Rates that turned out otherwise are said, not acted on: the numbers move when the user asks for it. `described`
    says that the user gave the machine himself, which may be another one.
    """
    same_request = (
        applied.workload == problem.workload
        and applied.policy == problem.policy
        and _same_model(applied, problem)
        and _agrees(fixed, applied)
        and _same_devices(applied, problem)
    )
    kept = as_it_is_now(problem, applied)
    if not same_request or (described and not _same_machine(applied, kept, problem)):
        return None
    if hard_violations(problem, kept) or crowded_threads(problem, applied.threads):
        return None
    return Kept(
        replace(kept, warnings=(*kept.warnings, *_advice(problem, kept))),
        "the applied plan still satisfies memory and context",
        is_users_own=False,
    )


def keep_served(served: Served, fixed: Fixed, problem: Problem) -> Kept | None:
    """The user's own configuration, where it breaks no limit of the policy."""
    explicit = size_explicit(replace(problem, fixed=served.values))
    if violations(problem, explicit) or served_violations(served, problem) or not _agrees(fixed, explicit):
        return None
    return Kept(explicit, "what runs now breaks no limit", is_users_own=True)


def served_violations(served: Served, problem: Problem) -> tuple[str, ...]:
    """Limits that what runs now breaks by settings which no plan has: threads, layers left on the processor, words."""
    # llama-server and its kin take one thread per physical core by themselves, whatever a quota says.
    threads = served.threads or problem.hardware.cpu.physical_cores
    lines = [*crowded_threads(problem, threads), *served.works_against]
    layers = problem.model.layers
    wanted = problem.fixed.gpu_layers
    if problem.on_gpu and served.gpu_layers is not None and served.gpu_layers < layers and wanted is None:
        lines.append(f"only {served.gpu_layers} of {layers} layers are on the card")
    return tuple(lines)


def chosen_context_tokens(served: Served | None, applied: Plan | None) -> int | None:
    """The context that a person chose and that a new plan keeps where it fits; not one that llmops computed itself."""
    if served is None or not served.context_was_chosen:
        return None
    longest = served.request_context_tokens or served.values.context_tokens
    if applied is not None and longest is not None:
        own = min(applied.context_tokens_per_slot, applied.model.context_tokens_trained)
        load = applied.workload
        needed = max(load.context_floor_tokens, load.prompt_tokens + load.reply_tokens)
        if longest == own and own < needed + CONTEXT_STEP_TOKENS:
            return None
    return longest


def _advice(problem: Problem, kept: Plan) -> tuple[str, ...]:
    """Limits of the policy that it breaks by now and that a new plan, with what is given, would not break."""
    lines = violations(problem, kept)
    if not lines:
        return ()
    try:
        afresh = size(problem)
    except DoesNotFit:
        return ()
    still = violations(problem, afresh)
    return tuple(f"{line}; `llmops tune --apply --replan` computes afresh" for line in lines if line not in still)


def _same_model(applied: Plan, problem: Problem) -> bool:
    """The same weights, wherever their file lies now."""
    return _weights(applied.model) == _weights(problem.model)


def _weights(model: ModelSpec) -> tuple[object, ...]:
    return (model.architecture, model.layers, model.parameters, model.quantization, model.weights_bytes)


def _same_devices(applied: Plan, problem: Problem) -> bool:
    """Cards as before. A driver that cannot be asked for a moment is no reason to leave the cards."""
    unseen = not problem.hardware.gpus and problem.hardware.gpu_detail != GIVEN
    return unseen or (applied.gpu_layers is not None) == problem.on_gpu


def _same_machine(applied: Plan, kept: Plan, problem: Problem) -> bool:
    before = {budget.device: budget.total_bytes for budget in applied.budgets}
    now = {budget.device: budget.total_bytes for budget in kept.budgets}
    alike = before.keys() == now.keys() and all(
        abs(now[device] - size) <= _SAME_SIZE * size for device, size in before.items()
    )
    return alike and applied.threads == decode_threads(problem.hardware.cpu)


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
        gpu_layers=plan.gpu_layers,
        cpu_expert_layers=plan.cpu_expert_layers,
        tensor_split=plan.tensor_split,
        gpu_memory_utilization=plan.gpu_memory_utilization,
        kv_memory_bytes=plan.kv_memory_bytes,
        tensor_parallel=plan.tensor_parallel,
        pipeline_parallel=plan.pipeline_parallel,
        data_parallel=plan.data_parallel,
        expert_parallel=plan.expert_parallel,
        nodes=plan.nodes,
        prefix_caching=plan.prefix_caching,
        enforce_eager=plan.enforce_eager,
    )
