"""Rules of families whose heads share one compressed vector (MLA), and of those with an indexer beside it.

Read from src/llama-kv-cache.cpp (no values where is_mla), src/llama-kv-cache-dsa*.cpp, src/llama-kv-cache-msa.cpp and
src/models/*.cpp of llama.cpp b11434.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from llmops.core.model import AttentionLayer
from llmops.models.gguf_facts import Facts
from llmops.models.gguf_families_attention import PATTERN, WINDOW, Caches, Heads, full_attention, heads_of
from llmops.models.gguf_reader import unreadable

INDEXER_LENGTH = "attention.indexer.key_length"
INDEXER_TYPES = "attention.indexer.types"
# src/models/glm-dsa.cpp: files without a list have an indexer in every layer, unless they were trained this far.
SPARSE_INDEXERS_FROM_TOKENS = 1_048_576


def is_latent(facts: Facts) -> bool:
    """Whether the file is of the newer conversion, which caches the compressed vector: it names both lengths."""
    return all(facts.integer(f"attention.{part}_length_mla", 0) for part in ("key", "value"))


def latent_layer(heads: Heads, number: int, window_tokens: int | None = None) -> AttentionLayer:
    """One layer that keeps its key only: the values are part of it."""
    return replace(heads.layer(number, window_tokens), value_length=0, is_latent=True)


def latent(facts: Facts) -> Caches:
    """One compressed vector in every layer; in older conversions keys and values of every head."""
    if not is_latent(facts):
        return full_attention(facts)
    heads = heads_of(facts)
    return Caches(tuple(latent_layer(heads, number) for number in range(facts.layers) if heads.kv_heads[number]))


def latent_with_indexer(facts: Facts) -> Caches:
    """MLA with a key of one indexer head more in the layers that choose which tokens are looked at."""
    _require_latent(facts)
    length = facts.integer(INDEXER_LENGTH, least=1)
    return indexed(latent(facts).attention, length, (True,) * facts.layers)


def glm_dsa(facts: Facts) -> Caches:
    """The same; the file may list the layers that choose for the ones after them."""
    _require_latent(facts)
    sparse = facts.integer("context_length") >= SPARSE_INDEXERS_FROM_TOKENS
    default = [not sparse or number < 2 or (number - 2) % 4 == 0 for number in range(facts.layers)]
    return indexed(latent(facts).attention, facts.integer(INDEXER_LENGTH, least=1), indexers(facts, default))


def hy_v4(facts: Facts) -> Caches:
    """MLA, with indexers where the file has any."""
    _require_latent(facts)
    if not facts.integer("attention.indexer.top_k", 0):
        return latent(facts)
    chooses = indexers(facts, [False] * facts.layers)
    return indexed(latent(facts).attention, facts.integer(INDEXER_LENGTH, least=1), chooses)


def dots3note(facts: Facts) -> Caches:
    """MLA in windows and in full layers, which have indexers where the file lists them."""
    _require_latent(facts)
    heads, window = heads_of(facts), facts.integer(WINDOW, least=1)
    inside = facts.switches(PATTERN)
    if inside is None:
        raise unreadable(facts.path, f"{PATTERN} of {facts.architecture} does not list its layers")
    inside = (inside + (False,) * facts.layers)[: facts.layers]
    layers = [latent_layer(heads, number, window if within else None) for number, within in enumerate(inside)]
    return indexed(layers, facts.integer(INDEXER_LENGTH, least=1), indexers(facts, [False] * facts.layers))


def minimax_m3(facts: Facts) -> Caches:
    """Plain keys and values; after the first dense layers also one indexer head of them, in a cache of its own."""
    heads, first = heads_of(facts), facts.integer("leading_dense_block_count", 0)
    length = facts.integer(INDEXER_LENGTH, least=1)
    layers: list[AttentionLayer] = []
    for number in range(facts.blocks):
        layers.append(heads.layer(number))
        if number >= first:
            layers.append(AttentionLayer(1, length, heads.value, layer=number))
    return Caches(tuple(layers))


def indexers(facts: Facts, default: Sequence[bool]) -> Sequence[bool]:
    """The layers that have an indexer: listed in the file, one word for all, or the default."""
    listed = facts.switches(INDEXER_TYPES)
    if listed is not None:
        return (listed + (False,) * facts.layers)[: facts.layers]
    if facts.has(INDEXER_TYPES):
        return (facts.integer(INDEXER_TYPES) > 0,) * facts.layers
    return default


def indexed(layers: Sequence[AttentionLayer], length: int, chooses: Sequence[bool]) -> Caches:
    """The layers, each followed by the key of `length` of its indexer; windowed ones have none."""
    found: list[AttentionLayer] = []
    for layer in layers:
        found.append(layer)
        if chooses[layer.layer or 0] and layer.window_tokens is None:
            found.append(AttentionLayer(1, length, 0, is_latent=True, layer=layer.layer))
    return Caches(tuple(found))


def _require_latent(facts: Facts) -> None:
    if not is_latent(facts):
        raise unreadable(facts.path, f"attention.key_length_mla of {facts.architecture} is missing from its metadata")
