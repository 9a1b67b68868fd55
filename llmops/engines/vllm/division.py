"""How a model may be divided among the cards of one machine, or of several that are alike; in which order to try."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from llmops.core.card_links import FAST, kind_among
from llmops.core.hardware import Hardware
from llmops.core.memory.vllm_partition import best_partition
from llmops.core.memory.vllm_settings import VllmSettings
from llmops.core.model import ModelSpec
from llmops.core.plan import Fixed
from llmops.core.problem import Split
from llmops.core.version import Version
from llmops.engines.vllm.divisible import refused_split

_MOST_TENSOR_PARALLEL = 64
# Cards of one machine, at most.
_MOST_CARDS_NAMED = 16
# Cards whose sizes differ by less are alike: drivers keep different amounts for themselves.
_ALIKE = 0.05


@dataclass(frozen=True)
class Division:
    """What divisions are looked for with: the machine, the model, this version and what the user fixed."""

    hardware: Hardware
    model: ModelSpec
    version: Version | None
    fixed: Fixed

    @property
    def cards(self) -> int:
        """The cards of one machine; one where none is known."""
        return max(1, len(self.hardware.gpus))

    @property
    def are_alike(self) -> bool:
        """Whether all cards are of one size, as far as it is known."""
        sizes = [gpu.total_bytes for gpu in self.hardware.gpus if gpu.total_bytes]
        return not sizes or max(sizes) <= (1 + _ALIKE) * min(sizes)

    def is_possible(self, split: Split) -> bool:
        """Whether the server would start with it, and nothing is otherwise than fixed."""
        fixed = self.fixed
        # Who says how many cards share each layer means all of them, but for several machines.
        alone = 1 if fixed.tensor_parallel is not None and (fixed.nodes or 1) == 1 else None
        pairs = (
            (fixed.tensor_parallel, split.tensor_parallel),
            (fixed.pipeline_parallel or alone, split.pipeline_parallel),
            (fixed.data_parallel or alone, split.data_parallel),
        )
        as_fixed = all(wanted in (None, value) for wanted, value in pairs)
        return as_fixed and refused_split(self.model, split, self.version) is None


def splits(asked: Division, settings: VllmSettings) -> tuple[Split, ...]:
    """Divisions to try, fewest cards first; as fixed where anything is. Several machines give all their cards.

    `settings` are what the server would be started with besides, to share layers out among unequal cards.
    """
    fixed = asked.fixed
    if (fixed.nodes or 1) > 1:
        both = fixed.tensor_parallel is not None and fixed.pipeline_parallel is not None
        return (_as_given(fixed),) if both else splits_of_machines(asked)
    found = [split for count in range(1, asked.cards + 1) for split in _of_cards(asked, count)]
    found += _in_stages(asked)
    possible = [one for split in found for one in _with_experts(asked, split)]
    uneven = [replace(split, layer_partition=_partition(asked, split, settings)) for split in possible]
    return tuple(dict.fromkeys(uneven)) or (_as_given(fixed),)


def _as_given(fixed: Fixed) -> Split:
    return Split(
        fixed.tensor_parallel or 1, fixed.pipeline_parallel or 1, fixed.data_parallel or 1, bool(fixed.expert_parallel)
    )


def _of_cards(asked: Division, count: int) -> Iterator[Split]:
    """Divisions over so many cards without stages, in the order of the links between them.

    Cards that NVLink connects share each layer first; over PCIe, or where the link is not known, copies of the model
    come first, which tell each other nothing.
    """
    stages = asked.fixed.pipeline_parallel or 1
    whole, rest = divmod(count, stages)
    if rest:
        return
    if not asked.are_alike and count > 1:
        yield Split(1, count)
    shared = [Split(whole, stages)] if whole <= _MOST_TENSOR_PARALLEL else []
    copies = [Split(size, stages, whole // size) for size in range(1, whole) if whole % size == 0]
    if not _copies_by_itself(asked):
        copies = [split for split in copies if split.data_parallel == asked.fixed.data_parallel]
    fast = kind_among(asked.hardware, asked.hardware.gpus[:count]) in FAST
    yield from (*shared, *copies) if fast else (*copies, *shared)


def _copies_by_itself(asked: Division) -> bool:
    """Whether copies are chosen without being asked for: of dense models on equal cards, where each is a server alone.

    Copies of a model with experts share those and wait for each other at each of their layers.
    """
    fixed = asked.fixed
    given = any((fixed.data_parallel, fixed.tensor_parallel, fixed.pipeline_parallel))
    return not given and not asked.model.experts and asked.are_alike


def _in_stages(asked: Division) -> Iterator[Split]:
    """Cards that the heads cannot be divided among take whole layers."""
    if asked.fixed.pipeline_parallel is not None:
        return
    copies = asked.fixed.data_parallel or 1
    for size in range(asked.cards, 0, -1):
        if asked.cards // size // copies > 1:
            yield Split(size, asked.cards // size // copies, copies)


def _with_experts(asked: Division, split: Split) -> Iterator[Split]:
    """With whole experts where that is asked for, or where their parts could not be divided."""
    whole = replace(split, expert_parallel=True)
    wanted = asked.fixed.expert_parallel
    if wanted is not True and asked.is_possible(split):
        yield split
    elif wanted is not False and asked.model.experts and (wanted or split.cards > 1) and asked.is_possible(whole):
        yield whole


def _partition(asked: Division, split: Split, settings: VllmSettings) -> tuple[int, ...]:
    """Layers of each stage where stages lie on unequal cards; () leaves it to the engine."""
    hardware = asked.hardware
    if split.pipeline_parallel == 1 or split.data_parallel > 1 or asked.are_alike or split.cards > len(hardware.gpus):
        return ()
    divided = replace(
        settings,
        tensor_parallel=split.tensor_parallel,
        pipeline_parallel=split.pipeline_parallel,
        expert_parallel=split.expert_parallel,
    )
    return best_partition(hardware, asked.model, divided)


def splits_of_machines(asked: Division) -> tuple[Split, ...]:
    """Divisions over all cards of machines that are alike: layers divided within each machine where that can be.

    Ranks are counted through machine by machine (vllm/v1/executor/multiproc_executor.py), so a group of cards that
    share their layers lies within one machine if its size divides the cards of one.
    """
    cards, nodes = asked.cards, asked.fixed.nodes or 1
    within = [size for size in range(cards, 0, -1) if cards % size == 0]
    across = [cards * times for times in range(2, nodes + 1) if nodes % times == 0]
    found = (Split(size, cards * nodes // size) for size in (*within, *across))
    return tuple(one for split in found for one in _with_experts(asked, split))


def larger_splits(asked: Division) -> tuple[Split, ...]:
    """Divisions that need more cards of the same kind; none where the user fixed one, or the cards differ.

    Nor for an instance of a divided card, of which a process is given only one.
    """
    hardware, fixed = asked.hardware, asked.fixed
    kinds = {(gpu.name, gpu.total_bytes, gpu.kind) for gpu in hardware.gpus}
    alike = len(kinds) == 1 and hardware.gpus[0].kind != "instance"
    if not alike or any((fixed.tensor_parallel, fixed.pipeline_parallel, fixed.data_parallel, fixed.nodes)):
        return ()
    sizes = range(len(hardware.gpus) + 1, _MOST_CARDS_NAMED + 1)
    return tuple(one for size in sizes for one in _with_experts(asked, Split(size)))
