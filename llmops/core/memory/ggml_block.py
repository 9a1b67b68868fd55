"""One whole layer of a graph: what mixes tokens, then what mixes the elements of each, around the running state."""

from __future__ import annotations

from functools import partial

from llmops.core.memory.ggml_altup import layer_of_versions, versions
from llmops.core.memory.ggml_cache import layer_cells
from llmops.core.memory.ggml_feed_forward import dense, feed_forward
from llmops.core.memory.ggml_graph import Graph
from llmops.core.memory.ggml_inputs import LayerInput, Masks, batch_tokens, rotates
from llmops.core.memory.ggml_latent import latent_attention
from llmops.core.memory.ggml_layers import Scope, attention, attention_core, attention_output
from llmops.core.memory.ggml_recurrence import mamba2_scan, recurrent, scan_output
from llmops.core.memory.ggml_settings import GgmlSettings, stream_tokens, streams
from llmops.core.memory.ggml_shapes import LayerKind
from llmops.core.model import ModelSpec, cache_bytes

# src/models/*.cpp of llama.cpp b11434: no rotary positions at all, or none in the layers with full attention.
NO_POSITIONS = frozenset({"jamba", "nemotron_h", "nemotron_h_moe", "kimi-linear"})
NO_POSITIONS_WHEN_FULL = frozenset({"cohere2", "cohere2moe", "llama4", "smallthinker"})


def scope_of(graph: Graph, kind: LayerKind, model: ModelSpec, settings: GgmlSettings, masks: Masks) -> Scope:
    """What the layers of one kind are built with."""
    cache, state = kind.cache, kind.state
    shared = cache or (model.attention_layers[0] if model.attention_layers else None)
    return Scope(
        graph=graph,
        matrices=kind.tensors,
        tokens=batch_tokens(settings),
        sequences=settings.slots,
        embedding=model.embedding_length,
        heads=model.attention_heads,
        flash_attention=settings.flash_attention,
        cache=cache,
        cells=layer_cells(shared, settings) if shared else stream_tokens(settings),
        streams=streams(settings),
        cell_value_bytes=cache_bytes(256, settings.cache_type_k) / 256,
        casts_keys=settings.cache_type_k == "f32",
        casts_values=(settings.cache_type_k if cache is not None and cache.is_latent else settings.cache_type_v)
        == "f32",
        rotated_keys=cache is not None and not cache.is_latent and rotates(cache.key_length, settings.cache_type_k),
        rotated_values=cache is not None and not cache.is_latent and rotates(cache.value_length, settings.cache_type_v),
        state_floats=state.recurrent_elements if state else 0,
        convolution_floats=state.convolution_elements if state else 0,
        experts_used=model.experts_used,
        mask_cast=partial(masks.cast, windowed=cache is not None and cache.window_tokens is not None),
        turns=_turns(kind, model),
        weighs_before=model.architecture == "llama4",  # src/llama-graph.cpp, weight_before_ffn
    )


def _turns(kind: LayerKind, model: ModelSpec) -> bool:
    """Whether queries and keys pass a norm or are turned by their position in these layers."""
    full = kind.cache is not None and kind.cache.window_tokens is None
    without = model.architecture in NO_POSITIONS or (full and model.architecture in NO_POSITIONS_WHEN_FULL)
    return not without or "attn_q_norm" in kind.tensors


def layer(scope: Scope, state: int, extra: LayerInput | None) -> int:
    """One layer: what mixes tokens, then what mixes the elements of each, both added to the running state."""
    if versions(scope) > 1 and extra is not None:
        return layer_of_versions(scope, state, extra)
    width = scope.embedding
    normed = scope.rows(width, state)
    if _is_parallel(scope):
        return _parallel(scope, state, normed)
    mixed = _mix(scope, state, normed)
    if mixed is None:
        part = feed_forward(scope, normed)
        return scope.over(width, part, state) if part is not None else state
    state = scope.over(width, mixed, state)
    part = feed_forward(scope, scope.rows(width, state)) if _has_feed_forward(scope) else None
    state = scope.over(width, part, state) if part is not None else state
    return _with_layer_input(scope, state, extra)


def _is_parallel(scope: Scope) -> bool:
    """Attention and feed-forward part read the same normed state: there is no norm between them."""
    norms = ("ffn_norm", "post_attention_norm", "attn_post_norm")
    both = scope.has("attn_output") and scope.has("ffn_down") and not scope.state_floats
    return both and not any(scope.has(name) for name in norms)


def _parallel(scope: Scope, state: int, normed: int) -> int:
    """The output matrix of the attention comes last: its result is added last."""
    mixed = attention_core(scope, normed)
    part = dense(scope, normed)
    state = scope.over(scope.embedding, part, state)
    return scope.over(scope.embedding, state, attention_output(scope, mixed, normed))


def _has_feed_forward(scope: Scope) -> bool:
    return scope.has("ffn_down") or scope.has("ffn_down_exps")


def _mix(scope: Scope, state: int, normed: int) -> int | None:
    """Attention, a recurrent state, or the sum of both; None in layers that are a feed-forward part only."""
    attends = scope.has("attn_output") and not scope.has("ssm_conv1d_q")
    remembers = bool(scope.convolution_floats or scope.state_floats)
    if attends and remembers:
        return _attention_beside_scan(scope, state, normed)
    if remembers:
        return recurrent(scope, normed)
    if not attends:
        return None
    return (latent_attention if scope.has("attn_kv_a_mqa") else attention)(scope, normed)


def _attention_beside_scan(scope: Scope, state: int, normed: int) -> int:
    """Falcon H1: both end after the scan (src/models/falcon-h1.cpp)."""
    mixed = attention_core(scope, normed)
    scan = mamba2_scan(scope, scope.rows(scope.embedding, state))
    output = attention_output(scope, mixed, normed)
    return scope.over(scope.embedding, output, scan_output(scope, scan))


def _with_layer_input(scope: Scope, state: int, extra: LayerInput | None) -> int:
    """The layer's own embedding of each token, gated by the state (Gemma 3n and 4)."""
    if extra is None or not scope.has("inp_gate"):
        return state
    gate = scope.product("inp_gate", state)
    joined = scope.over(scope.outputs("inp_gate"), gate, extra.joined())
    return scope.over(scope.embedding, scope.product("proj", joined), state)
