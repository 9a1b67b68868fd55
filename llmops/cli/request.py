"""From the values asked for to what the core plans with: workload, policy, fixed values, hardware."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from llmops.cli.hosts import read_input
from llmops.core.errors import UnreadableInput, UsageError
from llmops.core.plan import Fixed, Policy
from llmops.core.workload import Workload, WorkloadKind

if TYPE_CHECKING:
    from llmops.actions.plan import PlanRequest
    from llmops.cli.settings import Settings
    from llmops.core.hardware import Hardware
    from llmops.core.model import ModelSpec

_EXACT_CACHE_TYPES = frozenset({"f32", "f16", "bf16"})


def plan_request(settings: Settings, *, replan: bool = False, measure: bool = False) -> PlanRequest:
    """The request for the actions; `measure` lets memory bandwidth be measured where nothing better is known."""
    from llmops.actions.plan import PlanRequest

    hardware, draft, projector = (settings.value(name) for name in ("hardware", "draft-model", "mmproj"))
    return PlanRequest(
        workload=workload_of(settings),
        policy=policy_of(settings),
        fixed=fixed_of(settings),
        engine=settings.value("engine"),
        engine_version=settings.value("engine-version"),
        models=tuple(absolute_reference(reference) for reference in settings.value("model") or ()),
        draft=None if draft is None else absolute_reference(draft),
        projector=None if projector is None else absolute_reference(projector),
        options=tuple(settings.values),
        hardware=None if hardware is None else hardware_from_file(hardware),
        override=lambda probed: overridden(probed, settings),
        bandwidth=measure,
        replan=replan,
    )


def absolute_reference(reference: str) -> str:
    """A path as a unit of systemd needs it; names of models stay as they are. Links are not followed."""
    try:
        path = Path(reference).expanduser()
        is_path = reference.startswith(("~", ".")) or reference.endswith(".gguf") or path.exists()
        return os.path.normpath(path if path.is_absolute() else Path.cwd() / path) if is_path else reference
    except PermissionError:
        raise
    except (OSError, RuntimeError, ValueError) as error:  # no such user, directory gone, no name for a file
        said = getattr(error, "strerror", None) or error
        raise UnreadableInput(f"{reference[:200]!r}: {said}", hint="check the path of the model") from None


def check_context(settings: Settings, model: ModelSpec) -> None:
    """Raise UsageError for a context that was asked for and that the model was never trained on."""
    context, trained = settings.value("context"), model.context_tokens_trained
    if settings.is_given("context") and context > trained:
        raise UsageError(
            f"--context {context} is more than the {trained} tokens that {model.reference} was trained on",
            hint=f"ask for at most {trained}, or take another model",
        )


def workload_of(settings: Settings) -> Workload:
    """Who uses the server."""
    return Workload(
        kind=WorkloadKind(settings.value("workload")),
        users=settings.value("users"),
        turn_seconds=settings.value("turn-seconds"),
        prompt_tokens=settings.value("prompt-tokens"),
        reply_tokens=settings.value("reply-tokens"),
        context_floor_tokens=settings.value("context"),
        generation_seconds=settings.value("generation-seconds"),
    )


def policy_of(settings: Settings) -> Policy:
    """What the operator accepts."""
    return Policy(
        wait_probability=settings.value("wait-probability"),
        patience_seconds=settings.value("patience-seconds"),
        max_gap_seconds=settings.value("max-gap-seconds"),
        minimum_tokens_per_second=settings.value("min-speed"),
        protect=settings.value("protect"),
    )


def fixed_of(settings: Settings) -> Fixed:
    """What is not computed; raise UsageError for values that contradict each other."""
    type_k, type_v = _cache_types(settings)
    batch, ubatch, flash = (settings.value(name) for name in ("batch-size", "ubatch-size", "flash-attn"))
    if batch and ubatch and ubatch > batch:
        raise UsageError(
            f"--ubatch-size {ubatch} is larger than --batch-size {batch}", hint="a pass is a part of a step: lower it"
        )
    if flash == "off" and type_v is not None and type_v not in _EXACT_CACHE_TYPES:
        # llama.cpp: "quantized V cache requires flash_attn to be enabled".
        raise UsageError(
            f"values in {type_v} need flash attention", hint="leave --flash-attn off out, or keep the values in f16"
        )
    return Fixed(
        slots=settings.value("slots"),
        context_tokens=settings.value("context") if settings.is_given("context") else None,
        cache_type_k=type_k,
        cache_type_v=type_v,
        queue_requests=settings.value("queue"),
        batch_tokens=batch or settings.value("max-num-batched-tokens"),
        ubatch_tokens=ubatch,
        kv_unified=settings.value("kv-unified"),
        swa_full=bool(settings.value("swa-full")),
        flash_attention=flash,
        repack=settings.value("repack"),
        prompt_cache_bytes=settings.value("cache-ram"),
        context_checkpoints=settings.value("ctx-checkpoints"),
        gpu_memory_utilization=settings.value("gpu-memory-utilization"),
        kv_memory_bytes=settings.value("kv-memory"),
        tensor_parallel=settings.value("tensor-parallel"),
        pipeline_parallel=settings.value("pipeline-parallel"),
        data_parallel=settings.value("data-parallel"),
        expert_parallel=settings.value("expert-parallel"),
        nodes=settings.value("nodes"),
        prefix_caching=settings.value("enable-prefix-caching"),
        enforce_eager=bool(settings.value("enforce-eager")),
        gpu_layers=settings.value("gpu-layers"),
        cpu_expert_layers=settings.value("n-cpu-moe"),
        tensor_split=_shares(settings.value("tensor-split")),
    )


def _shares(text: str | None) -> tuple[float, ...] | None:
    """Shares as llama-server reads them; raise UsageError for what are no numbers above zero in all."""
    if text is None:
        return None
    try:
        shares = tuple(float(part) for part in text.replace("/", ",").split(","))
    except ValueError:
        shares = ()
    if not shares or not all(0.0 <= share < math.inf for share in shares) or not any(shares):
        raise UsageError(f"--tensor-split {text!r} are no shares", hint="give one for each card, such as 3,1")
    return shares


def _cache_types(settings: Settings) -> tuple[str | None, str | None]:
    both = settings.value("cache-type")
    both = None if both == "auto" else both
    return settings.value("cache-type-k") or both, settings.value("cache-type-v") or both


def overridden(hardware: Hardware, settings: Settings) -> Hardware:
    """The hardware with the values that the user gave put in; raise UsageError for impossible ones."""
    from llmops.core.overrides import override_hardware, parse_gpu

    cards = settings.value("gpu")
    return override_hardware(
        hardware,
        ram_bytes=settings.value("ram"),
        ram_available_bytes=settings.value("ram-available"),
        swap_bytes=settings.value("swap"),
        cores=settings.value("cores"),
        bandwidth_bytes_per_second=settings.value("bandwidth"),
        gpus=None if cards is None else tuple(parse_gpu(card) for card in cards),
        no_gpu=bool(settings.value("no-gpu")),
        links=settings.value("links"),
    )


def hardware_from_file(path: str) -> Hardware:
    """The hardware in a saved `probe --output json`, or in its `data.hardware` alone."""
    from llmops.core.documents import hardware_from_document

    hint = "save one: llmops probe --output json > FILE"
    document = json_input(path, "hardware file", hint)
    if isinstance(document, dict):
        document = document.get("data", document)
    if isinstance(document, dict):
        document = document.get("hardware", document)
    with hinting(hint):
        return hardware_from_document(document, f"hardware file {path}")


@contextmanager
def hinting(hint: str) -> Iterator[None]:
    """Give an UnreadableInput that names only what is wrong the next step as well."""
    try:
        yield
    except UnreadableInput as error:
        error.hint = error.hint or hint
        raise


def json_input(path: str, what: str, hint: str) -> object:
    """The JSON of a file that the user named; raise UnreadableInput with its name."""
    text = read_input(path, what, hint=hint)
    try:
        document: object = json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise UnreadableInput(f"{what} {path}: not JSON: {' '.join(str(error).split())}", hint=hint) from None
    if not isinstance(document, dict):
        return document
    if document.get("schema", 1) != 1:
        raise UnreadableInput(f"{what} {path}: its schema is {document['schema']!r}, this llmops reads 1", hint=hint)
    if document.get("exit_code", 0) not in (0, None) and not document.get("data"):
        raise UnreadableInput(f"{what} {path}: it holds an error, not a result", hint="see its `errors`")
    return document


def _refuse_constant(name: str) -> object:
    raise ValueError(f"{name} is not a number")
