"""What decides the memory of a ggml server (llama-server, Ollama's runner): its settings, and how tokens are padded."""

from __future__ import annotations

from dataclasses import dataclass

from llmops.core.model import ModelSpec
from llmops.core.units import GIB

# src/llama-context.cpp: the total context and every slot's share are rounded up to this many cells.
CONTEXT_PADDING_TOKENS = 256


@dataclass(frozen=True)
class GgmlSettings:
    """The settings of one server process; the defaults are llama-server's own where it has one.

    `context_tokens_per_slot` times `slots` is what `-c` asks for, also for one shared pool (`kv_unified`), where
    `unified_slot_tokens` is the cap of `--kv-unified-per-slot`. `gpu_layers` None puts everything on the graphics
    cards where there are any, 0 nothing; `opens_cards` is whether the build opens the cards, which it does with no
    layer on them too; `tensor_split` are the shares of the cards, by their free memory where empty; the first
    `cpu_expert_layers` layers keep their routed experts on the host (`--n-cpu-moe`). `cpu_flags` are the kernel's
    names and decide which weights are repacked.
    `draft_tokens`: how many tokens the model's own draft layers guess at a time, 0 where they do not run.
    """

    slots: int
    context_tokens_per_slot: int
    kv_unified: bool = False
    unified_slot_tokens: int | None = None
    cache_type_k: str = "f16"
    cache_type_v: str = "f16"
    batch_tokens: int = 2_048
    ubatch_tokens: int = 512
    flash_attention: bool = True
    swa_full: bool = False
    gpu_layers: int | None = None
    opens_cards: bool = True
    prompt_cache_bytes: int = 8 * GIB
    context_checkpoints: int = 32
    memory_mapped: bool = True
    repack: bool = True
    cpu_flags: tuple[str, ...] = ()
    draft_tokens: int = 0
    tensor_split: tuple[float, ...] = ()
    cpu_expert_layers: int = 0


def padded_context_tokens(tokens: int) -> int:
    """Tokens rounded up to whole blocks of 256 cells."""
    return -(-tokens // CONTEXT_PADDING_TOKENS) * CONTEXT_PADDING_TOKENS


def streams(settings: GgmlSettings) -> int:
    """Separate caches: one that all slots share, or one for each slot."""
    return 1 if settings.kv_unified else settings.slots


def stream_tokens(settings: GgmlSettings) -> int:
    """Cells of one stream at full context: the whole pool, or one slot's own share."""
    if settings.kv_unified:
        return padded_context_tokens(settings.slots * settings.context_tokens_per_slot)
    return padded_context_tokens(settings.context_tokens_per_slot)


def total_context_tokens(settings: GgmlSettings) -> int:
    """Cells over all streams, the `n_ctx` of the engine's log."""
    return streams(settings) * stream_tokens(settings)


def slot_context_tokens(model: ModelSpec, settings: GgmlSettings) -> int:
    """Tokens that one request may use, as `/props` reports it: capped at the trained context and the slot's limit."""
    limits = (stream_tokens(settings), model.context_tokens_trained, settings.unified_slot_tokens)
    return min(limit for limit in limits if limit)


def ubatch_tokens(settings: GgmlSettings) -> int:
    """The physical batch after the engine clamped it to the logical batch and to the context."""
    return min(settings.ubatch_tokens, settings.batch_tokens, total_context_tokens(settings))
