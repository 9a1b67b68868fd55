"""Attention layers of a config.json: head sizes, windows layer by layer, compressed (MLA) caches.

The rules are those of modeling_*.py and configuration_*.py of transformers 5, which vLLM's models follow.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from llmops.core.model import AttentionLayer
from llmops.models.gguf_facts import MAX_LAYERS
from llmops.models.gguf_reader import unreadable
from llmops.models.hf_config import ConfigFacts
from llmops.models.hf_layers import Layers

Windows = tuple[int | None, ...]
WindowRule = Callable[[ConfigFacts, int], Windows]

MOST_HEADS = 65_536
MOST_HEAD_LENGTH = 65_536
DRAFT_KEYS = ("num_nextn_predict_layers", "mtp_num_hidden_layers", "num_mtp_layers", "num_mtp_modules")
FULL_WORDS = frozenset({"full_attention", "attention", "global_attention", "global", "indexed_attention"})
WINDOW_WORDS = frozenset({"sliding_attention", "local_attention", "local", "swa"})


def bounded(facts: ConfigFacts, key: str, default: int | None = None, *, most: int, least: int = 1) -> int:
    """A whole number in a range; beyond it no engine could run the model."""
    value = facts.integer(key, default, least=least)
    if value > most:
        raise facts.wrong(facts.find(key)[0], value)
    return value


def query_heads(facts: ConfigFacts) -> int:
    """Attention heads of a layer."""
    return bounded(facts, "num_attention_heads", most=MOST_HEADS)


def head_length(facts: ConfigFacts, heads: int) -> int:
    """Elements of one head; where the file gives none (or 0), the hidden size divided among the heads."""
    given = bounded(facts, "head_dim", 0, most=MOST_HEAD_LENGTH, least=0)
    length = given or facts.integer("hidden_size", least=1) // heads
    if not 0 < length <= MOST_HEAD_LENGTH:
        raise facts.wrong("hidden_size", facts.integer("hidden_size"))
    return length


def kv_heads(facts: ConfigFacts, layers: int) -> tuple[int, ...]:
    """Key-value heads of every layer: one number, a list, or as many as attention heads."""
    heads = query_heads(facts)
    listed = "num_key_value_heads_per_layer"
    key = listed if facts.has(listed) else "num_key_value_heads"
    counts = facts.per_layer(key, layers, max(_query_list(facts, layers, heads)), least=1)
    for count in counts:
        if count > MOST_HEADS:
            raise facts.wrong(key, count)
    return counts


def _query_list(facts: ConfigFacts, layers: int, heads: int) -> tuple[int, ...]:
    return facts.per_layer("num_attention_heads_per_layer", layers, heads, least=1)


def draft_layers(facts: ConfigFacts) -> int:
    """Layers that only guess next tokens, 0 where the file names none."""
    for key in DRAFT_KEYS:
        if facts.has(key):
            return bounded(facts, key, most=512, least=0)
    return 0


def full_attention(_facts: ConfigFacts, layers: int) -> Windows:
    """Every layer keeps every token."""
    return (None,) * layers


def window_everywhere(facts: ConfigFacts, layers: int) -> Windows:
    """The layers that layer_types names keep a window; without such a list every layer does, if there is a window."""
    window = window_tokens(facts)
    return _listed(facts, layers, window) or (window,) * layers


def window_listed(facts: ConfigFacts, layers: int) -> Windows:
    """Windows in the layers that layer_types names, and in none without such a list."""
    return _listed(facts, layers, window_tokens(facts)) or (None,) * layers


def window_when_switched_on(facts: ConfigFacts, layers: int) -> Windows:
    """Qwen: windows only with use_sliding_window, and only from layer max_window_layers on."""
    window = window_tokens(facts) if facts.switch("use_sliding_window", default=False) else None
    first = facts.integer("max_window_layers", 28)
    listed = _listed(facts, layers, window)
    return listed or tuple(window if layer >= first else None for layer in range(layers))


def window_by_period(period: int, *, key: str = "sliding_window_pattern", full_first: bool = False) -> WindowRule:
    """The last (or first) layer of each period keeps everything, the others a window; a list of the file overrules."""

    def rule(facts: ConfigFacts, layers: int) -> Windows:
        window = window_tokens(facts)
        listed = _listed(facts, layers, window)
        if listed is not None:
            return listed
        letters = facts.find(key)[1]
        if isinstance(letters, str) and letters:  # exaone4: LLLG
            return tuple(window if letters[layer % len(letters)] == "L" else None for layer in range(layers))
        length = facts.integer(key, period, least=1)
        full = 0 if full_first else length - 1
        return tuple(None if layer % length == full else window for layer in range(layers))

    return rule


def window_where_rotated(facts: ConfigFacts, layers: int) -> Windows:
    """SmolLM3: windows, where switched on, only in the layers without rotary positions."""
    window = window_tokens(facts) if facts.switch("use_sliding_window", default=False) else None
    listed = _listed(facts, layers, window)
    if listed is not None:
        return listed
    rotated = rotary_layers(facts, layers)
    return tuple(None if has_rope else window for has_rope in rotated)


def rotary_layers(facts: ConfigFacts, layers: int) -> tuple[bool, ...]:
    """Which layers use rotary positions: no_rope_layers holds a 1 for each that does (sic)."""
    given = facts.integers("no_rope_layers")
    if given:
        facts.require_length("no_rope_layers", len(given), layers)
        return tuple(bool(item) for item in given)
    interval = facts.integer("no_rope_layer_interval", 4, least=1)
    return tuple((layer + 1) % interval != 0 for layer in range(layers))


def window_tokens(facts: ConfigFacts) -> int | None:
    """The window of the file; None where it has none or 0, which engines take for none."""
    return facts.integer("sliding_window", 0) or None


def layer_words(facts: ConfigFacts, layers: int, key: str = "layer_types") -> tuple[str, ...] | None:
    """One word for each layer; more words than layers belong to draft layers. None where the file has no list."""
    words = facts.texts(key)
    if words is None:
        return None
    if len(words) < layers:
        raise unreadable(facts.path, f"{facts.where}{key} has {len(words)} values for {layers} layers")
    return words[:layers]


def numbered(facts: ConfigFacts, key: str) -> frozenset[int] | None:
    """A list of numbers of layers; None where the file has no list."""
    items = facts.items(key)
    if items is not None and len(items) > MAX_LAYERS:
        raise facts.wrong(f"the length of {key}", len(items))
    listed = facts.integers(key)
    return None if listed is None else frozenset(listed)


def _listed(facts: ConfigFacts, layers: int, window: int | None) -> Windows | None:
    words = layer_words(facts, layers)
    if words is None:
        return None
    for word in words:
        if word not in FULL_WORDS | WINDOW_WORDS:
            raise facts.wrong("layer_types", word)
    return tuple(window if word in WINDOW_WORDS else None for word in words)


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
