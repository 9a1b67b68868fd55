"""The feed-forward part of one layer in a graph: dense, routed experts, or both (src/llama-graph.cpp)."""

from __future__ import annotations

from llmops.core.memory.ggml_layers import Scope


def feed_forward(scope: Scope, normed: int) -> int | None:
    """All feed-forward parts that the layer has, added up; None where it has none."""
    parts = []
    if scope.has("ffn_down"):
        parts.append(dense(scope, normed))
    if scope.has("ffn_down_exps"):
        parts.append(experts(scope, normed))
    if scope.has("ffn_down_shexp"):
        parts.append(dense(scope, normed, "_shexp"))
    if not parts:
        return None
    total = parts[0]
    for part in parts[1:]:
        total = scope.over(scope.embedding, total, part)
    return total


def dense(scope: Scope, normed: int, suffix: str = "") -> int:
    """Gate and up in parallel, or one matrix that gives both, or no gate at all."""
    width = scope.inputs(f"ffn_down{suffix}")
    if scope.has(f"ffn_gate{suffix}"):
        gate = scope.product(f"ffn_gate{suffix}", normed)
        inner = scope.rows(width, gate, scope.product(f"ffn_up{suffix}", normed))
    else:
        up = scope.product(f"ffn_up{suffix}", normed)
        inner = scope.rows(width, up) if scope.outputs(f"ffn_up{suffix}") == 2 * width else scope.over(width, up)
    return scope.product(f"ffn_down{suffix}", inner)


def experts(scope: Scope, normed: int) -> int:
    """The router, then the matrices of the chosen experts for every token, then their weighted sum."""
    used = scope.experts_used
    width, wide = scope.inputs("ffn_down_exps"), scope.outputs("ffn_down_exps")
    weights = _route(scope, normed)
    source = scope.product("ffn_latent_down", normed) if scope.has("ffn_latent_down") else normed
    if scope.weighs_before:
        source = scope.over(used * scope.embedding, scope.rows(used * scope.embedding, source), weights)
    if scope.has("ffn_gate_up_exps"):
        pair = scope.rows(used * 2 * width, source)
        inner = scope.rows(used * width, pair)
    elif scope.has("ffn_gate_exps"):
        gate = scope.rows(used * width, source)
        inner = scope.rows(used * width, gate, scope.rows(used * width, source))
    else:
        inner = scope.over(used * width, scope.rows(used * width, source))
    each = scope.rows(used * wide, inner)
    each = each if scope.weighs_before else scope.over(used * wide, each, weights)
    total = scope.rows(wide, each)
    return scope.product("ffn_latent_up", total) if scope.has("ffn_latent_up") else total


def _route(scope: Scope, normed: int) -> int:
    """Scores of all experts, sorted; the weights of those that are used."""
    count = scope.outputs("ffn_gate_inp")
    scores = scope.over(count, scope.product("ffn_gate_inp", normed))
    order = scope.rows(count, scores)
    return scope.rows(scope.experts_used, scores, order)
