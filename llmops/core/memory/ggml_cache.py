"""Keys and values of a ggml server: exact cells and bytes of each layer, and what the host keeps of them besides."""

from __future__ import annotations

from llmops.core.memory.ggml_settings import (
    GgmlSettings,
    padded_context_tokens,
    stream_tokens,
    streams,
)
from llmops.core.model import AttentionLayer, ModelSpec, cache_bytes

# src/llama-kv-cache.cpp, state_write_meta: position, number of sequences and one sequence, 4 bytes each.
CHECKPOINT_CELL_BYTES = 12


def window_cells(window_tokens: int, settings: GgmlSettings) -> int:
    """Cells of one stream in a layer with a sliding window (src/llama-kv-cache-iswa.cpp).

    The window of every slot that shares the stream, plus one physical batch, padded; never more than the full context.
    """
    full = stream_tokens(settings)
    if settings.swa_full:
        return full
    sequences = settings.slots if settings.kv_unified else 1
    return padded_context_tokens(min(full, window_tokens * sequences + settings.ubatch_tokens))


def layer_cells(layer: AttentionLayer, settings: GgmlSettings) -> int:
    """Cells of one stream in this layer."""
    if layer.window_tokens is None:
        return stream_tokens(settings)
    return window_cells(layer.window_tokens, settings)


def layer_cache_bytes(model: ModelSpec, settings: GgmlSettings) -> tuple[int, ...]:
    """Bytes of keys and values of every attention layer over all streams, in order."""
    return tuple(
        streams(settings) * layer_cells(layer, settings) * cell_bytes(model, layer, settings)
        for layer in model.attention_layers
    )


def cell_bytes(model: ModelSpec, layer: AttentionLayer, settings: GgmlSettings) -> int:
    """Bytes of one cell of a layer.

    Without flash attention the values are stored transposed, each layer as wide as the widest that shares its cache.
    """
    keys = cache_bytes(layer.kv_heads * layer.key_length, settings.cache_type_k)
    width = layer.kv_heads * layer.value_length
    if not settings.flash_attention:
        alike = [
            other for other in model.attention_layers if (other.window_tokens is None) == (layer.window_tokens is None)
        ]
        width = max(other.kv_heads * other.value_length for other in alike)
    return keys + cache_bytes(width, settings.cache_type_v)


def total_cache_bytes(model: ModelSpec, settings: GgmlSettings) -> int:
    """Bytes of the whole KV cache, the sum of the engine's `KV buffer size` lines."""
    return sum(layer_cache_bytes(model, settings))


def checkpoint_bytes(model: ModelSpec, settings: GgmlSettings) -> int:
    """Host bytes of one context checkpoint: the cells inside the window of every layer that has one (0 without any)."""
    windowed = [layer for layer in model.attention_layers if layer.window_tokens is not None]
    if not windowed or settings.swa_full:
        return 0
    cells = max(min(layer.window_tokens or 0, layer_cells(layer, settings)) for layer in windowed)
    per_cell = sum(cell_bytes(model, layer, settings) for layer in windowed)
    return cells * (per_cell + CHECKPOINT_CELL_BYTES)


def checkpoints_bytes(model: ModelSpec, settings: GgmlSettings) -> int:
    """Host bytes once every slot holds as many checkpoints as it may."""
    return settings.slots * settings.context_checkpoints * checkpoint_bytes(model, settings)
