"""The numbers of a plan that decide how the engine serves, one row for each."""

from __future__ import annotations

from llmops.cli.text.layout import heading, pairs
from llmops.core.plan import Plan
from llmops.core.units import format_bytes

_BINDS = {
    "users": "the users: this is enough for the wait that was asked for",
    "memory": "memory: with more of it there would be more slots",
    "speed": "speed: with more slots each stream would fall under the minimum",
    "given": "the number that was given",
}


def summary_text(plan: Plan, title: str) -> str:
    """The numbers that decide how the engine serves."""
    model, workload = plan.model, plan.workload
    version = f" {plan.engine_version}" if plan.engine_version else ""
    turn = "no idle time" if workload.turn_seconds is None else f"a turn every {workload.turn_seconds:g} s"
    cache = (
        plan.cache_type_k if plan.cache_type_k == plan.cache_type_v else f"{plan.cache_type_k} / {plan.cache_type_v}"
    )
    rows = (
        (
            "model",
            f"{model.reference} ({model.architecture}, {model.quantization}, {format_bytes(model.weights_bytes)})",
        ),
        ("load", f"{workload.users} users, {workload.kind.value}, {turn}: {plan.in_flight:.1f} requests in flight"),
        ("slots", _slots(plan)),
        ("waiting", f"{plan.wait_probability:.0%} of requests wait, {plan.wait_seconds_mean:.1f} s on average"),
        ("queue", f"{plan.queue_requests} waiting requests are served in {plan.policy.patience_seconds:g} s"),
        *(_paged_rows(plan, cache) if _is_paged(plan) else _slot_rows(plan, cache)),
        *_protected(plan),
        *((("servers", f"{plan.replicas} like this one for the wait that was asked for"),) if plan.replicas else ()),
        ("bound by", _BINDS.get(plan.binding_constraint, plan.binding_constraint)),
    )
    return heading(f"{title} for {plan.engine}{version}") + "\n" + pairs(rows)


def _protected(plan: Plan) -> tuple[tuple[str, str], ...]:
    """What quick first tokens cost those who are being answered; steady streams are the default."""
    if plan.policy.protect != "ttft" or not plan.speeds or plan.slots < 2:
        return ()
    stop = plan.batch_tokens / plan.speeds[0].prefill_tokens_per_second
    return (("protects", f"first tokens: a long prompt stops running streams for {stop:.1f} s at a time"),)


def _is_paged(plan: Plan) -> bool:
    return any(budget.cache_tokens is not None for budget in plan.budgets)


def _slots(plan: Plan) -> str:
    pool = "in one shared pool" if plan.kv_unified or _is_paged(plan) else "together"
    pool = pool if plan.data_parallel == 1 else f"in {plan.data_parallel} pools"
    return f"{plan.slots} at once, {plan.context_tokens_per_slot:,} tokens each ({plan.cache_tokens:,} {pool})"


def _slot_rows(plan: Plan, cache: str) -> tuple[tuple[str, str], ...]:
    return (
        ("cache", f"{cache}, flash attention {plan.flash_attention}"),
        ("threads", _threads(plan)),
        ("batch", f"{plan.batch_tokens:,} tokens per step, {plan.ubatch_tokens:,} per pass"),
        ("prompt cache", f"{format_bytes(plan.prompt_cache_bytes)}, {plan.context_checkpoints} checkpoints per slot"),
    )


def _paged_rows(plan: Plan, cache: str) -> tuple[tuple[str, str], ...]:
    where = "the host" if plan.gpu_layers is None else "each card"
    share = f"{plan.gpu_memory_utilization:g} of {where}" if plan.gpu_memory_utilization is not None else ""
    if plan.kv_memory_bytes is not None:
        share = f"{format_bytes(plan.kv_memory_bytes)} of cache on {where}"
    cards = f"{plan.tensor_parallel} for each layer, {plan.pipeline_parallel} after each other"
    if plan.layer_partition:
        cards += f" ({', '.join(str(count) for count in plan.layer_partition)} layers)"
    each = plan.shape.slots_of_each
    copies = f"{plan.data_parallel} side by side, {each} slot{'' if each == 1 else 's'} each"
    rows = (
        ("cache", cache),
        ("memory", share),
        ("copies", copies if plan.data_parallel > 1 else ""),
        ("cards", cards if plan.tensor_parallel * plan.pipeline_parallel > 1 else ""),
        ("experts", "whole ones on each card" if plan.expert_parallel else ""),
        ("batch", f"{plan.batch_tokens:,} tokens per step"),
    )
    return tuple(row for row in rows if row[1])


def _threads(plan: Plan) -> str:
    if plan.threads is None:
        return "the engine's own choice"
    prompts = "" if plan.batch_threads in (None, plan.threads) else f", {plan.batch_threads} for prompts"
    asleep = ", asleep while they wait" if plan.passive_waiting else ""
    return f"{plan.threads}{prompts}{asleep}"
