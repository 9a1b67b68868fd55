"""Why each number of a plan is what it is: formula, inputs, source."""

from __future__ import annotations

from llmops.core.demand import Demand
from llmops.core.hardware import Hardware
from llmops.core.plan import Plan, Reason
from llmops.core.throughput import Rates
from llmops.core.units import format_bytes, format_rate


def reasons(plan: Plan, demand: Demand, rates: Rates, hardware: Hardware) -> tuple[Reason, ...]:
    """One reason per number, in the order in which the numbers depend on each other."""
    return (
        *_load_reasons(plan, demand, rates),
        *_context_reasons(plan),
        *_processor_reasons(plan, rates, hardware),
        *(_budget_reason(plan, device) for device in range(len(plan.budgets))),
        *_speed_reasons(plan, rates, hardware),
    )


def _load_reasons(plan: Plan, demand: Demand, rates: Rates) -> tuple[Reason, ...]:
    workload, policy = plan.workload, plan.policy
    turn = "no idle time" if workload.turn_seconds is None else f"{workload.turn_seconds:g} s"
    given = workload.generation_seconds is not None
    queue_model = "finite-source queue M/M/k//N, seen by an arriving user"
    return (
        Reason(
            "generation_seconds",
            f"{demand.generation_seconds:.1f}",
            "given" if given else "in flight x prompt / prefill rate + reply x decode step",
            (("prompt tokens", str(workload.prompt_tokens)), ("reply tokens", str(workload.reply_tokens))),
            "the user" if given else rates.source,
        ),
        Reason(
            "in_flight",
            f"{plan.in_flight:.1f}",
            "users x generation seconds / seconds between turns",
            (
                ("users", str(workload.users)),
                ("generation", f"{demand.generation_seconds:.1f} s"),
                ("turn", turn),
            ),
            f"workload {workload.kind.value}",
        ),
        Reason(
            "slots",
            str(plan.slots),
            f"fewest with at most {policy.wait_probability:.0%} chance to wait; bound by {plan.binding_constraint}",
            (("wanted", str(demand.slots_wanted)), ("think", f"{demand.think_seconds:.1f} s")),
            queue_model,
        ),
        Reason(
            "wait",
            f"{plan.wait_probability:.1%}, mean {plan.wait_seconds_mean:.1f} s",
            "chance that k of the other N - 1 users are served",
            (("k", str(plan.slots)), ("N", str(workload.users))),
            queue_model,
        ),
        Reason(
            "queue_requests",
            str(plan.queue_requests),
            "patience x slots / generation seconds with all slots busy",
            (("patience", f"{policy.patience_seconds:g} s"),),
            "policy",
        ),
    )


def _context_reasons(plan: Plan) -> tuple[Reason, ...]:
    model, workload = plan.model, plan.workload
    per_token = model.cache_bytes_per_token
    return (
        Reason(
            "context_tokens_per_slot",
            str(plan.context_tokens_per_slot),
            "at least max(floor, prompt + reply), at most the trained context, in steps of 256",
            (
                ("floor", str(workload.context_floor_tokens)),
                ("prompt + reply", str(workload.prompt_tokens + workload.reply_tokens)),
                ("trained", str(model.context_tokens_trained)),
            ),
            "workload and model header",
        ),
        Reason(
            "cache_bytes_per_token",
            str(per_token),
            "sum over full-attention layers of KV heads x (key + value length) x 2 bytes",
            (
                ("layers", str(model.layers)),
                ("growing layers", str(sum(layer.window_tokens is None for layer in model.attention_layers))),
            ),
            "model header",
        ),
        Reason(
            "cache_tokens",
            str(plan.cache_tokens),
            "slots x context per slot",
            (("slots", str(plan.slots)), ("context", str(plan.context_tokens_per_slot))),
            f"cache in {plan.cache_type_k}",
        ),
    )


def _processor_reasons(plan: Plan, rates: Rates, hardware: Hardware) -> tuple[Reason, ...]:
    cpu, policy = hardware.cpu, plan.policy
    prefill = rates.likely.prefill_tokens_per_second
    batch_formula = (
        "largest power of two <= prefill rate x longest gap, within 64..2048"
        if policy.protect == "itl"
        else "the engine's large batch: the first token comes sooner, running streams stop longer"
    )
    return (
        Reason(
            "threads",
            f"{plan.threads} decode, {plan.batch_threads} prefill",
            "usable cores for decode, usable threads for prefill",
            (
                ("physical cores", str(cpu.physical_cores)),
                ("quota", str(cpu.quota_cores)),
                ("affinity", str(cpu.affinity_cpus)),
            ),
            "probe",
        ),
        Reason(
            "waiting of threads",
            "asleep" if plan.passive_waiting else "the engine's default",
            "asleep where processors are virtual or under a quota: a spinning thread burns what the late one needs",
            (("virtual", "yes" if "hypervisor" in cpu.flags else "no"), ("quota", str(cpu.quota_cores))),
            "probe",
        ),
        Reason(
            "batch_tokens",
            f"{plan.batch_tokens} (physical {plan.ubatch_tokens})",
            batch_formula,
            (("prefill", f"{prefill:.0f} tokens/s"), ("gap", f"{policy.max_gap_seconds:g} s")),
            rates.source,
        ),
        Reason(
            "prompt_cache",
            f"{format_bytes(plan.prompt_cache_bytes)}, {plan.context_checkpoints} checkpoints per slot",
            "at most half of the host memory left, at most one conversation per user",
            (("users", str(plan.workload.users)),),
            "host memory budget",
        ),
    )


def _budget_reason(plan: Plan, number: int) -> Reason:
    budget = plan.budgets[number]
    parts = (
        ("weights", budget.weights_bytes),
        ("cache", budget.cache_bytes),
        ("state", budget.state_bytes),
        ("compute", budget.compute_bytes),
        ("output", budget.output_bytes),
        ("runtime", budget.runtime_bytes),
        ("prompt cache", budget.prompt_cache_bytes),
        ("reserve", budget.reserve_bytes),
    )
    return Reason(
        f"memory of {budget.device}",
        f"{format_bytes(budget.used_bytes)} of {format_bytes(budget.available_bytes)}",
        "sum of the parts; a full cache uses at most "
        f"{plan.policy.safety_factor:.0%} of the room for it; swap never counts",
        tuple((name, format_bytes(size)) for name, size in parts if size),
        "model header and engine rules",
    )


def _speed_reasons(plan: Plan, rates: Rates, hardware: Hardware) -> tuple[Reason, ...]:
    bandwidth = hardware.bandwidth.read_bytes_per_second if hardware.bandwidth else None
    return (
        Reason(
            "speed",
            f"{1.0 / rates.likely.step_seconds(1):.1f} tokens/s alone",
            "1 / (fixed + active weight bytes / bandwidth + streams x (cache bytes / bandwidth + arithmetic))",
            (
                ("active weights", format_bytes(plan.model.active_weights_bytes)),
                ("bandwidth", format_rate(bandwidth) if bandwidth else "not measured"),
            ),
            rates.source,
        ),
    )
