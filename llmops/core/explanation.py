"""Why each number of a plan is what it is: the formula that was used, its inputs, where they come from."""

from __future__ import annotations

from collections import Counter

from llmops.core.demand import Demand, queue_requests, service_seconds
from llmops.core.explanation_machine import machine_reasons
from llmops.core.explanation_speed import rate_reasons
from llmops.core.fitting import CONTEXT_STEP_TOKENS
from llmops.core.model import ModelSpec
from llmops.core.plan import NOT_COMPUTED, Plan, Reason
from llmops.core.problem import Problem
from llmops.core.replicas import replica_reasons

_QUEUE_MODEL = "finite-source queue M/M/k//N, seen by an arriving user"


def reasons(problem: Problem, plan: Plan, demand: Demand) -> tuple[Reason, ...]:
    """At least one reason per number, in the order in which the numbers depend on each other."""
    return (
        *_load_reasons(problem, plan, demand),
        *_waiting_reasons(problem, plan, demand),
        *replica_reasons(problem, plan),
        _context_reason(problem, plan),
        *_cache_reasons(problem, plan),
        *machine_reasons(problem, plan),
        *rate_reasons(problem, plan),
    )


def _load_reasons(problem: Problem, plan: Plan, demand: Demand) -> tuple[Reason, ...]:
    workload, rates = problem.workload, problem.rates
    at_once = max(1.0, demand.in_flight)
    generation = Reason(
        "generation_seconds",
        f"{demand.generation_seconds:.4g}",
        "m x prompt / prefill rate + reply x step, with m requests at once",
        (
            ("m", f"{at_once:.4g}"),
            ("prompt", f"{workload.prompt_tokens} tokens"),
            ("prefill rate", f"{rates.likely.prefill_tokens_per_second:.5g} tokens/s"),
            ("reply", f"{workload.reply_tokens} tokens"),
            ("step", f"{rates.likely.step_seconds(at_once):.5g} s"),
        ),
        rates.source,
    )
    if workload.generation_seconds is not None:
        generation = Reason("generation_seconds", generation.value, "given", (), "the user")
    formula = "users x generation seconds / seconds between turns"
    if workload.turn_seconds is None:
        formula = "users: the next request of each follows at once"
    elif demand.saturated:
        formula = "users: a turn takes them longer than the time between turns"
    turn = "none" if workload.turn_seconds is None else f"{workload.turn_seconds:g} s"
    inputs = (
        ("users", str(workload.users)),
        ("generation", f"{demand.generation_seconds:.4g} s"),
        ("between turns", turn),
    )
    return (
        generation,
        Reason("in_flight", f"{plan.in_flight:.3g}", formula, inputs, f"workload {workload.kind.value}"),
    )


def _waiting_reasons(problem: Problem, plan: Plan, demand: Demand) -> tuple[Reason, ...]:
    workload, policy = problem.workload, problem.policy
    full_seconds = service_seconds(workload, problem.rates)(min(plan.slots, workload.users))
    return (
        Reason(
            "slots",
            str(plan.slots),
            _slots_formula(plan, demand),
            (
                ("wanted", str(demand.slots_wanted)),
                ("chance allowed", f"{policy.wait_probability:.0%}"),
                ("users", str(workload.users)),
                ("think", f"{demand.think_seconds:.4g} s"),
                ("minimum speed", f"{policy.minimum_tokens_per_second:g} tokens/s"),
            ),
            _QUEUE_MODEL,
        ),
        Reason(
            "wait",
            f"{plan.wait_probability:.1%}, mean {plan.wait_seconds_mean:.1f} s",
            "chance that k of the other N - 1 users are served; of n others found, the wait is (n - k + 1) x S / k",
            (
                ("k", str(plan.slots)),
                ("N", str(workload.users)),
                ("think", f"{demand.think_seconds:.4g} s"),
                ("S, all slots busy", f"{full_seconds:.4g} s"),
            ),
            _QUEUE_MODEL,
        ),
        _queue_reason(problem, plan),
    )


def _slots_formula(plan: Plan, demand: Demand) -> str:
    if plan.binding_constraint == "given":
        return NOT_COMPUTED
    if plan.binding_constraint == "memory":
        return "as many of those wanted as the memory holds"
    if plan.binding_constraint == "speed":
        return "as many of those wanted as leave each stream the minimum speed; at least one"
    if plan.slots > demand.slots_wanted:
        return "one would do for this chance to wait; a second costs nothing here"
    return "fewest with at most the allowed chance to wait"


def _queue_reason(problem: Problem, plan: Plan) -> Reason:
    policy = problem.policy
    seconds = service_seconds(problem.workload, problem.rates)(plan.slots)
    computed = queue_requests(problem.workload, problem.rates, policy, plan.slots)
    formula = "patience x slots / S with all slots busy, rounded down; at least 1"
    if problem.fixed.queue_requests is not None:
        formula = NOT_COMPUTED
    elif computed != plan.queue_requests:
        formula += f"; kept from an earlier plan, now {computed}"
    inputs = (
        ("patience", f"{policy.patience_seconds:g} s"),
        ("slots", str(plan.slots)),
        ("S", f"{seconds:.4g} s"),
    )
    return Reason("queue_requests", str(plan.queue_requests), formula, inputs, f"policy; {problem.rates.source}")


def _context_reason(problem: Problem, plan: Plan) -> Reason:
    workload, given, served = problem.workload, problem.fixed.context_tokens, problem.preferred_context_tokens
    floor = workload.context_floor_tokens if given is None else given
    return Reason(
        "context_tokens_per_slot",
        str(plan.context_tokens_per_slot),
        "what is served until now where it fits; at least max(floor, prompt + reply), at most what the model was"
        f" trained on; in steps of {CONTEXT_STEP_TOKENS}",
        (
            ("floor", str(floor)),
            ("prompt + reply", str(workload.prompt_tokens + workload.reply_tokens)),
            ("trained", str(plan.model.context_tokens_trained)),
            ("served until now", "nothing that was chosen" if served is None else str(served)),
        ),
        "workload, model header and what runs now",
    )


def _cache_reasons(problem: Problem, plan: Plan) -> tuple[Reason, ...]:
    model = plan.model
    return (
        Reason(
            "cache_types",
            f"{plan.cache_type_k} keys, {plan.cache_type_v} values",
            _cache_types_formula(problem, plan),
            (("allowed", " then ".join(problem.cache_types)),),
            "policy" if problem.fixed.cache_type_k is None else "the user",
        ),
        Reason(
            "cache_bytes_per_token",
            str(model.cache_bytes_per_token),
            "layers x KV heads x (key + value length) x 2 bytes, of the layers that keep the whole context",
            (("layers", _growing_layers(model)), ("of all", str(len(model.attention_layers)))),
            "model header",
        ),
        Reason(
            "cache_tokens",
            str(plan.cache_tokens),
            "slots x context per slot" + (", in one pool that all share" if plan.kv_unified else ""),
            (("slots", str(plan.slots)), ("context", str(plan.context_tokens_per_slot))),
            f"cache in {plan.cache_type_k}",
        ),
    )


def _growing_layers(model: ModelSpec) -> str:
    """Those that keep the whole context, by their shapes."""
    growing = [
        (layer.kv_heads, layer.key_length, layer.value_length)
        for layer in model.attention_layers
        if layer.window_tokens is None
    ]
    counts = Counter(growing)
    return (
        ", ".join(f"{count} layers of {heads} x ({key} + {value})" for (heads, key, value), count in counts.items())
        or "none"
    )


def _cache_types_formula(problem: Problem, plan: Plan) -> str:
    if problem.fixed.cache_type_k is not None or problem.fixed.cache_type_v is not None:
        return NOT_COMPUTED
    if plan.cache_type_k == problem.cache_types[0]:
        return "the first type that is allowed: it fits"
    return "the next type that is allowed: with the first it did not fit, and fewer slots come after it"
