"""On which cards Ollama puts a model: one that holds all of it, else all of them."""

from __future__ import annotations

from dataclasses import dataclass, replace

from llmops.core.layer_weights import layer_weights
from llmops.core.memory.ggml_settings import GgmlSettings
from llmops.core.memory.ggml_weights import HOST, Placement, place_layers
from llmops.core.memory.ollama_runner import (
    estimated_graph_bytes,
    first_layer_bytes,
    layer_cache_estimates,
    required_bytes,
    reserve_bytes,
)
from llmops.core.model import ModelSpec

# server/sched.go from 0.30: a model goes to one card where its own prediction is at most so much of what is free.
SINGLE_CARD_SHARE = 0.8


def one_card_since_llama_server(model: ModelSpec, settings: GgmlSettings, free_bytes: tuple[int, ...]) -> int | None:
    """The card that a model goes to alone from 0.30 on; None where llama-server divides it over all.

    llm/llama_server.go, PredictServerVRAM: the file, and a 16-bit cache of every layer without windows.
    """
    least = min((layer.kv_heads for layer in model.attention_layers), default=1) or 1
    length = model.embedding_length // max(1, model.attention_heads)
    tokens = settings.slots * settings.context_tokens_per_slot
    predicted = model.file_bytes + 2 * model.layers * least * length * tokens * 2
    most = max(range(len(free_bytes)), key=lambda card: free_bytes[card])
    return most if predicted <= free_bytes[most] * SINGLE_CARD_SHARE else None


@dataclass(frozen=True)
class _Card:
    number: int
    free_bytes: int
    used_bytes: int


def place(model: ModelSpec, settings: GgmlSettings, free_bytes: tuple[int, ...], *, by_turns: bool) -> Placement:
    """Where layers go up to 0.24 by Ollama's own estimate.

    Where they do not fit, all of them count on the cards: Ollama would leave some to the processor, a plan never does.
    """
    everything = required_bytes(model, settings, 1)
    fitting = [card for card, free in enumerate(free_bytes) if free >= everything]
    if fitting:
        best = max(fitting, key=lambda card: free_bytes[card])
        return Placement((best,) * model.layers, best)
    turns = _by_turns(model, settings, free_bytes) if by_turns else None
    if turns is not None:
        return turns
    beside = reserve_bytes(model, settings) + max(estimated_graph_bytes(model, settings))
    room = tuple(max(0, free - beside) for free in free_bytes)
    return place_layers(model.layers, None, room if any(room) else free_bytes)


def _by_turns(model: ModelSpec, settings: GgmlSettings, free_bytes: tuple[int, ...]) -> Placement | None:
    """From the last layer to the first, each to the next card that still has room (llm/memory.go); None without."""
    graph = max(estimated_graph_bytes(model, settings))
    buffer = first_layer_bytes(model, settings)
    start = graph + reserve_bytes(model, settings)
    cards = [_Card(number, free, start) for number, free in enumerate(free_bytes) if free >= start + buffer]
    sizes = [
        size + cache
        for (size, _), cache in zip(layer_weights(model), layer_cache_estimates(model, settings), strict=True)
    ]
    homes = [HOST] * model.layers
    for layer in reversed(range(model.layers)):
        cards = [card for card in cards if card.free_bytes > card.used_bytes + sizes[layer]]
        if not cards:
            return None
        turn = layer % len(cards)
        cards[turn] = replace(cards[turn], used_bytes=cards[turn].used_bytes + sizes[layer])
        homes[layer] = cards[turn].number
    return Placement(tuple(homes), cards[model.layers % len(cards)].number)
