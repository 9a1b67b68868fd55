"""How many layers each of several unequal cards takes, so that all of them hold as many blocks of the cache."""

from __future__ import annotations

from dataclasses import replace
from math import inf

from llmops.core.hardware import Hardware
from llmops.core.memory.vllm_budget import card_facts, card_shares
from llmops.core.memory.vllm_cache import cache_layout
from llmops.core.memory.vllm_groups import stage_layers
from llmops.core.memory.vllm_overhead import graphs_inside
from llmops.core.memory.vllm_settings import VllmSettings
from llmops.core.model import ModelSpec


def best_partition(hardware: Hardware, model: ModelSpec, settings: VllmSettings) -> tuple[int, ...]:
    """The layers of each stage, or () where none are better than the engine's own even ones.

    Layers move one at a time from the stage with room for the fewest blocks, as long as that makes the fewest more.
    """
    even = stage_layers(model.layers, replace(settings, layer_partition=()))
    best = even
    while True:
        rooms = _rooms(hardware, model, settings, best)
        crowded = rooms.index(min(rooms))
        moved = [_moved(best, crowded, to) for to in range(len(best)) if to != crowded and best[crowded] > 1]
        # Sorted, so that of two stages with the fewest one may gain before the other.
        better = [(sorted(_rooms(hardware, model, settings, counts)), counts) for counts in moved]
        found, counts = max(better, default=([], best))
        if found <= sorted(rooms):
            return () if best == even else best
        best = counts


def _moved(counts: tuple[int, ...], out: int, to: int) -> tuple[int, ...]:
    return tuple(count - (place == out) + (place == to) for place, count in enumerate(counts))


def _rooms(hardware: Hardware, model: ModelSpec, settings: VllmSettings, counts: tuple[int, ...]) -> tuple[float, ...]:
    """Blocks that the poorest card of each stage has room for at the pessimistic end; below 0 if weights do not fit.

    Where nothing is cached, bytes stand for blocks.
    """
    asked = replace(settings, layer_partition=counts)
    shares = card_shares(hardware, model, asked)
    layout = cache_layout(model, asked, card_facts(shares[0].gpu))
    inside = graphs_inside(asked)
    rooms = [inf] * len(counts)
    for share in shares:
        low = share.pool(inside=inside)[0]
        size = layout.stage_block_bytes[share.stage] if layout.stage_block_bytes else 0
        rooms[share.stage] = min(rooms[share.stage], low / (size or 1))
    return tuple(rooms)
