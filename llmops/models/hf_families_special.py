"""Families whose attention layers differ among themselves in more than a window, and models without a cache.

Sources: modeling_*.py of transformers 5 and the classes of the same names in vLLM 0.33.
"""

from __future__ import annotations

from dataclasses import replace

from llmops.core.model import AttentionLayer
from llmops.models.hf_config import ConfigFacts
from llmops.models.hf_families_attention import Decoder
from llmops.models.hf_heads import (
    MOST_HEAD_LENGTH,
    MOST_HEADS,
    bounded,
    draft_layers,
    head_length,
    kv_heads,
    layer_words,
    query_heads,
)
from llmops.models.hf_layers import Layers
from llmops.models.hf_windows import full_attention, rotary_layers, window_by_period


def gemma3(facts: ConfigFacts) -> Layers:
    """Gemma 3: every sixth layer is full; the embedding model looks both ways and caches nothing."""
    if facts.find("use_bidirectional_attention")[1] is True:
        return encoder(facts)
    return Decoder(window_by_period(6))(facts)


def shared_at_the_end(facts: ConfigFacts) -> Layers:
    """Gemma 3n: the last layers use the caches of earlier ones; every fifth layer is full."""
    layers = Decoder(window_by_period(5))(facts)
    return replace(layers, attention_layers=layers.attention_layers[: _own_caches(facts, layers.count)])


def gemma4(facts: ConfigFacts) -> Layers:
    """Gemma 4: full layers have longer heads and may have fewer; the last layer is full; the end may share caches."""
    if facts.find("use_bidirectional_attention")[1] == "all":
        return encoder(facts)
    layers = Decoder(window_by_period(6))(facts)
    length = bounded(facts, "global_head_dim", 512, most=MOST_HEAD_LENGTH)
    heads: int | None = None
    if facts.switch("attention_k_eq_v", default=False) and facts.has("num_global_key_value_heads"):
        heads = bounded(facts, "num_global_key_value_heads", most=MOST_HEADS)

    def adapted(layer: AttentionLayer) -> AttentionLayer:
        if layer.window_tokens is not None and layer.layer != layers.count - 1:
            return layer
        return AttentionLayer(heads or layer.kv_heads, length, length, layer=layer.layer)

    kept = layers.attention_layers[: _own_caches(facts, layers.count)]
    return replace(layers, attention_layers=tuple(adapted(layer) for layer in kept))


def _own_caches(facts: ConfigFacts, layers: int) -> int:
    shared = facts.integer("num_kv_shared_layers", 0)
    if shared >= layers:
        raise facts.wrong("num_kv_shared_layers", shared)
    return layers - shared


def llama4(facts: ConfigFacts) -> Layers:
    """Llama 4: layers with rotary positions attend within chunks, the others to everything."""
    layers = Decoder(full_attention)(facts)
    chunk = facts.integer("attention_chunk_size", 0)
    words = layer_words(facts, layers.count)
    inside = (
        tuple(word == "chunked_attention" for word in words)
        if words is not None
        else rotary_layers(facts, layers.count)
    )
    attention = tuple(
        replace(layer, window_tokens=chunk, is_chunked=True) if within and chunk else layer
        for layer, within in zip(layers.attention_layers, inside, strict=True)
    )
    return replace(layers, attention_layers=attention)


def mimo(facts: ConfigFacts) -> Layers:
    """MiMo-V2: windowed layers may have key-value heads and lengths of their own; the first layer is full."""
    count = facts.layers()
    pattern = facts.integers("hybrid_layer_pattern")
    words = layer_words(facts, count)
    if pattern is not None:
        facts.require_length("hybrid_layer_pattern", len(pattern), count)
        inside = tuple(bool(item) for item in pattern)
    elif words is not None:
        inside = tuple(word == "sliding_attention" for word in words)
    else:
        inside = tuple(layer != 0 and (layer + 1) % 6 != 0 for layer in range(count))
    full = _mimo_layer(facts, "", None)
    # The newer name counts the tokens before the query, which keeps a place too.
    window = facts.integer("sliding_window_size", facts.integer("sliding_window", 129) - 1) + 1
    windowed = _mimo_layer(facts, "swa_", window)
    attention = tuple(replace(windowed if within else full, layer=layer) for layer, within in enumerate(inside))
    return Layers(count, attention, (), draft_layers(facts))


def _mimo_layer(facts: ConfigFacts, prefix: str, window: int | None) -> AttentionLayer:
    heads = bounded(facts, f"{prefix}num_key_value_heads", kv_heads(facts, 1)[0], most=MOST_HEADS)
    key = bounded(facts, f"{prefix}head_dim", head_length(facts, query_heads(facts)), most=MOST_HEAD_LENGTH)
    value = bounded(facts, f"{prefix}v_head_dim", facts.integer("v_head_dim", key), most=MOST_HEAD_LENGTH)
    return AttentionLayer(heads, key, value, window)


def grouped_blocks(facts: ConfigFacts) -> Layers:
    """DeciLM and Nemotron-NAS: each block says its attention, or that it has none."""
    blocks = facts.parts("block_configs")
    if blocks is None:
        return Decoder(full_attention)(facts)
    count = facts.layers()
    facts.require_length("block_configs", len(blocks), count)
    heads = query_heads(facts)
    length = head_length(facts, heads)
    attention: list[AttentionLayer] = []
    for layer, block in enumerate(blocks):
        part = block.part("attention")
        if part is None:
            raise block.missing("attention")
        if part.switch("no_op", default=False) or part.switch("replace_with_linear", default=False):
            continue
        group = part.integer("n_heads_in_group", least=1)
        if group > heads:
            raise part.wrong("n_heads_in_group", group)
        attention.append(AttentionLayer(heads // group, length, length, layer=layer))
    return Layers(count, tuple(attention), (), draft_layers(facts))


def one_or_all(facts: ConfigFacts) -> Layers:
    """Falcon and GPT-BigCode: one key-value head for all, unless the newer layout or the switch says otherwise."""
    if facts.switch("new_decoder_architecture", default=False):
        return Decoder(full_attention)(facts)
    single = facts.switch("multi_query", default=True)
    return _with_heads(facts, 1 if single else query_heads(facts))


def groups_when_switched_on(facts: ConfigFacts) -> Layers:
    """ChatGLM: multi_query_group_num key-value heads with multi_query_attention, else as many as attention heads."""
    grouped = facts.switch("multi_query_attention", default=False)
    groups = bounded(facts, "multi_query_group_num", most=MOST_HEADS) if grouped else query_heads(facts)
    return _with_heads(facts, groups)


def nested_heads(facts: ConfigFacts) -> Layers:
    """MPT and DBRX: the key-value heads stand in attn_config."""
    part = facts.part("attn_config")
    heads = query_heads(facts)
    return _with_heads(facts, heads if part is None else bounded(part, "kv_n_heads", heads, most=MOST_HEADS))


def _with_heads(facts: ConfigFacts, heads: int) -> Layers:
    count = facts.layers()
    length = head_length(facts, query_heads(facts))
    attention = tuple(AttentionLayer(heads, length, length, layer=layer) for layer in range(count))
    return Layers(count, attention)


def rebuilt_latent(facts: ConfigFacts) -> Layers:
    """MiniCPM3: compressed weights, but engines cache the keys and values of all heads."""
    heads = query_heads(facts)
    key = bounded(facts, "qk_nope_head_dim", most=MOST_HEAD_LENGTH)
    key += bounded(facts, "qk_rope_head_dim", most=MOST_HEAD_LENGTH)
    value = bounded(facts, "v_head_dim", facts.integer("hidden_size", least=1) // heads, most=MOST_HEAD_LENGTH)
    count = facts.layers()
    attention = tuple(AttentionLayer(heads, key, value, layer=layer) for layer in range(count))
    return Layers(count, attention, notes=("vLLM stores values as long as keys for this family",))


def encoder(facts: ConfigFacts) -> Layers:
    """Encoders look at all tokens at once and keep nothing between requests."""
    return Layers(facts.layers(), (), notes=("an encoder: it keeps no keys and values between requests",))
