"""Layers that keep several versions of the running state (Gemma 3n), in a graph (src/models/gemma3n.cpp, b11434)."""

from __future__ import annotations

from llmops.core.memory.ggml_inputs import LayerInput
from llmops.core.memory.ggml_layers import Scope, attention


def versions(scope: Scope) -> int:
    """How many versions of the state there are; 1 in all other models."""
    return scope.inputs("altup_correct_coef") if scope.has("altup_correct_coef") else 1


def first_versions(scope: Scope, state: int) -> int:
    """The versions of the embeddings before the first layer, made as large as the first one."""
    others = (versions(scope) - 1) * scope.embedding
    projected = scope.rows(others, scope.rows(others, state))
    size = scope.rows(1, scope.rows(scope.embedding, state))
    scaled = scope.rows(others, projected, size)
    squared = scope.over(others, projected)
    return scope.rows(others + scope.embedding, state, scope.over(others, scaled, scope.rows(1, squared)))


def layer_of_versions(scope: Scope, state: int, extra: LayerInput) -> int:
    """Predict all versions, compute one of them as a layer does, correct all, add the layer's own embedding."""
    predicted = _predict(scope, state)
    active = _through_layer(scope, predicted)
    whole, width = versions(scope) * scope.embedding, scope.embedding
    innovation = scope.rows(width, active, predicted)
    repeated = scope.rows(whole, innovation)
    scores = scope.rows(versions(scope), scope.rows(width, active))
    corrected = scope.over(whole, scope.over(whole, repeated, scores), predicted)
    gate = scope.product("inp_gate", scope.rows(width, corrected))
    own = scope.product("proj", scope.over(scope.outputs("inp_gate"), gate, extra.joined()))
    return scope.rows(whole, corrected, scope.rows(whole - width, corrected, own))


def _predict(scope: Scope, state: int) -> int:
    """Every version as a mixture of all of them."""
    whole = versions(scope) * scope.embedding
    turned = scope.rows(whole, state)
    scores = scope.rows(versions(scope), scope.rows(scope.embedding, state))
    mixed = scope.rows(whole, turned, scores)
    return scope.over(whole, scope.rows(whole, mixed), state)


def _through_layer(scope: Scope, predicted: int) -> int:
    """Attention beside a low-rank branch, then the feed-forward part with a sparse gate, of the active version."""
    width, inner = scope.embedding, scope.inputs("ffn_down")
    normed = scope.rows(width, predicted)
    mixed = scope.over(width, attention(scope, normed), predicted)
    branch = scope.over(width, scope.product("laurel_r", scope.product("laurel_l", normed)), normed)
    mixed = scope.over(width, mixed, branch)
    source = scope.rows(width, mixed)
    up = scope.product("ffn_up", source)
    gate = scope.product("ffn_gate", source)
    spread = scope.rows(1, scope.rows(inner, gate))
    gate = scope.over(inner, gate, spread)
    down = scope.product("ffn_down", scope.over(inner, up, gate))
    return scope.over(width, down, mixed)
