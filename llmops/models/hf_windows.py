"""For how long the layers of a config.json keep keys and values: windows layer by layer.

The rules are those of modeling_*.py and configuration_*.py of transformers 5, which vLLM's models follow.
"""

from __future__ import annotations

from collections.abc import Callable

from llmops.models.hf_config import ConfigFacts
from llmops.models.hf_heads import layer_words

Windows = tuple[int | None, ...]
WindowRule = Callable[[ConfigFacts, int], Windows]

FULL_WORDS = frozenset({"full_attention", "attention", "global_attention", "global", "indexed_attention"})
WINDOW_WORDS = frozenset({"sliding_attention", "local_attention", "local", "swa"})


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


def _listed(facts: ConfigFacts, layers: int, window: int | None) -> Windows | None:
    words = layer_words(facts, layers)
    if words is None:
        return None
    for word in words:
        if word not in FULL_WORDS | WINDOW_WORDS:
            raise facts.wrong("layer_types", word)
    return tuple(window if word in WINDOW_WORDS else None for word in words)
