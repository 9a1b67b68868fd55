"""How many layers each of several unequal cards takes, so that all of them hold as many blocks of the cache."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import accumulate

from llmops.core.hardware import Gpu, Hardware
from llmops.core.memory.vllm_budget import card_share
from llmops.core.memory.vllm_groups import Group, block_bytes, groups, stage_layers
from llmops.core.memory.vllm_layers import cache_layers
from llmops.core.memory.vllm_overhead import graphs_inside
from llmops.core.memory.vllm_settings import VllmSettings
from llmops.core.model import ModelSpec

Counts = tuple[int, ...]


def best_partition(hardware: Hardware, model: ModelSpec, settings: VllmSettings) -> Counts:
    """The layers of each stage, or () where none are better than the engine's own even ones.

    Layers move one at a time from the stage with room for the fewest blocks, as long as that makes the fewest more.
    """
    even = stage_layers(model.layers, replace(settings, layer_partition=()))
    rooms = _Rooms(hardware.gpus, model, settings, groups(cache_layers(model, settings), settings))
    best = even
    while True:
        now = rooms.of(best)
        crowded = now.index(min(now))
        moved = [_moved(best, crowded, to) for to in range(len(best)) if to != crowded and best[crowded] > 1]
        # Sorted, so that of two stages with the fewest one may gain before the other.
        found, counts = max(((sorted(rooms.of(counts)), counts) for counts in moved), default=([], best))
        if found <= sorted(now):
            return () if best == even else best
        best = counts


def _moved(counts: Counts, out: int, to: int) -> Counts:
    return tuple(count - (place == out) + (place == to) for place, count in enumerate(counts))


@dataclass
class _Rooms:
    """Blocks that the cards of each stage have room for; a stage with the same layers is asked only once."""

    gpus: tuple[Gpu, ...]
    model: ModelSpec
    settings: VllmSettings
    groups: tuple[Group, ...]
    known: dict[tuple[int, int, int], float] = field(default_factory=dict)

    def of(self, counts: Counts) -> tuple[float, ...]:
        """For each stage its poorest card at the pessimistic end; below 0 where weights do not fit."""
        found = []
        for stage, (end, count) in enumerate(zip(accumulate(counts), counts, strict=True)):
            key = stage, end, count
            if key not in self.known:
                self.known[key] = self._room(stage, counts)
            found.append(self.known[key])
        return tuple(found)

    def _room(self, stage: int, counts: Counts) -> float:
        asked = replace(self.settings, layer_partition=counts)
        ranks = range(stage * asked.tensor_parallel, (stage + 1) * asked.tensor_parallel)
        inside = graphs_inside(asked)
        low = min(card_share(self.gpus[rank], rank, self.model, asked).pool(inside=inside)[0] for rank in ranks)
        size = block_bytes(self.groups, stage, counts) if self.groups else 0
        # Where nothing is cached, the bytes themselves are compared.
        return low / (size or 1)
