"""Heads, lengths and lists by layer of a config.json, each within what an engine can run.

The rules are those of modeling_*.py and configuration_*.py of transformers 5, which vLLM's models follow.
"""

from __future__ import annotations

from llmops.models.gguf_facts import MAX_LAYERS
from llmops.models.gguf_reader import unreadable
from llmops.models.hf_config import ConfigFacts

MOST_HEADS = 65_536
MOST_HEAD_LENGTH = 65_536
DRAFT_KEYS = ("num_nextn_predict_layers", "mtp_num_hidden_layers", "num_mtp_layers", "num_mtp_modules")


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
