"""Attention layers of a config.json: keys and values in heads, compressed (MLA) caches.

The rules are those of modeling_*.py and configuration_*.py of transformers 5, which vLLM's models follow.
"""

from __future__ import annotations

from dataclasses import dataclass

from llmops.core.model import AttentionLayer
from llmops.models.gguf_facts import MAX_LAYERS
from llmops.models.hf_config import ConfigFacts
from llmops.models.hf_heads import (
    MOST_HEAD_LENGTH,
    bounded,
    draft_layers,
    head_length,
    kv_heads,
    layer_words,
    query_heads,
)
from llmops.models.hf_layers import Layers
from llmops.models.hf_windows import WindowRule, full_attention, window_everywhere


@dataclass(frozen=True)
class Decoder:
    """A family whose layers all keep keys and values in heads; `windows` says for how long each does."""

    windows: WindowRule = window_everywhere
    note: str = ""

    def __call__(self, facts: ConfigFacts) -> Layers:
        """The layers by the file's own numbers."""
        count = facts.layers()
        length = head_length(facts, query_heads(facts))
        value_length = bounded(facts, "v_head_dim", length, most=MOST_HEAD_LENGTH)
        each = zip(kv_heads(facts, count), self.windows(facts, count), strict=True)
        attention = tuple(
            AttentionLayer(heads, length, value_length, window, layer=layer)
            for layer, (heads, window) in enumerate(each)
        )
        noted = self.note and any(layer.window_tokens for layer in attention)
        return Layers(count, attention, (), draft_layers(facts), notes=(self.note,) if noted else ())


def latent_layer(facts: ConfigFacts, layer: int) -> AttentionLayer:
    """One compressed vector for all heads: the latent and the rotary part of the key (MLA)."""
    rank = bounded(facts, "kv_lora_rank", most=MOST_HEAD_LENGTH)
    rotary = bounded(facts, "qk_rope_head_dim", most=MOST_HEAD_LENGTH)
    return AttentionLayer(1, rank + rotary, 0, is_latent=True, layer=layer)


def latent(facts: ConfigFacts) -> Layers:
    """Every layer keeps one compressed vector; without kv_lora_rank the family is a plain decoder."""
    if not facts.has("kv_lora_rank"):
        return Decoder(full_attention)(facts)
    count = facts.layers()
    attention = tuple(latent_layer(facts, layer) for layer in range(count))
    return Layers(count, attention, (), draft_layers(facts))


def latent_twice(facts: ConfigFacts) -> Layers:
    """LongCat-Flash: each layer attends twice and caches twice; both halves are counted as layers."""
    count = 2 * facts.layers()
    if count > MAX_LAYERS:
        raise facts.wrong("num_layers", count // 2)
    attention = tuple(latent_layer(facts, layer) for layer in range(count))
    return Layers(count, attention, (), draft_layers(facts))


def latent_with_indexer(facts: ConfigFacts) -> Layers:
    """MLA whose layers also keep a key of one indexer head, which chooses the tokens to attend to.

    Layers that reuse the choice of the one before (indexer_types, index_topk_freq) keep no such key.
    """
    layers = latent(facts)
    length = bounded(facts, "index_head_dim", most=MOST_HEAD_LENGTH)
    attention: list[AttentionLayer] = []
    for layer, chooses in zip(layers.attention_layers, _indexing(facts, layers.count), strict=True):
        attention.append(layer)
        if chooses:
            attention.append(AttentionLayer(1, length, 0, is_latent=True, layer=layer.layer))
    return Layers(layers.count, tuple(attention), (), layers.draft_layers)


def _indexing(facts: ConfigFacts, layers: int) -> tuple[bool, ...]:
    words = layer_words(facts, layers, "indexer_types")
    if words is not None:
        return tuple(word != "shared" for word in words)
    pattern = facts.text("index_topk_pattern")
    if pattern is not None and len(pattern) >= layers:
        return tuple(letter != "S" for letter in pattern[:layers])
    frequency = facts.integer("index_topk_freq", 1, least=1)
    offset = facts.integer("index_skip_topk_offset", 2)
    return tuple(max(layer - offset + 1, 0) % frequency == 0 for layer in range(layers))


def heads_with_indexer(facts: ConfigFacts) -> Layers:
    """MiniMax M3: keys and values in heads; layers that attend to chosen blocks also keep a key of one indexer head.

    The layers are listed in layer_types, or as ones in sparse_attention_freq (configuration_minimax_m3_vl.py).
    """
    layers = Decoder(full_attention)(facts)
    sparse = facts.part("sparse_attention_config")
    words = layer_words(facts, layers.count)
    chosen: tuple[bool, ...] = (False,) * layers.count
    if words is not None:
        chosen = tuple(word == "minimax_m3_sparse" for word in words)
    elif sparse is not None:
        given = sparse.integers("sparse_attention_freq") or (0,) * layers.count
        sparse.require_length("sparse_attention_freq", len(given), layers.count)
        chosen = tuple(bool(number) for number in given)
    length = bounded(facts, "index_head_dim", 128, most=MOST_HEAD_LENGTH)
    if sparse is not None and sparse.has("sparse_index_dim"):
        length = bounded(sparse, "sparse_index_dim", most=MOST_HEAD_LENGTH)
    attention: list[AttentionLayer] = []
    for layer, chooses in zip(layers.attention_layers, chosen, strict=True):
        attention.append(layer)
        if chooses:
            attention.append(AttentionLayer(1, length, 0, is_latent=True, layer=layer.layer))
    return Layers(layers.count, tuple(attention), (), layers.draft_layers)
