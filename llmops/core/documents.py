"""The JSON shapes that leave the process: hardware, model, workload, plan, budget, speed, and the way back.

Key names are a contract with scripts (docs/reference/json.md); `SCHEMA` counts incompatible changes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from llmops.core.errors import UnreadableInput
from llmops.core.hardware import Hardware
from llmops.core.memory.budget import PARTS, MemoryBudget
from llmops.core.model import CACHE_TYPE_BLOCKS, ModelSpec
from llmops.core.notices import Notice
from llmops.core.plan import Plan, Reason
from llmops.core.serialization import decode, encode

SCHEMA = 1
_APART = ("model", "workload", "policy", "budgets", "speeds", "reasons", "warnings")
_DERIVED = ("cache_tokens", "environment", "arguments")
# Values that one engine alone has: left out where they are as if it were not there.
_WHERE_SET = {
    row.name: encode(row.default)
    for row in fields(Plan)
    if row.name
    in {
        "loaded_models",
        "cpu_expert_layers",
        "tensor_split",
        "gpu_memory_utilization",
        "kv_memory_bytes",
        "data_parallel",
        "expert_parallel",
        "layer_partition",
        "nodes",
        "prefix_caching",
        "enforce_eager",
        "draft_reference",
        "replicas",
    }
}
_PAGED = ("cache_tokens", "usable_cache_tokens", "max_concurrency", "needed_cache_bytes", "request_cache_bytes")
FLASH_ATTENTION = ("on", "off", "auto")
_COUNTS = (
    "slots", "context_tokens_per_slot", "batch_tokens", "ubatch_tokens", "threads", "batch_threads", "tensor_parallel",
    "pipeline_parallel", "data_parallel", "nodes",
)  # fmt: skip
_CAPABILITY = re.compile(r"(\d{1,3})\.(\d{1,3})")


def hardware_document(hardware: Hardware) -> dict[str, Any]:
    """`data.hardware`: a compute capability is written as people write it, "8.6"."""
    document: dict[str, Any] = encode(hardware)
    for gpu in (*document["gpus"], *document["other_gpus"]):
        capability = gpu["compute_capability"]
        gpu["compute_capability"] = None if capability is None else ".".join(str(part) for part in capability)
    document["memory"]["usable_bytes"] = hardware.memory.usable_bytes
    return document


def notice_documents(notices: tuple[Notice, ...]) -> list[dict[str, Any]]:
    """`data.notices`: the values that each rests on as an object."""
    return [{**encode(notice), "values": dict(notice.values)} for notice in notices]


def hardware_from_document(document: object, where: str) -> Hardware:
    """The Hardware of a `data.hardware`; raise UnreadableInput naming the key that is wrong."""
    if not isinstance(document, dict):
        raise UnreadableInput(f"{where}: expected an object with the keys of `llmops probe --output json`")
    _refuse_negative(document, where)
    memory = document.get("memory")
    plain = dict(document)
    for key in ("gpus", "other_gpus"):
        gpus = document.get(key, [])
        if isinstance(gpus, list):
            plain[key] = [_plain_gpu(gpu, f"{where}.{key}[{place}]") for place, gpu in enumerate(gpus)]
    if isinstance(memory, dict):
        plain["memory"] = {key: value for key, value in memory.items() if key != "usable_bytes"}
    hardware = decode(Hardware, plain, where)
    _require_something(hardware, where)
    return hardware


def _require_something(hardware: Hardware, where: str) -> None:
    """Raise UnreadableInput for a zero where a machine has something or it is not known (null)."""
    cpu, bandwidth = hardware.cpu, hardware.bandwidth
    counts: list[tuple[str, float | None]] = [
        ("memory.total_bytes", hardware.memory.total_bytes),
        ("bandwidth.read_bytes_per_second", bandwidth.read_bytes_per_second if bandwidth else None),
        *((f"cpu.{name}", getattr(cpu, name)) for name in ("physical_cores", "usable_threads", "usable_cores")),
    ]
    for gpu in hardware.gpus:
        counts.append((f"gpus[{gpu.index}].total_bytes", gpu.total_bytes))
        counts.append((f"gpus[{gpu.index}].bandwidth_bytes_per_second", gpu.bandwidth_bytes_per_second))
    for name, count in counts:
        if count == 0:
            raise UnreadableInput(f"{where}.{name}: expected a number above 0, or null where it is not known")


def _refuse_negative(value: object, where: str) -> None:
    """No number of a machine or of a plan is below zero."""
    if isinstance(value, dict):
        for key, entry in value.items():
            _refuse_negative(entry, f"{where}.{key}")
    elif isinstance(value, list):
        for place, entry in enumerate(value):
            _refuse_negative(entry, f"{where}[{place}]")
    elif isinstance(value, (int, float)) and value < 0:
        raise UnreadableInput(f"{where}: expected a number that is not negative, found {value}")


def _plain_gpu(gpu: object, where: str) -> object:
    if not isinstance(gpu, dict) or not isinstance(gpu.get("compute_capability"), str):
        return gpu
    match = _CAPABILITY.fullmatch(gpu["compute_capability"])
    if match is None:
        raise UnreadableInput(f"{where}.compute_capability: expected a text such as '8.6'")
    return {**gpu, "compute_capability": [int(part) for part in match.groups()]}


def model_document(model: ModelSpec) -> dict[str, Any]:
    """`data.model`."""
    return {**encode(model), "cache_bytes_per_token": model.cache_bytes_per_token}


def budget_document(budget: MemoryBudget) -> dict[str, Any]:
    """One row of `data.budget`: the parts and `free_bytes` sum to `available_bytes`."""
    document: dict[str, Any] = {
        "device": budget.device,
        "total_bytes": budget.total_bytes,
        "available_bytes": budget.available_bytes,
    }
    document.update((part, getattr(budget, part)) for part in PARTS)
    document["free_bytes"] = budget.free_bytes
    document["ranges"] = {part: [low, high] for part, low, high, _ in budget.ranges}
    document["range_reasons"] = {part: why for part, _, _, why in budget.ranges}
    if budget.cache_tokens is not None:
        document.update((name, getattr(budget, name)) for name in _PAGED)
    return document


def reason_document(reason: Reason) -> dict[str, Any]:
    """One row of `data.reasons`."""
    return {**encode(reason), "inputs": dict(reason.inputs)}


def plan_document(
    plan: Plan, *, environment: Mapping[str, str] | None = None, arguments: tuple[str, ...] = ()
) -> dict[str, Any]:
    """The parts of `data` that describe a plan; enough to build the same Plan again.

    `environment` and `arguments` are the plan in the engine's own words.
    """
    numbers = {key: value for key, value in encode(plan).items() if key not in _APART}
    numbers = {key: value for key, value in numbers.items() if key not in _WHERE_SET or value != _WHERE_SET[key]}
    numbers["cache_tokens"] = plan.cache_tokens
    numbers["environment"] = dict(environment or {})
    numbers["arguments"] = list(arguments)
    return {
        "model": model_document(plan.model),
        "workload": encode(plan.workload),
        "policy": encode(plan.policy),
        "plan": numbers,
        "budget": [budget_document(budget) for budget in plan.budgets],
        "speed": [encode(speed) for speed in plan.speeds],
        "reasons": [reason_document(reason) for reason in plan.reasons],
        "warnings": list(plan.warnings),
    }


def plan_from_document(data: object, where: str) -> Plan:
    """The Plan that `plan_document` described; raise UnreadableInput naming the key that is missing or wrong."""
    if not isinstance(data, dict):
        raise UnreadableInput(f"{where}: expected an object with the keys of `llmops plan --output json`")
    for key in ("model", "workload", "policy", "plan"):
        if not isinstance(data.get(key), dict):
            raise UnreadableInput(
                f"{where}: no plan in it ({key!r} is missing)", hint="save one: llmops plan --output json"
            )
    _refuse_negative(data["plan"], f"{where}.plan")
    plain: dict[str, Any] = {key: value for key, value in data["plan"].items() if key not in _DERIVED}
    plain["model"] = {key: value for key, value in data["model"].items() if key != "cache_bytes_per_token"}
    plain["workload"], plain["policy"] = data["workload"], data["policy"]
    for name, key in (("budgets", "budget"), ("speeds", "speed"), ("reasons", "reasons"), ("warnings", "warnings")):
        plain[name] = data.get(key, [])
    plain["budgets"] = _plain_rows(plain["budgets"], _plain_budget, f"{where}.budget")
    plain["reasons"] = _plain_rows(plain["reasons"], _plain_reason, f"{where}.reasons")
    plan = decode(Plan, plain, where)
    _require_sound(plan, where)
    return plan


def _require_sound(plan: Plan, where: str) -> None:
    """Raise UnreadableInput for numbers and words that no engine can be started with."""
    for name in _COUNTS:
        number = getattr(plan, name)
        if number is not None and not 1 <= number < 2**31:
            raise UnreadableInput(f"{where}.plan.{name}: expected a number from 1 to 2147483647, found {number}")
    for name in ("cache_type_k", "cache_type_v"):
        if getattr(plan, name) not in CACHE_TYPE_BLOCKS:
            known = ", ".join(CACHE_TYPE_BLOCKS)
            raise UnreadableInput(f"{where}.plan.{name}: {getattr(plan, name)!r} is not one of {known}")
    if plan.flash_attention not in FLASH_ATTENTION:
        known = ", ".join(FLASH_ATTENTION)
        raise UnreadableInput(f"{where}.plan.flash_attention: {plan.flash_attention!r} is not one of {known}")
    stages = plan.layer_partition
    if stages and (len(stages) != plan.pipeline_parallel or sum(stages) != plan.model.layers or min(stages) < 1):
        raise UnreadableInput(
            f"{where}.plan.layer_partition: expected {plan.pipeline_parallel} numbers above 0 that sum to"
            f" {plan.model.layers}, the layers of the model"
        )
    for path in plan.model.source_paths:
        if not path.startswith("/") or "\0" in path:
            raise UnreadableInput(f"{where}.model.source_paths: {path!r} is not an absolute path")


def _plain_rows(rows: object, plain_row: Any, where: str) -> list[Any]:
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise UnreadableInput(f"{where}: expected a list of objects")
    return [plain_row(row) for row in rows]


def _plain_budget(row: dict[str, Any]) -> dict[str, Any]:
    plain = {key: value for key, value in row.items() if key not in {"free_bytes", "ranges", "range_reasons"}}
    ranges, reasons = row.get("ranges"), row.get("range_reasons")
    if isinstance(ranges, dict) and isinstance(reasons, dict):
        plain["ranges"] = [
            [part, *(pair if isinstance(pair, list) else [pair]), reasons.get(part, "")]
            for part, pair in ranges.items()
        ]
    return plain


def _plain_reason(row: dict[str, Any]) -> dict[str, Any]:
    inputs = row.get("inputs")
    return {**row, "inputs": [list(pair) for pair in inputs.items()]} if isinstance(inputs, dict) else row
