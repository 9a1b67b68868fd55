"""Rules of families with plain keys and values: full attention, windows, chunks, and caches that layers share.

Read from create_memory, load_hparams and src/models/*.cpp of llama.cpp b11434.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from llmops.core.model import AttentionLayer, StateLayer
from llmops.models.gguf_facts import Facts
from llmops.models.gguf_reader import unreadable

PATTERN = "attention.sliding_window_pattern"
WINDOW = "attention.sliding_window"
LLAMA4_CHUNK_TOKENS = 8192
GEMMA3N_CACHING_LAYERS = 20


class Caches(NamedTuple):
    """What the layers of a model keep: keys and values, states, or (in some families) both in one layer."""

    attention: tuple[AttentionLayer, ...]
    state: tuple[StateLayer, ...] = ()


Rule = Callable[[Facts], Caches]


class Heads(NamedTuple):
    """Head counts of every block and head lengths, as load_hparams reads them."""

    kv_heads: tuple[int, ...]
    key: int
    value: int
    key_inside: int
    value_inside: int

    def layer(self, number: int, window_tokens: int | None = None, *, is_chunked: bool = False) -> AttentionLayer:
        """One layer; inside a window it may have head lengths of its own."""
        inside = window_tokens is not None
        key, value = (self.key_inside, self.value_inside) if inside else (self.key, self.value)
        return AttentionLayer(self.kv_heads[number], key, value, window_tokens, is_chunked, layer=number)


def heads_of(facts: Facts) -> Heads:
    """The heads of a model; UnreadableInput where its first layer has none."""
    heads = facts.per_layer("attention.head_count")
    if heads[0] == 0:
        raise facts.wrong("attention.head_count", heads[0])
    default = facts.integer("embedding_length", least=1) // heads[0]
    key = facts.integer("attention.key_length", default)
    value = facts.integer("attention.value_length", default)
    return Heads(
        facts.per_layer("attention.head_count_kv", heads),
        key,
        value,
        facts.integer("attention.key_length_swa", key),
        facts.integer("attention.value_length_swa", value),
    )


def full_attention(facts: Facts) -> Caches:
    """Every layer with key-value heads keeps every token, whatever the file says of windows."""
    return _layers(facts, (False,) * facts.layers, None)


def full_attention_and_router(facts: Facts) -> Caches:
    """The same, and one head in a layer after the last one (src/models/granite-switch.cpp)."""
    heads = heads_of(facts)
    router = AttentionLayer(1, heads.key, heads.value, layer=facts.layers)
    return Caches((*full_attention(facts).attention, router))


def windowed(
    facts: Facts,
    *,
    period: int | None,
    dense_first: bool = False,
    window_tokens: int | None = None,
    window_optional: bool = False,
    window_fixed: bool = False,
) -> Caches:
    """Most layers keep a window; the last (or first) layer of each period keeps everything.

    `period` None: the file must list the layers. `window_tokens` is used where the file gives none, or always when
    `window_fixed`. `window_optional`: a window of 0, or none in the file, means full attention.
    """
    given = facts.integer(WINDOW, 0 if window_optional else window_tokens)
    if given == 0 and window_optional:
        return full_attention(facts)
    if given == 0:
        raise facts.wrong(WINDOW, given)
    inside = _pattern(facts, period, dense_first=dense_first)
    return _layers(facts, inside, window_tokens if window_fixed else given)


def exaone4(facts: Facts) -> Caches:
    """Only the 64-layer model has windows (src/models/exaone4.cpp)."""
    return windowed(facts, period=4, window_tokens=4096) if facts.layers == 64 else full_attention(facts)


def llama4(facts: Facts) -> Caches:
    """Chunks of 8,192 tokens whatever the file says, unless it says 0 (src/models/llama4.cpp)."""
    if facts.has(WINDOW) and facts.integer(WINDOW) == 0:
        return full_attention(facts)
    inside = _pattern(facts, 4, dense_first=False)
    return _layers(facts, inside, LLAMA4_CHUNK_TOKENS, is_chunked=True)


def gemma3n(facts: Facts) -> Caches:
    """The first 20 layers keep keys and values, the later ones use theirs (src/models/gemma3n.cpp)."""
    return _first(windowed(facts, period=5), GEMMA3N_CACHING_LAYERS)


def gemma4(facts: Facts) -> Caches:
    """The file lists the windows, and how many of the last layers use the cache of earlier ones."""
    shared = facts.integer("attention.shared_kv_layers", 0)
    if shared >= facts.layers:
        raise facts.wrong("attention.shared_kv_layers", shared)
    return _first(windowed(facts, period=None), facts.layers - shared)


def encoder(facts: Facts) -> Caches:
    """Every text is read in one piece: no layer keeps anything."""
    heads_of(facts)
    return Caches(())


def _first(caches: Caches, count: int) -> Caches:
    return Caches(tuple(layer for layer in caches.attention if layer.layer is not None and layer.layer < count))


def _pattern(facts: Facts, period: int | None, *, dense_first: bool) -> tuple[bool, ...]:
    listed = facts.switches(PATTERN)
    if listed is not None:  # layers after the end of the list are full
        return (listed + (False,) * facts.layers)[: facts.layers]
    if period is None:
        raise unreadable(facts.path, f"{PATTERN} of {facts.architecture} does not list its layers")
    period = facts.integer(PATTERN, period)
    if period == 0:
        return (True,) * facts.layers
    full = 0 if dense_first else period - 1
    return tuple(layer % period != full for layer in range(facts.layers))


def _layers(facts: Facts, inside: Sequence[bool], window_tokens: int | None, *, is_chunked: bool = False) -> Caches:
    """Layers without key-value heads cache nothing."""
    heads = heads_of(facts)
    return Caches(
        tuple(
            heads.layer(number, window_tokens, is_chunked=is_chunked) if within else heads.layer(number)
            for number, within in enumerate(inside)
            if heads.kv_heads[number]
        )
    )
