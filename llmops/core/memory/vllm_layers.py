"""What one layer of a model keeps in vLLM's pages on one card: bytes of a token, tokens of a block, a page."""

from __future__ import annotations

from dataclasses import replace

from llmops.core.errors import UnknownArchitecture, UsageError
from llmops.core.memory.vllm_defaults import block_tokens
from llmops.core.memory.vllm_facts import (
    AUTO_CACHE_FOLLOWS_CHECKPOINT,
    CHUNKED_CACHES,
    PACKED_INDEXED_TYPES,
    UNRULED_ARCHITECTURES,
)
from llmops.core.memory.vllm_pages import DTYPE_BYTES, CacheLayer
from llmops.core.memory.vllm_settings import VllmSettings
from llmops.core.memory.vllm_states import with_states
from llmops.core.model import AttentionLayer, ModelSpec

# vllm/v1/kv_cache_interface.py and the backends' customize_spec: (eighths of a byte for each element, bytes for each
# head and each of keys and values).
CACHE_TYPES: dict[str, tuple[float, int]] = {
    **dict.fromkeys(("bfloat16", "float16", "bf16", "fp16"), (16, 0)),
    **dict.fromkeys(("fp8", "fp8_e4m3", "fp8_e5m2", "fp8_inc", "fp8_ds_mla"), (8, 0)),
    **dict.fromkeys(("int8_per_token_head", "fp8_per_token_head"), (8, 4)),
    "int4_per_token_head": (4, 4),
    # 4-bit data and one byte of scale for 16 elements.
    **dict.fromkeys(("nvfp4", "nvfp4_4over6"), (4.5, 0)),
}
# Rows of DeepSeek's packed caches, whatever the length of the latent vector (vllm/v1/attention/backends/mla).
PACKED_LATENT_BYTES = {"fp8_ds_mla": 656, "nvfp4_ds_mla": 352}
LATENT_TYPES = ("bfloat16", "float16", "bf16", "fp16", "fp8", "fp8_e4m3", "fp8_e5m2", *PACKED_LATENT_BYTES)
# A key of the indexer: one byte for each element and a scale of four bytes for 128 (deepseek_v2.py).
INDEX_SCALE_ELEMENTS, INDEX_SCALE_BYTES = 128, 4


def cache_layers(model: ModelSpec, settings: VllmSettings) -> tuple[CacheLayer, ...]:
    """All caching layers on one rank of a tensor-parallel group, before pages are made equal.

    Raise UnknownArchitecture where no rule covers the model or the cache type, UsageError where heads do not divide.
    """
    if model.architecture in UNRULED_ARCHITECTURES:
        raise _unruled(f"the cache of {model.architecture} in vLLM")
    block, cache_type = block_tokens(model, settings), resolved_cache_type(model, settings)
    attention = tuple(
        _attention_layer(layer, _token_bytes(position, model, settings, cache_type), block, settings)
        for position, layer in enumerate(model.attention_layers)
    )
    attention += draft_layers(attention, settings)
    if not model.state_layers:
        return attention
    return with_states(model, settings, attention)


def draft_layers(attention: tuple[CacheLayer, ...], settings: VllmSettings) -> tuple[CacheLayer, ...]:
    """The layers of a speculative drafter: as the model's largest, with every token kept."""
    if not settings.draft_layers:
        return ()
    largest = max(attention, key=lambda layer: layer.token_bytes)
    kind = "latent" if largest.kind == "latent" else "full"
    return (replace(largest, kind=kind, window_tokens=None, layer=None),) * settings.draft_layers


def is_index_key(layers: tuple[AttentionLayer, ...], position: int) -> bool:
    """Whether this entry is the indexer's key of the latent layer before it."""
    before = layers[position - 1] if position else None
    layer = layers[position]
    return before is not None and layer.is_latent and layer.layer is not None and before.layer == layer.layer


def _attention_layer(layer: AttentionLayer, token_bytes: int, block: int, settings: VllmSettings) -> CacheLayer:
    window = layer.window_tokens
    if layer.is_chunked and not CHUNKED_CACHES.at(settings.version):
        window = None
    if layer.is_latent:
        kind = "latent"
    elif window is None:
        kind = "full"
    else:
        kind = "chunked" if layer.is_chunked else "window"
    return CacheLayer(kind, token_bytes, block, token_bytes * block, window, layer=layer.layer)


def _token_bytes(position: int, model: ModelSpec, settings: VllmSettings, cache_type: str) -> int:
    """Bytes of one token in one entry of the layers, on one rank; a latent vector is whole on every rank."""
    layer = model.attention_layers[position]
    if is_index_key(model.attention_layers, position):
        if not model.attention_layers[position - 1].is_latent:  # beside heads: indexer_kv_dtype auto is bf16
            return 2 * layer.key_length
        return layer.key_length + layer.key_length // INDEX_SCALE_ELEMENTS * INDEX_SCALE_BYTES
    if layer.is_latent:
        return _latent_bytes(layer, cache_type, settings)
    eighths, head_bytes = _known_type(cache_type, settings)
    heads = heads_on_rank(layer.kv_heads, settings.tensor_parallel)
    return heads * (int((layer.key_length + layer.value_length) * eighths) // 8 + 2 * head_bytes)


def _latent_bytes(layer: AttentionLayer, cache_type: str, settings: VllmSettings) -> int:
    if layer.window_tokens is not None or cache_type not in (*LATENT_TYPES, "model"):
        raise _unruled(f"a latent cache of type {cache_type} with window {layer.window_tokens}")
    if cache_type in PACKED_LATENT_BYTES:
        return PACKED_LATENT_BYTES[cache_type]
    return int(layer.key_length * _known_type(cache_type, settings)[0]) // 8


def _known_type(cache_type: str, settings: VllmSettings) -> tuple[float, int]:
    if cache_type == "model":
        return 8 * DTYPE_BYTES.get(settings.dtype or "", 2), 0
    if cache_type not in CACHE_TYPES:
        raise _unruled(f"cache type {cache_type}")
    return CACHE_TYPES[cache_type]


def resolved_cache_type(model: ModelSpec, settings: VllmSettings) -> str:
    """`auto` is the model's own 16-bit type, written `model`, or what a ModelOpt checkpoint asks for.

    Latent caches with an indexer are packed where fp8 is asked for: FlashMLA's sparse kernel knows no other form. On
    cards of compute capability 10.0 another kernel may keep plain fp8, which is less.
    """
    asked = settings.cache_dtype
    packs = any(
        is_index_key(model.attention_layers, position) and model.attention_layers[position - 1].is_latent
        for position in range(len(model.attention_layers))
    )
    if packs and asked in PACKED_INDEXED_TYPES.at(settings.version):
        return "fp8_ds_mla"
    if asked != "auto":
        return asked
    wanted = model.cache_data_type if (model.quantization_method or "").startswith("modelopt") else None
    if wanted not in CACHE_TYPES or not AUTO_CACHE_FOLLOWS_CHECKPOINT.at(settings.version):
        return "model"
    return "fp8_ds_mla" if packs and wanted in PACKED_INDEXED_TYPES.at(settings.version) else wanted


def heads_on_rank(kv_heads: int, ranks: int) -> int:
    """Key-value heads on one rank: divided, or one copied to several; UsageError where neither works."""
    if kv_heads >= ranks and kv_heads % ranks == 0:
        return kv_heads // ranks
    if kv_heads < ranks and ranks % kv_heads == 0:
        return 1
    raise UsageError(
        f"{kv_heads} key-value heads cannot be divided over {ranks} cards",
        hint="choose a tensor parallel size that divides the heads or is a multiple of them",
    )


def _unruled(what: str) -> Exception:
    hint = "give --kv-memory-bytes and read the tokens from the engine's log"
    return UnknownArchitecture(f"llmops has no rule for {what}", hint=hint)
