"""A shape in the terms of the ggml memory model, for every engine that runs llama.cpp."""

from __future__ import annotations

from llmops.core.errors import UsageError
from llmops.core.hardware import Hardware
from llmops.core.memory.ggml_cache import refuses_cache_types
from llmops.core.memory.ggml_settings import GgmlSettings
from llmops.core.model import ModelSpec
from llmops.core.plan import Fixed, Shape
from llmops.core.version import Version


def ggml_settings(shape: Shape, cpu_flags: tuple[str, ...]) -> GgmlSettings:
    """The same shape in the memory model's terms; flash attention counts unless it is switched off."""
    return GgmlSettings(
        slots=shape.slots,
        context_tokens_per_slot=shape.context_tokens_per_slot,
        kv_unified=shape.kv_unified,
        cache_type_k=shape.cache_type_k,
        cache_type_v=shape.cache_type_v,
        batch_tokens=shape.batch_tokens,
        ubatch_tokens=shape.ubatch_tokens,
        flash_attention=shape.flash_attention != "off",
        swa_full=shape.swa_full,
        gpu_layers=shape.gpu_layers or 0,
        opens_cards=shape.gpu_layers is not None,
        prompt_cache_bytes=shape.prompt_cache_bytes,
        context_checkpoints=shape.context_checkpoints,
        memory_mapped=shape.memory_mapped,
        repack=shape.repack,
        cpu_flags=cpu_flags,
        tensor_split=shape.tensor_split,
        cpu_expert_layers=shape.cpu_expert_layers,
    )


def require_one_cache_type(model: ModelSpec, build: Version | None, fixed: Fixed) -> None:
    """Raise UsageError where the user's two cache types differ and this build has one for a compressed cache."""
    key, value = fixed.cache_type_k or "f16", fixed.cache_type_v or "f16"
    if refuses_cache_types(model, key, value, build):
        raise UsageError(
            f"{model.reference} keeps keys and values in one compressed vector, which is stored in one type, not in"
            f" {key} and {value}",
            hint=f"give --cache-type-k {key} --cache-type-v {key}, or neither",
        )


def require_placeable(model: ModelSpec, hardware: Hardware, fixed: Fixed) -> None:
    """Raise UsageError where the user divides a model that cannot be divided so."""
    given = {
        "--gpu-layers": fixed.gpu_layers,
        "--n-cpu-moe": fixed.cpu_expert_layers,
        "--tensor-split": fixed.tensor_split,
    }
    named = [name for name, value in given.items() if value]
    if named and not hardware.gpus:
        raise UsageError(
            f"{named[0]} divides a model between cards and processor, and no card is used here",
            hint=f"leave {named[0]} out, or describe the card with --gpu",
        )
    if fixed.cpu_expert_layers and not model.experts:
        raise UsageError(
            f"{model.reference} has no experts that --n-cpu-moe could keep in main memory",
            hint="leave --n-cpu-moe out; --gpu-layers keeps whole layers there",
        )
    cards = len(hardware.gpus)
    if fixed.tensor_split and len(fixed.tensor_split) != cards:
        raise UsageError(
            f"--tensor-split has {len(fixed.tensor_split)} shares, and there are {cards} cards",
            hint="give one share for each card, such as 3,1",
        )
