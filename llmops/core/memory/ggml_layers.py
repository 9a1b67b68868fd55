"""The graph of one layer of a ggml server, from the matrices that it has: attention of every kind.

The order of the tensors is that of src/llama-graph.cpp and src/models/*.cpp of llama.cpp b11434.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from llmops.core.memory.ggml_graph import Graph
from llmops.core.model import AttentionLayer

FLOAT_BYTES = 4

Matrices = Mapping[str, tuple[int, ...]]


class Scope(NamedTuple):
    """What every part of a layer is built with; `cells` are those of one stream of the layer's own cache.

    `state_floats` is the recurrent state of one sequence, `convolution_floats` what its convolution remembers;
    `mask_cast` gives the 16-bit copy of its mask where flash attention reads one;
    `weighs_before`: experts are weighed before they compute (Llama 4). `turns`: queries and keys are
    normed or turned by their position.
    """

    graph: Graph
    matrices: Matrices
    tokens: int
    sequences: int
    embedding: int
    heads: int
    flash_attention: bool
    cache: AttentionLayer | None
    cells: int
    streams: int
    cell_value_bytes: float = 2.0
    casts_keys: bool = False
    casts_values: bool = False
    rotated_keys: bool = False
    rotated_values: bool = False
    state_floats: int = 0
    convolution_floats: int = 0
    experts_used: int = 0
    mask_cast: Callable[[], tuple[int, ...]] = tuple
    weighs_before: bool = False
    turns: bool = True

    def has(self, name: str) -> bool:
        """Whether the layer has this matrix."""
        return name in self.matrices

    def inputs(self, name: str) -> int:
        """The length of the vectors that a matrix takes; the model's own for one that a file lacks."""
        return (*self.matrices.get(name, ()), self.embedding)[0]

    def outputs(self, name: str) -> int:
        """The length of the vectors that a matrix gives; the model's own for one that a file lacks."""
        return (*self.matrices.get(name, ()), self.embedding, self.embedding)[1]

    def rows(self, width: int, *sources: int) -> int:
        """One new vector of 32-bit floats for each token."""
        return self.graph.new(FLOAT_BYTES * self.tokens * width, *sources)

    def over(self, width: int, *sources: int) -> int:
        """The same, in the place of a source where that is possible."""
        return self.graph.over(FLOAT_BYTES * self.tokens * width, *sources)

    def product(self, name: str, source: int) -> int:
        """A matrix times the vectors of all tokens."""
        return self.rows(self.outputs(name), source)


class Mixed(NamedTuple):
    """The values that attention mixed, and the tensor that holds a gate for them."""

    values: int
    gate: int | None


def attention(scope: Scope, normed: int) -> int:
    """The attention itself and its output matrix."""
    return attention_output(scope, attention_core(scope, normed), normed)


def attention_core(scope: Scope, normed: int) -> Mixed:
    """Queries, keys, values and their mixture; without a cache another layer's is used."""
    inner = scope.inputs("attn_output")
    queries, gate = _queries_and_cache(scope, normed, inner)
    return Mixed(attend(scope, queries, inner), gate)


def attention_output(scope: Scope, mixed: Mixed, normed: int) -> int:
    """The gate, where there is one, and the output matrix."""
    inner, result = scope.inputs("attn_output"), mixed.values
    if scope.rotated_values:
        result = scope.rows(inner, result)
    if mixed.gate is not None:  # the second half of a projection: copied out of it only now
        result = scope.over(inner, result, scope.rows(inner, mixed.gate))
    if scope.has("attn_gate"):
        result = scope.over(inner, result, scope.product("attn_gate", normed))
    return scope.product("attn_output", result)


def _queries_and_cache(scope: Scope, normed: int, inner: int) -> tuple[int, int | None]:
    """The queries, and the tensor that also holds a gate; keys and values are written to the cache."""
    if scope.has("attn_qkv"):
        fused = scope.product("attn_qkv", normed)
        cached = max(0, scope.outputs("attn_qkv") - inner) // 2
        queries = scope.rows(inner, fused)
        scope.graph.read(scope.rows(cached, fused), fused)
        return _rotated(scope, inner, queries), None
    width = scope.outputs("attn_q")
    gate = None
    projected = scope.product("attn_q", normed)
    if scope.cache is not None and width == 2 * scope.heads * scope.cache.key_length:
        gate, width = projected, width // 2
    queries = scope.rows(width, projected) if gate is not None or scope.turns else projected
    if scope.rotated_keys:
        queries = scope.rows(width, queries)
    if scope.cache is not None and scope.has("attn_k"):
        _write_keys_and_values(scope, normed)
    return queries, gate


def _rotated(scope: Scope, width: int, queries: int) -> int:
    """Quantised keys are rotated before they are stored, and with them the queries."""
    return scope.rows(width, queries) if scope.rotated_keys else queries


def _write_keys_and_values(scope: Scope, normed: int) -> None:
    values = scope.product("attn_v", normed) if scope.has("attn_v") else None
    keys = scope.product("attn_k", normed)
    keys = scope.rows(scope.outputs("attn_k"), keys) if scope.turns else keys
    if values is None or scope.has("inp_gate"):  # Gemma 3n and 4 norm their values
        values = scope.rows(scope.outputs("attn_k"), keys if values is None else values)
    if scope.rotated_keys:
        keys = scope.rows(scope.outputs("attn_k"), keys)
    if scope.rotated_values and scope.has("attn_v"):
        values = scope.rows(scope.outputs("attn_v"), values)
    scope.graph.read(keys)
    scope.graph.read(values)


def attend(scope: Scope, queries: int, inner: int) -> int:
    """The attention over the cache: one operation, or scores for every head and cell."""
    if scope.flash_attention:
        return scope.rows(inner, queries, *casts(scope), *scope.mask_cast())
    scores = scope.rows(scope.heads * scope.cells, queries)
    weights = scope.over(scope.heads * scope.cells, scores)
    mixed = scope.rows(inner, weights)
    return scope.rows(inner, mixed)


def casts(scope: Scope) -> tuple[int, ...]:
    """16-bit copies of a 32-bit cache, for flash attention reads no other floats."""
    cache = scope.cache
    if cache is None:
        return ()
    cells = 2 * scope.cells * scope.streams * cache.kv_heads
    keys = (scope.graph.new(cells * cache.key_length),) if scope.casts_keys else ()
    width = cache.value_length or cache.key_length
    return (*keys, scope.graph.new(cells * width)) if scope.casts_values else keys
