"""A plan for people: what is served, memory, speed, what binds, what to type next."""

from __future__ import annotations

from collections.abc import Sequence

from llmops.cli.settings import Given
from llmops.cli.text.layout import bullets, caution, heading, pairs, sections, shell_lines, table, wrapped
from llmops.core.memory.budget import PARTS, MemoryBudget
from llmops.core.plan import Plan, Reason, Speed
from llmops.core.recommendation import Recommendation
from llmops.core.units import format_bytes

_MOST_COLUMNS = 3
_BINDS = {
    "users": "the users: this is enough for the wait that was asked for",
    "memory": "memory: with more of it there would be more slots",
    "speed": "speed: with more slots each stream would fall under the minimum",
    "given": "the number that was given",
}


def plan_text(plan: Plan, *, title: str = "Plan") -> str:
    """Summary, memory table, speed table and warnings."""
    return sections(
        (
            summary_text(plan, title),
            budget_text(plan.budgets),
            speed_text(plan.speeds, knee=_knee(plan)),
            warnings_text(plan),
        )
    )


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


def budget_text(budgets: Sequence[MemoryBudget]) -> str:
    """One column per device with all parts; with many devices one row per device."""
    if not budgets:
        return ""
    body = _by_part(budgets) if len(budgets) <= _MOST_COLUMNS else _by_device(budgets)
    devices: dict[tuple[str, str], list[str]] = {}
    for budget in budgets:
        for part, low, high, why in budget.ranges:
            if why and low != high:
                devices.setdefault((_part_name(part), why), []).append(budget.device)
    notes = [f"{name} on {' and '.join(where)}: {why}" for (name, why), where in devices.items()]
    return heading("Memory") + "\n" + body + ("\n" + bullets(notes) if notes else "")


def _by_part(budgets: Sequence[MemoryBudget]) -> str:
    rows = []
    for part in PARTS:
        if any(getattr(budget, part) for budget in budgets):
            rows.append((_part_name(part), *(_part_size(budget, part) for budget in budgets)))
    rows.append(("free", *(_free(budget) for budget in budgets)))
    rows += _pool_rows(budgets)
    rows.append(("available", *(format_bytes(budget.available_bytes) for budget in budgets)))
    rows.append(("installed", *(format_bytes(budget.total_bytes) for budget in budgets)))
    return table(rows, ("part", *(budget.device for budget in budgets)))


def _pool_rows(budgets: Sequence[MemoryBudget]) -> list[tuple[str, ...]]:
    """What a pool of pages holds, in the engine's own words."""
    if all(budget.cache_tokens is None for budget in budgets):
        return []
    return [
        ("cache tokens", *(_count(budget.cache_tokens) for budget in budgets)),
        ("usable cache tokens", *(_count(budget.usable_cache_tokens) for budget in budgets)),
        ("max concurrency", *(_held(budget) for budget in budgets)),
    ]


def _count(number: int | None) -> str:
    return "" if number is None else f"{number:,}"


def _by_device(budgets: Sequence[MemoryBudget]) -> str:
    is_paged = any(budget.cache_tokens is not None for budget in budgets)
    rows = [
        (
            budget.device,
            format_bytes(budget.weights_bytes),
            format_bytes(budget.cache_bytes),
            *(() if is_paged else (format_bytes(budget.used_bytes),)),
            format_bytes(budget.available_bytes),
            _free(budget),
            *((_count(budget.cache_tokens), _held(budget)) if is_paged else ()),
        )
        for budget in budgets
    ]
    if is_paged:
        return table(rows, ("device", "weights", "cache", "available", "free", "cache tokens", "concurrency"))
    return table(rows, ("device", "weights", "cache", "used", "available", "free"))


def _held(budget: MemoryBudget) -> str:
    return "" if budget.max_concurrency is None else f"{budget.max_concurrency:.2f}x"


def _part_name(part: str) -> str:
    return part.removesuffix("_bytes").replace("_", " ")


def _part_size(budget: MemoryBudget, part: str) -> str:
    for name, low, high, _ in budget.ranges:
        if name == part and low != high:
            return f"{format_bytes(low)} to {format_bytes(high)}"
    return format_bytes(getattr(budget, part))


def _free(budget: MemoryBudget) -> str:
    free = budget.free_bytes
    return format_bytes(free) if free >= 0 else f"{format_bytes(-free)} short"


def _knee(plan: Plan) -> str | None:
    return next((reason.value for reason in plan.reasons if reason.quantity == "knee"), None)


def speed_text(speeds: Sequence[Speed], *, knee: str | None = None) -> str:
    """Rates at several numbers of streams, where more of them add little, and what was measured or predicted."""
    if not speeds:
        return ""
    bases = sorted({speed.basis for speed in speeds})
    headers = ["streams", "tokens/s each", "together", "prompt tokens/s", "first token"]
    rows = [list(_speed_row(speed)) for speed in speeds]
    if len(bases) > 1:
        headers.append("basis")
        rows = [[*row, speed.basis] for row, speed in zip(rows, speeds, strict=True)]
    note = "\n" + wrapped("verifying measures them; the next plan then uses what was measured")
    most = "" if knee is None else "\n" + wrapped(f"more at once add little: {knee}")
    body = table(rows, headers, left_columns=0) + most + (note if "predicted" in bases else "")
    return heading(f"Speed, {' and '.join(bases)}") + "\n" + body


def _speed_row(speed: Speed) -> tuple[str, ...]:
    rate = speed.decode_tokens_per_second_per_stream
    each = f"{rate.likely:.1f}" if rate.low == rate.high else f"{rate.low:.1f} to {rate.high:.1f}"
    total, prefill = speed.decode_tokens_per_second_total, speed.prefill_tokens_per_second
    return (str(speed.streams), each, f"{total:.1f}", f"{prefill:.0f}", f"{speed.ttft_seconds:.1f} s")


def warnings_text(plan: Plan) -> str:
    """One line per warning."""
    return caution("Warnings") + "\n" + bullets(plan.warnings) if plan.warnings else ""


def recommendation_text(found: Recommendation) -> str:
    """Which engine suits, and why."""
    return heading("Engine") + "\n" + wrapped(found.message) + "\n" + bullets(found.reasons)


def reasons_text(reasons: Sequence[Reason]) -> str:
    """Every number with formula, inputs and source."""
    blocks = []
    for reason in reasons:
        inputs = ", ".join(f"{name} {value}" for name, value in reason.inputs)
        lines = [wrapped(f"{reason.quantity} = {reason.value}"), wrapped(reason.formula, first="      ", rest="      ")]
        if inputs:
            lines.append(wrapped(inputs, first="      with ", rest="           "))
        lines.append(wrapped(reason.source, first="      source: ", rest="              "))
        blocks.append("\n".join(lines))
    return heading("Why") + "\n" + "\n".join(blocks) if blocks else ""


def settings_text(rows: Sequence[Given]) -> str:
    """Each option with its value and whether flag, file or default set it."""
    shown = [(row.name, _value(row.value), row.source) for row in rows]
    return heading("Settings") + "\n" + table(shown, ("option", "value", "from"), left_columns=3)


def _value(value: object) -> str:
    if isinstance(value, tuple):
        return ", ".join(str(entry) for entry in value)
    return "no idle time" if value is None else str(value)


def next_step(command: str) -> str:
    """The command to type next, in lines that a shell reads as one."""
    return f"{heading('Next')}\n{shell_lines(command)}"
