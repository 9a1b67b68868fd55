"""Memory by the rules of Ollama up to 0.24, with runners and estimates of its own (fs/ggml/ggml.go, llm/memory.go).

What it estimates decides where layers go, what its runners allocate decides whether that holds: a budget covers both.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from llmops.core.layer_weights import layer_weights
from llmops.core.memory.ggml_settings import GgmlSettings
from llmops.core.memory.ggml_weights import role_bytes
from llmops.core.model import AttentionLayer, ModelSpec
from llmops.core.units import MIB

# discover/types.go: what is left of each card for its driver and for libraries.
MINIMUM_MEMORY_BYTES = 457 * MIB
# Families of which its own engine keeps so many tokens behind the window (kvcache.NewSWAMemCache in model/models).
WINDOW_MEMORY_TOKENS = {"gptoss": 4096, "gpt-oss": 4096, "gemma4": 4096}
# The estimate's bytes of one element; the types really take 34 and 18 bytes for 32 elements.
_ESTIMATED_BYTES = {"q8_0": 1.0, "q4_0": 0.5}
_GEMMA3_PERIOD = 6
_PART_VECTORS = 2
_GPT_OSS = frozenset({"gptoss", "gpt-oss"})
_FLOAT_BYTES = 4
_TABLE_SHARE = 105 / 128  # bytes of one element of a table of tokens in 6 bits


@dataclass(frozen=True)
class _Graph:
    """One family's estimate of a batch: `vectors` embeddings, scores of every head, `projections` of all heads.

    At the end of the graph `outer` embeddings beside the logits. `leading`: embeddings beside all when a part runs on
    the processor; `by_kv_heads`: scores are counted for the heads of the cache.
    """

    outer: int
    vectors: int
    projections: int = 0
    leading: int = 0
    by_kv_heads: bool = False
    has_logits: bool = True
    factor: int = 1


_LLAMA = _Graph(outer=1, vectors=4, leading=1)
_GEMMA = _Graph(outer=1, vectors=2, projections=2)
# By architecture (GraphSize in fs/ggml/ggml.go, v0.9.6 to v0.24.0); others are estimated from their cache.
_GRAPHS: dict[str, _Graph] = {
    "llama": _LLAMA,
    "llama4": _LLAMA,
    "gemma": _GEMMA,
    "gemma2": _GEMMA,
    "gemma3": _GEMMA,
    "gemma3n": replace(_GEMMA, factor=4),
    "command-r": _Graph(outer=1, vectors=4),
    "qwen2": _Graph(outer=1, vectors=2),
    "phi2": _Graph(outer=1, vectors=4),
    "stablelm": _Graph(outer=2, vectors=3, has_logits=False),
    "deepseek2": _Graph(outer=3, vectors=3, projections=2, by_kv_heads=True),
    "chatglm": _Graph(outer=1, vectors=2, projections=2),
}


def as_it_runs(model: ModelSpec, settings: GgmlSettings, *, own_engine: bool) -> tuple[ModelSpec, GgmlSettings]:
    """Model and settings as a runner has them, in the terms of the ggml rules.

    Its own engine keeps one pool for all slots, windows per slot and one batch (kvcache/causal.go). llama.cpp's runner
    keeps the whole context in every layer (llama_context_default_params: swa_full).
    """
    if not own_engine:
        return model, replace(settings, swa_full=True, kv_unified=False)
    layers = tuple(_with_memory(layer, model, settings) for layer in model.attention_layers)
    return replace(model, attention_layers=layers), replace(settings, swa_full=False, kv_unified=True)


def _with_memory(layer: AttentionLayer, model: ModelSpec, settings: GgmlSettings) -> AttentionLayer:
    """The layer with the tokens that its own engine remembers; chunks and windows as long as a slot keep all."""
    if layer.window_tokens is None:
        return layer
    kept = max(WINDOW_MEMORY_TOKENS.get(model.architecture, 0), layer.window_tokens + (settings.slots > 1))
    whole = layer.is_chunked or kept >= settings.context_tokens_per_slot
    return replace(layer, window_tokens=None if whole else kept, is_chunked=False)


def estimated_cache_bytes(model: ModelSpec, settings: GgmlSettings) -> int:
    """The cache as Ollama estimates it, `memory.required.kv` of its log."""
    return sum(_estimated_layer(layer, place, model, settings) for place, layer in enumerate(model.attention_layers))


def layer_cache_estimates(model: ModelSpec, settings: GgmlSettings) -> tuple[int, ...]:
    """The same of every layer of the model, those without a cache too."""
    sizes = [0] * model.layers
    count = len(model.attention_layers)
    for place, layer in enumerate(model.attention_layers):
        number = place * model.layers // count if layer.layer is None else layer.layer
        sizes[min(number, model.layers - 1)] += _estimated_layer(layer, place, model, settings)
    return tuple(sizes)


def _estimated_layer(layer: AttentionLayer, place: int, model: ModelSpec, settings: GgmlSettings) -> int:
    tokens = settings.slots * settings.context_tokens_per_slot
    number = place if layer.layer is None else layer.layer
    batch = batch_tokens(settings)
    if model.architecture == "gemma3" and (number + 1) % _GEMMA3_PERIOD and layer.window_tokens is not None:
        tokens = settings.slots * layer.window_tokens + batch
    if model.architecture in _GPT_OSS and number % 2 == 0:
        tokens = settings.slots * WINDOW_MEMORY_TOKENS["gpt-oss"] + batch
    each = _ESTIMATED_BYTES.get(settings.cache_type_k, 2.0)
    return int(tokens * layer.kv_heads * (layer.key_length + layer.value_length) * each)


def batch_tokens(settings: GgmlSettings) -> int:
    """Tokens of one step: num_batch, at most the context of a slot."""
    return min(settings.batch_tokens, settings.context_tokens_per_slot)


def estimated_graph_bytes(model: ModelSpec, settings: GgmlSettings) -> tuple[int, int]:
    """The graph as Ollama estimates it: with all layers on one card, and with some of them elsewhere."""
    if model.architecture in _GPT_OSS and settings.flash_attention:
        total = settings.slots * settings.context_tokens_per_slot
        each = (4 * settings.slots + total // 1024 + 110) * MIB
        return each, each
    graph = _GRAPHS.get(model.architecture)
    if graph is None:
        by_cache = _by_cache(model, settings)
        return by_cache, by_cache
    return _whole(graph, model, settings), _part(graph, model, settings)


def _by_cache(model: ModelSpec, settings: GgmlSettings) -> int:
    """A sixth of the cache for each query head that shares a head of it; that of gpt-oss counted without windows."""
    least = min((layer.kv_heads for layer in model.attention_layers), default=1) or 1
    if model.architecture in _GPT_OSS:
        full = replace(model, architecture="")
        return 2 * model.attention_heads // least * estimated_cache_bytes(full, settings) // 6
    return model.attention_heads // least * estimated_cache_bytes(model, settings) // 6


def _whole(graph: _Graph, model: ModelSpec, settings: GgmlSettings) -> int:
    end = _end(graph, model, settings) if graph.has_logits else 0
    return graph.factor * max(end, _middle(graph, model, settings))


def _part(graph: _Graph, model: ModelSpec, settings: GgmlSettings) -> int:
    """Beside it a copy of the table of tokens or of a layer's matrices and the cache of one layer."""
    embedding, tokens = model.embedding_length, settings.slots * settings.context_tokens_per_slot
    table = embedding * model.vocabulary_size * _TABLE_SHARE
    layer = embedding * embedding * 9 / 16 + _FLOAT_BYTES * tokens * embedding * _cached_share(model)
    leading = _FLOAT_BYTES * batch_tokens(settings) * embedding * graph.leading
    end = _end(graph, model, settings) + table
    middle = _middle(replace(graph, vectors=min(graph.vectors, _PART_VECTORS)), model, settings)
    return graph.factor * int(leading + max(end, middle + layer))


def _cached_share(model: ModelSpec) -> float:
    """Heads of the cache for each head that asks."""
    most = max((layer.kv_heads for layer in model.attention_layers), default=0)
    return min(1.0, most / max(1, model.attention_heads))


def _end(graph: _Graph, model: ModelSpec, settings: GgmlSettings) -> int:
    return _FLOAT_BYTES * batch_tokens(settings) * (graph.outer * model.embedding_length + model.vocabulary_size)


def _middle(graph: _Graph, model: ModelSpec, settings: GgmlSettings) -> int:
    """Vectors, the mask and the scores of all heads, as if without flash attention."""
    layers, tokens = model.attention_layers, settings.slots * settings.context_tokens_per_slot
    heads = max((layer.kv_heads for layer in layers), default=1) if graph.by_kv_heads else model.attention_heads
    key_length = max((layer.key_length for layer in layers), default=0)
    width = graph.vectors * model.embedding_length + graph.projections * key_length * heads + 2
    return _FLOAT_BYTES * batch_tokens(settings) * (width + tokens * (1 + heads))


def first_layer_bytes(model: ModelSpec, settings: GgmlSettings) -> int:
    """One layer with its cache, which Ollama leaves free of each card besides."""
    first = _estimated_layer(model.attention_layers[0], 0, model, settings) if model.attention_layers else 0
    return layer_weights(model)[0][0] + first if model.layers else first


def reserve_bytes(model: ModelSpec, settings: GgmlSettings) -> int:
    """What Ollama leaves of each card besides weights, cache and graph."""
    return MINIMUM_MEMORY_BYTES + first_layer_bytes(model, settings)


def required_bytes(model: ModelSpec, settings: GgmlSettings, cards: int) -> int:
    """Everything on so many cards, `memory.required.full` of its log; several work with the graph of a part."""
    whole, part = estimated_graph_bytes(model, settings)
    each = (part if cards > 1 else whole) + reserve_bytes(model, settings)
    roles = ("repeating", "output", "encoder", *(("input",) if model.tied_output else ()))
    return sum(role_bytes(model, role) for role in roles) + estimated_cache_bytes(model, settings) + cards * each
