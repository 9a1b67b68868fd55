"""One whole layer of a graph: what mixes tokens, then what mixes the elements of each, around the running state."""

from __future__ import annotations

from llmops.core.memory.ggml_altup import layer_of_versions, versions
from llmops.core.memory.ggml_cache import layer_cells
from llmops.core.memory.ggml_feed_forward import feed_forward
from llmops.core.memory.ggml_graph import Graph
from llmops.core.memory.ggml_inputs import rotates
from llmops.core.memory.ggml_latent import latent_attention
from llmops.core.memory.ggml_layers import Scope, attention
from llmops.core.memory.ggml_recurrence import recurrent
from llmops.core.memory.ggml_settings import GgmlSettings, stream_tokens, streams
from llmops.core.memory.ggml_shapes import LayerKind
from llmops.core.model import ModelSpec, cache_bytes


def scope_of(graph: Graph, kind: LayerKind, model: ModelSpec, settings: GgmlSettings, tokens: int) -> Scope:
    """What the layers of one kind are built with."""
    cache, state = kind.cache, kind.state
    shared = cache or (model.attention_layers[0] if model.attention_layers else None)
    return Scope(
        graph=graph,
        matrices=kind.tensors,
        tokens=tokens,
        sequences=settings.slots,
        embedding=model.embedding_length,
        heads=model.attention_heads,
        flash_attention=settings.flash_attention,
        cache=cache,
        cells=layer_cells(shared, settings) if shared else stream_tokens(settings),
        streams=streams(settings),
        cell_value_bytes=cache_bytes(256, settings.cache_type_k) / 256,
        rotated_keys=cache is not None and not cache.is_latent and rotates(cache.key_length, settings.cache_type_k),
        rotated_values=cache is not None and not cache.is_latent and rotates(cache.value_length, settings.cache_type_v),
        state_floats=state.recurrent_elements if state else 0,
        convolution_floats=state.convolution_elements if state else 0,
        experts_used=model.experts_used,
        weighs_before=model.architecture == "llama4",  # src/llama-graph.cpp, weight_before_ffn
    )


def layer(scope: Scope, state: int, extra: int | None) -> int:
    """One layer: what mixes tokens, then what mixes the elements of each, both added to the running state."""
    if versions(scope) > 1 and extra is not None:
        return layer_of_versions(scope, state, extra)
    width = scope.embedding
    normed = scope.rows(width, state)
    mixed = _mix(scope, state, normed)
    if mixed is None:
        part = feed_forward(scope, normed)
        return scope.over(width, part, state) if part is not None else state
    parallel = scope.has("ffn_down") and not (
        scope.has("ffn_norm") or scope.has("post_attention_norm") or scope.has("attn_post_norm")
    )
    if parallel:
        part = feed_forward(scope, normed)
        both = scope.over(width, mixed, part) if part is not None else mixed
        return scope.over(width, both, state)
    state = scope.over(width, mixed, state)
    part = feed_forward(scope, scope.rows(width, state)) if _has_feed_forward(scope) else None
    state = scope.over(width, part, state) if part is not None else state
    return _with_layer_input(scope, state, extra)


def _has_feed_forward(scope: Scope) -> bool:
    return scope.has("ffn_down") or scope.has("ffn_down_exps")


def _mix(scope: Scope, state: int, normed: int) -> int | None:
    """Attention, a recurrent state, or the sum of both; None in layers that are a feed-forward part only."""
    parts = []
    if scope.has("attn_output") and not scope.has("ssm_conv1d_q"):
        parts.append((latent_attention if scope.has("attn_kv_a_mqa") else attention)(scope, normed))
    if scope.convolution_floats or scope.state_floats:
        source = scope.rows(scope.embedding, state) if parts else normed
        parts.append(recurrent(scope, source))
    if not parts:
        return None
    return parts[0] if len(parts) == 1 else scope.over(scope.embedding, *parts)


def _with_layer_input(scope: Scope, state: int, extra: int | None) -> int:
    """The layer's own embedding of each token, gated by the state (Gemma 3n and 4)."""
    if extra is None or not scope.has("inp_gate"):
        return state
    gate = scope.product("inp_gate", state)
    joined = scope.over(scope.outputs("inp_gate"), gate, extra)
    return scope.over(scope.embedding, scope.product("proj", joined), state)
