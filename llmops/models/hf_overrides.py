"""What a config.json says of single layers: per_layer_config, as transformers 5 saves what differs between them."""

from __future__ import annotations

import re
from dataclasses import replace

from llmops.core.model import AttentionLayer
from llmops.models.hf_config import ConfigFacts
from llmops.models.hf_heads import MOST_HEAD_LENGTH, MOST_HEADS, bounded
from llmops.models.hf_layers import Layers

_LAYER_NUMBER = re.compile(r"[0-9]{1,4}")


def with_overrides(facts: ConfigFacts, layers: Layers) -> Layers:
    """The layers with their own heads, lengths and windows."""
    overrides = layer_overrides(facts, layers.count)
    if not overrides:
        return layers

    def changed(layer: AttentionLayer) -> AttentionLayer:
        one = overrides.get(layer.layer) if layer.layer is not None else None
        if one is None or layer.is_latent:
            return layer
        heads = bounded(one, "num_key_value_heads", layer.kv_heads, most=MOST_HEADS)
        key = bounded(one, "head_dim", layer.key_length, most=MOST_HEAD_LENGTH)
        value = key if one.has("head_dim") else layer.value_length
        window = one.integer("sliding_window", 0) or layer.window_tokens
        return replace(layer, kv_heads=heads, key_length=key, value_length=value, window_tokens=window)

    return replace(layers, attention_layers=tuple(changed(layer) for layer in layers.attention_layers))


def layer_overrides(facts: ConfigFacts, layers: int) -> dict[int, ConfigFacts]:
    """The objects of per_layer_config by the number of their layer; empty where the file has none."""
    part = facts.part("per_layer_config")
    found: dict[int, ConfigFacts] = {}
    for name in part.values if part is not None else ():
        one = part.part(name) if part is not None else None
        if one is None or not _LAYER_NUMBER.fullmatch(name) or int(name) >= layers:
            raise facts.wrong("per_layer_config", name)
        found[int(name)] = one
    return found
