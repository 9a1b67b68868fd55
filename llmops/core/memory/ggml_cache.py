"""Keys and values of a ggml server: exact cells and bytes of each layer, and what the host keeps of them besides."""

from __future__ import annotations

from llmops.core.memory.ggml_settings import (
    GgmlSettings,
    padded_context_tokens,
    stream_tokens,
    streams,
    ubatch_tokens,
)
from llmops.core.memory.ggml_state import row_bytes
from llmops.core.model import AttentionLayer, ModelSpec, cache_bytes
from llmops.core.version import Since, Timeline, Version

# src/llama-kv-cache.cpp, state_write_meta: position, number of sequences and one sequence, 4 bytes each.
CHECKPOINT_CELL_BYTES = 12

# The cache of a model's own draft layers does not follow the cache types of the main model (common/speculative.cpp).
DRAFT_CACHE_TYPE = "f16"

# Architectures whose later layers have no cache of their own at all (has_kv of src/llama-hparams.cpp).
SHARES_CACHES = frozenset({"gemma3n", "gemma4"})

# Whether a compressed cache keeps its values a second time, for they are part of its keys. The change went in at the
# end of January 2026, about 40 days after b7433; a late build is taken, so that none before it is promised too little.
KEEPS_LATENT_VALUES = Timeline(
    (
        Since(Version((0,)), value=True, source="llama.cpp before pull request 19067"),
        Since(Version((7900,)), value=False, source="llama.cpp pull request 19067 (V-less cache), January 2026"),
    )
)

# Whether a compressed cache refuses keys and values of different types (src/llama-context.cpp, llama_init_from_model).
REFUSES_MIXED_LATENT_TYPES = Timeline(
    (
        Since(Version((0,)), value=False, source="llama.cpp b10204"),
        Since(Version((10_205,)), value=True, source="llama.cpp b10207 has it, b10204 does not"),
    )
)


def window_cells(window_tokens: int, settings: GgmlSettings) -> int:
    """Cells of one stream in a layer with a sliding window or chunks (src/llama-kv-cache-iswa.cpp).

    The window of every slot that shares the stream, plus one physical batch, padded; never more than the full context.
    """
    full = stream_tokens(settings)
    if settings.swa_full:
        return full
    sequences = settings.slots if settings.kv_unified else 1
    return padded_context_tokens(min(full, window_tokens * sequences + ubatch_tokens(settings)))


def layer_cells(layer: AttentionLayer, settings: GgmlSettings) -> int:
    """Cells of one stream in this layer."""
    if layer.window_tokens is None:
        return stream_tokens(settings)
    return window_cells(layer.window_tokens, settings)


def layer_cache_bytes(model: ModelSpec, settings: GgmlSettings, build: Version | None = None) -> tuple[int, ...]:
    """Bytes of keys and values of every attention layer over all streams, in order."""
    return tuple(
        streams(settings) * layer_cells(layer, settings) * cell_bytes(model, layer, settings, build)
        for layer in model.attention_layers
    )


def cell_bytes(model: ModelSpec, layer: AttentionLayer, settings: GgmlSettings, build: Version | None = None) -> int:
    """Bytes of one cell of a layer.

    Without flash attention the values are stored transposed, each layer as wide as the widest of the model.
    """
    keys = cache_bytes(layer.kv_heads * layer.key_length, settings.cache_type_k)
    return keys + cache_bytes(_value_width(model, layer, settings, build), settings.cache_type_v)


def _value_width(model: ModelSpec, layer: AttentionLayer, settings: GgmlSettings, build: Version | None) -> int:
    """Elements of the values of one cell. Those of a compressed cache are a little shorter than its keys."""
    if layer.is_latent:
        return layer.kv_heads * layer.key_length if KEEPS_LATENT_VALUES.at(build) else 0
    if settings.flash_attention:
        return layer.kv_heads * layer.value_length
    return _widest_values(model)


def _widest_values(model: ModelSpec) -> int:
    return max((layer.kv_heads * layer.value_length for layer in model.attention_layers), default=0)


def padding_bytes(model: ModelSpec, settings: GgmlSettings) -> int:
    """Bytes of values, all padding, in layers without key-value heads: only without flash attention."""
    if settings.flash_attention or model.state_layers or model.architecture in SHARES_CACHES:
        return 0
    caching = {layer.layer for layer in model.attention_layers if layer.layer is not None}
    idle = len(set(range(model.layers)) - caching)
    if idle >= model.layers:
        return 0
    row = cache_bytes(_widest_values(model), settings.cache_type_v)
    return idle * streams(settings) * stream_tokens(settings) * row


def draft_cache_bytes(model: ModelSpec, settings: GgmlSettings) -> int:
    """Bytes of the cache of the layers that only guess tokens, 0 while they do not run.

    They attend to the whole context, in a cache of their own, with the heads of the model's largest full layer.
    """
    full = [layer for layer in model.attention_layers if layer.window_tokens is None]
    if not settings.draft_tokens or not full:
        return 0
    per_cell = max(layer.cache_bytes_per_token(DRAFT_CACHE_TYPE, DRAFT_CACHE_TYPE) for layer in full)
    return model.draft_layers * streams(settings) * stream_tokens(settings) * per_cell


def cache_beside_bytes(model: ModelSpec, settings: GgmlSettings) -> int:
    """Bytes that belong to none of the attention layers."""
    return draft_cache_bytes(model, settings) + padding_bytes(model, settings)


def total_cache_bytes(model: ModelSpec, settings: GgmlSettings, build: Version | None = None) -> int:
    """Bytes of the whole KV cache, the sum of the engine's `KV buffer size` lines."""
    return sum(layer_cache_bytes(model, settings, build)) + cache_beside_bytes(model, settings)


def refuses_cache_types(model: ModelSpec, cache_type_k: str, cache_type_v: str, build: Version | None) -> bool:
    """Whether the engine would not start with these two types: a compressed cache has one."""
    if cache_type_k == cache_type_v or not any(layer.is_latent for layer in model.attention_layers):
        return False
    return REFUSES_MIXED_LATENT_TYPES.at(build)


def checkpoint_bytes(model: ModelSpec, settings: GgmlSettings) -> int:
    """Host bytes of one context checkpoint: what a slot cannot take back, 0 where there is nothing of that kind.

    That is the cells inside the window of every layer that has one, and the state of every layer that keeps one.
    """
    windowed = [layer for layer in model.attention_layers if layer.window_tokens is not None]
    states = sum(row_bytes(layer) for layer in model.state_layers)
    if not windowed or settings.swa_full:
        return states
    cells = max(min(layer.window_tokens or 0, layer_cells(layer, settings)) for layer in windowed)
    per_cell = sum(cell_bytes(model, layer, settings) for layer in windowed)
    return cells * (per_cell + CHECKPOINT_CELL_BYTES) + states


def checkpoints_bytes(model: ModelSpec, settings: GgmlSettings) -> int:
    """Host bytes once every slot holds as many checkpoints as it may."""
    return settings.slots * settings.context_checkpoints * checkpoint_bytes(model, settings)
