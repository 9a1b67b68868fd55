"""What the operator must know before he relies on a plan."""

from __future__ import annotations

from llmops.core.demand import Demand
from llmops.core.notices import card_notices, processor_notices
from llmops.core.plan import Plan
from llmops.core.problem import Problem

# The pairs that CUDA builds have compiled kernels for, each with itself (llama.cpp, docs/build.md and fattn.cu).
FAST_ON_CARDS = frozenset({"f16", "bf16", "q8_0", "q4_0"})
EIGHT_BITS = frozenset({"q8_0", "fp8"})
# What gives more slots, by what keeps them few.
MORE_SLOTS = {
    "given": "without --slots they are computed",
    "memory": "a smaller model, a shorter --context or more memory gives more",
    "speed": "a smaller model or a faster machine gives more",
}


def cautions(problem: Problem, plan: Plan, demand: Demand, levers: tuple[str, ...]) -> tuple[str, ...]:
    """One line each, most important first."""
    return (
        *_shape_warnings(problem, plan, levers),
        *_load_warnings(problem, plan, demand),
        *_machine_warnings(problem, plan),
        *(f"the model: {note}" for note in plan.model.notes),
    )


def _shape_warnings(problem: Problem, plan: Plan, levers: tuple[str, ...]) -> list[str]:
    lines = []
    trained, workload = plan.model.context_tokens_trained, plan.workload
    if workload.context_floor_tokens > trained:
        lines.append(
            f"the context floor of {workload.context_floor_tokens} tokens is cut to the {trained} that the model was"
            " trained on; longer requests need another model"
        )
    if workload.prompt_tokens + workload.reply_tokens > plan.context_tokens_per_slot:
        lines.append(
            f"a request of {workload.prompt_tokens} + {workload.reply_tokens} tokens does not fit a slot of"
            f" {plan.context_tokens_per_slot}: longer prompts are refused, longer replies cut; --context asks for more"
        )
    if "shorter context" in levers:
        lines.append(
            f"memory holds {plan.context_tokens_per_slot} tokens per slot instead of the"
            f" {problem.preferred_context_tokens} served until now; requests above that are refused; --context"
            f" {problem.preferred_context_tokens} makes that a floor"
        )
    if plan.cache_type_k in EIGHT_BITS and f"{plan.cache_type_k} cache" in levers:
        lines.append(
            "the cache is kept in 8 bits to make it fit: half the memory, slightly less exact replies; --cache-type"
            " fixes another"
        )
    lines += _split_warning(problem, plan)
    types = {plan.cache_type_k, plan.cache_type_v}
    if problem.on_gpu and not problem.choices.is_paged and (len(types) > 1 or not types <= FAST_ON_CARDS):
        lines.append(
            f"cards have no quick attention for keys in {plan.cache_type_k} and values in {plan.cache_type_v}:"
            " keep both in f16, bf16, q8_0 or q4_0"
        )
    return lines


def _split_warning(problem: Problem, plan: Plan) -> list[str]:
    """What a part with the processor costs; a plan has one only where it was asked for."""
    if not problem.splits_with_host(plan.shape):
        return []
    layers = max(0, problem.layers_to_place - (plan.gpu_layers or 0))
    parts = [f"{layers} of {plan.model.layers} layers"] if layers else []
    if plan.cpu_expert_layers:
        parts.append(f"the experts of {plan.cpu_expert_layers} layers")
    rate = 1.0 / problem.rates_of(plan.shape).likely.step_seconds(1)
    return [
        f"{' and '.join(parts)} stay in main memory as asked for: every token reads them there,"
        f" about {rate:.3g} tokens/s alone"
    ]


def _load_warnings(problem: Problem, plan: Plan, demand: Demand) -> list[str]:
    lines = []
    if plan.slots < demand.slots_wanted:
        because = "as given" if plan.binding_constraint == "given" else f"because of {plan.binding_constraint}"
        lines.append(
            f"{plan.slots} of {demand.slots_wanted} wanted slots {because}:"
            f" {plan.wait_probability:.0%} of requests wait, {plan.wait_seconds_mean:.1f} s on average;"
            f" {MORE_SLOTS.get(plan.binding_constraint, MORE_SLOTS['memory'])}{_more_servers(plan)}"
        )
    at_once = min(plan.slots, plan.workload.users)
    rate = 1.0 / problem.rates.likely.step_seconds(at_once)
    if rate < plan.policy.minimum_tokens_per_second:
        lines.append(
            f"not usable for interactive work: {rate:.1f} tokens/s per user with {at_once} at once, under the"
            f" minimum of {plan.policy.minimum_tokens_per_second:g}; take a smaller model or faster memory"
        )
    if demand.saturated:
        lines.append(
            f"the users ask faster than this machine answers: a turn takes {demand.generation_seconds:.0f} s here and"
            f" they want one every {plan.workload.turn_seconds:.0f} s; serve fewer, or take a smaller model"
        )
    return lines


def _more_servers(plan: Plan) -> str:
    """How many servers would carry the users, where one does not, and what writes them."""
    if plan.replicas is None:
        return ""
    front = "behind a front (render --front haproxy --inventory FILE)"
    return f"; or {plan.replicas} servers like this one {front} carry these users"


def _machine_warnings(problem: Problem, plan: Plan) -> list[str]:
    """What the plan does about the machine's peculiarities; a quota is in the number of threads already."""
    if not problem.on_gpu:
        slow = [notice for notice in processor_notices(problem.hardware.cpu) if notice.code == "cpu-no-avx2"]
        return [notice.message for notice in (*card_notices(problem.hardware), *slow) if not notice.devices]
    lines = [notice.message for notice in card_notices(problem.hardware)]
    return lines if problem.choices.is_paged else lines + _needless_split(problem, plan)


def _needless_split(problem: Problem, plan: Plan) -> list[str]:
    """Several cards where the fastest alone would hold the plan."""
    cards = [budget for budget in plan.budgets if budget.device != "host"]
    rated = [gpu for gpu in problem.hardware.gpus if gpu.bandwidth_bytes_per_second and gpu.usable_bytes]
    if len(cards) < 2 or len(rated) != len(cards):
        return []
    fastest = max(rated, key=lambda gpu: gpu.bandwidth_bytes_per_second or 0)
    if all(gpu.bandwidth_bytes_per_second == fastest.bandwidth_bytes_per_second for gpu in rated):
        return []
    divided = sum(budget.weights_bytes + budget.cache_bytes + budget.state_bytes for budget in cards)
    beside = max(budget.compute_bytes + budget.runtime_bytes + budget.reserve_bytes for budget in cards)
    if divided / plan.policy.safety_factor + beside > (fastest.usable_bytes or 0):
        return []
    return [f"{fastest.name} alone would hold this plan and be faster: name only it in CUDA_VISIBLE_DEVICES"]
