"""A shape in the terms of the ggml memory model, for every engine that runs llama.cpp."""

from __future__ import annotations

from llmops.core.memory.ggml_settings import GgmlSettings
from llmops.core.plan import Shape


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
        prompt_cache_bytes=shape.prompt_cache_bytes,
        context_checkpoints=shape.context_checkpoints,
        memory_mapped=shape.memory_mapped,
        repack=shape.repack,
        cpu_flags=cpu_flags,
    )
