"""The kinds of layers that a model has: their tensors, their cache, their state."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from llmops.core.model import AttentionLayer, LayerShape, ModelSpec, StateLayer

Tensors = Mapping[str, tuple[int, ...]]


@dataclass(frozen=True, eq=False)
class LayerKind:
    """Layers with the same tensors, cache and state; None where they have none of their own."""

    tensors: Tensors
    cache: AttentionLayer | None
    state: StateLayer | None


# So many layers in a row that differ are placed; the holes that further ones leave are the same.
MOST_LAYERS = 48


def layer_sequence(model: ModelSpec) -> tuple[LayerKind, ...]:
    """Layers in the order of the model, of equal ones in a row two; then every kind that does not come early."""
    places = _places(model)
    kept = [places[number] for number in sorted(places)]
    shortened = [kind for place, kind in enumerate(kept) if kept[max(0, place - 2) : place] != [kind, kind]]
    sequence = shortened[:MOST_LAYERS]
    late = [kind for kind in dict.fromkeys(shortened[MOST_LAYERS:]) if kind not in sequence]
    return tuple(sequence + [kind for kind in late for _ in range(2)])


def _places(model: ModelSpec) -> dict[int, LayerKind]:
    """The kind of every layer; equal kinds are the same object."""
    caches, states = caches_by_layer(model), states_by_layer(model)
    found: dict[tuple[object, ...], LayerKind] = {}
    places = {}
    for shape in model.layer_shapes or _supposed_shapes(model):
        for layer in shape.layers:
            cache, state = caches.get(layer), states.get(layer)
            key = (
                shape.tensors,
                cache and (cache.kv_heads, cache.key_length, cache.value_length, cache.window_tokens),
                state and (state.kind, state.convolution_elements, state.recurrent_elements),
            )
            places[layer] = found.setdefault(key, LayerKind(dict(shape.tensors), cache, state))
    return places


def caches_by_layer(model: ModelSpec) -> dict[int, AttentionLayer]:
    """The attention layers by their number; spread evenly where they do not say it."""
    count = len(model.attention_layers)
    return {
        layer.layer if layer.layer is not None else place * model.layers // count: layer
        for place, layer in enumerate(model.attention_layers)
    }


def states_by_layer(model: ModelSpec) -> dict[int, StateLayer]:
    """The layers with a state by their number; spread evenly where they do not say it."""
    count = len(model.state_layers)
    return {
        layer.layer if layer.layer is not None else place * model.layers // count: layer
        for place, layer in enumerate(model.state_layers)
    }


def _supposed_shapes(model: ModelSpec) -> tuple[LayerShape, ...]:
    """Plain layers of the model's sizes, for a model whose tensors were not read."""
    caches = caches_by_layer(model)
    return tuple(
        LayerShape((layer,), (*_supposed_attention(model, caches.get(layer)), *_supposed_feed_forward(model)))
        for layer in range(model.layers)
    )


def _supposed_attention(model: ModelSpec, cache: AttentionLayer | None) -> tuple[tuple[str, tuple[int, ...]], ...]:
    embedding, heads = model.embedding_length, model.attention_heads
    if cache is None:
        return ()
    keys, values = cache.key_length, cache.value_length or cache.key_length
    return (
        ("attn_q", (embedding, heads * keys)),
        ("attn_k", (embedding, cache.kv_heads * keys)),
        ("attn_v", (embedding, cache.kv_heads * values)),
        ("attn_output", (heads * values, embedding)),
        ("ffn_norm", (embedding,)),
    )


def _supposed_feed_forward(model: ModelSpec) -> tuple[tuple[str, tuple[int, ...]], ...]:
    embedding = model.embedding_length
    width = model.expert_feed_forward_length or model.feed_forward_length
    if not model.experts_used:
        return (
            ("ffn_gate", (embedding, width)),
            ("ffn_up", (embedding, width)),
            ("ffn_down", (width, embedding)),
        )
    return (
        ("ffn_gate_inp", (embedding, model.experts)),
        ("ffn_gate_exps", (embedding, width, model.experts)),
        ("ffn_up_exps", (embedding, width, model.experts)),
        ("ffn_down_exps", (width, embedding, model.experts)),
    )
