"""Multi-head latent attention in a graph, with and without an indexer that chooses the tokens.

From src/models/deepseek2.cpp, deepseek32.cpp and src/llama-graph.cpp of llama.cpp b11434.
"""

from __future__ import annotations

from llmops.core.memory.ggml_layers import FLOAT_BYTES, Scope, attend, casts

# attention.indexer.top_k of every published model with an indexer (DeepSeek V3.2, GLM-5).
INDEXED_TOKENS = 2048


def latent_attention(scope: Scope, normed: int) -> int:
    """Over the compressed cache, or (old conversions) over keys and values of all heads."""
    if scope.has("indexer.attn_k"):
        width = scope.outputs("indexer.attn_k")
        scope.graph.read(scope.rows(width, scope.rows(width, scope.product("indexer.attn_k", normed))))
    low = scope.product("attn_q_a", normed) if scope.has("attn_q_a") else None
    name = "attn_q" if low is None else "attn_q_b"
    queries = scope.product(name, normed if low is None else low)
    compressed = scope.product("attn_kv_a_mqa", normed)
    if scope.has("attn_k_b"):
        return _absorbed(scope, queries, compressed, normed, low)
    return _decompressed(scope, queries, scope.outputs(name), compressed)


def _absorbed(scope: Scope, queries: int, compressed: int, normed: int, low: int | None) -> int:
    """Queries multiplied into the compressed space, and its values out of it."""
    rank, heads = scope.outputs("attn_k_b"), scope.heads
    value, whole = scope.outputs("attn_v_b"), max(scope.outputs("attn_kv_a_mqa"), scope.outputs("attn_k_b"))
    rope = whole - rank
    absorbed = scope.rows(heads * rank, queries)
    turned = scope.rows(heads * rope, queries)
    joined = scope.rows(heads * whole, absorbed, turned)
    keys = scope.rows(whole, scope.rows(rank, compressed), scope.rows(rope, compressed))
    scope.graph.read(keys)
    asked = (normed, low) if low is not None and scope.has("indexer.proj") else None
    mixed = _attend_compressed(scope, joined, rank, heads, asked)
    mixed = scope.rows(heads * value, mixed)
    return scope.product("attn_output", scope.rows(heads * value, mixed))


def _attend_compressed(scope: Scope, joined: int, rank: int, heads: int, asked: tuple[int, int] | None) -> int:
    """Without flash attention the values are copied out of the compressed cache first, transposed.

    `asked` is what an indexer chooses by, the normed state and the compressed queries.
    """
    if scope.flash_attention:
        copies = casts(scope)
        chosen = _choose(scope, *asked) if asked else ()
        spare = 1 if chosen else 0  # the engine finds no hole of just this size beside chosen tokens
        return scope.rows(heads * rank + spare, joined, *copies, *scope.mask_cast(), *chosen)
    values = scope.graph.new(int(scope.cells * scope.streams * rank * scope.cell_value_bytes))
    scores = scope.rows(heads * scope.cells, joined)
    chosen = _choose(scope, *asked) if asked else ()
    weights = scope.over(heads * scope.cells, scores, *chosen)
    return scope.rows(heads * rank, values, weights)


def _choose(scope: Scope, normed: int, low: int) -> tuple[int, ...]:
    """The mask of the tokens that the indexer chooses: scores of all cells, the best, a mask filled and opened."""
    width = scope.outputs("indexer.attn_q_b")
    asked = scope.rows(width, scope.rows(width, scope.product("indexer.attn_q_b", low)))
    weights = scope.rows(scope.outputs("indexer.proj"), scope.product("indexer.proj", normed))
    scores = scope.rows(scope.cells, asked, weights)
    best = scope.rows(indexed_tokens(scope.cells), scope.rows(indexed_tokens(scope.cells), scores))
    size = (2 if scope.flash_attention else FLOAT_BYTES) * scope.tokens * scope.cells
    filled = scope.graph.new(size)
    opened = scope.graph.new(size, filled, best)
    return (opened,)


def indexed_tokens(cells: int) -> int:
    """How many tokens the indexer chooses."""
    return min(INDEXED_TOKENS, cells)


def _decompressed(scope: Scope, queries: int, width: int, compressed: int) -> int:
    """Keys and values of every head, computed before they are stored."""
    inner = scope.inputs("attn_output")
    pair = scope.rows(scope.outputs("attn_kv_b"), scope.rows(scope.inputs("attn_kv_b"), compressed))
    turned = scope.rows(width, queries)
    values = scope.rows(inner, pair)
    rope = scope.rows(max(0, scope.outputs("attn_kv_a_mqa") - scope.inputs("attn_kv_b")), compressed)
    repeated = scope.rows(max(0, width - scope.outputs("attn_kv_b") + inner), rope)
    keys = scope.rows(width, pair, repeated)
    if scope.rotated_keys:
        turned, keys = scope.rows(width, turned), scope.rows(width, keys)
    if scope.rotated_values:
        values = scope.rows(inner, values)
    scope.graph.read(keys)
    scope.graph.read(values)
    mixed = attend(scope, turned, inner)
    return scope.product("attn_output", scope.rows(inner, mixed) if scope.rotated_values else mixed)
