"""The paged cache of vLLM: blocks in the memory it gets, tokens and concurrency as printed, what one request needs."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from llmops.core.memory.vllm_defaults import CardFacts, in_flight_tokens, longest_request
from llmops.core.memory.vllm_facts import CHECKED_NULL_BLOCKS, CHECKS_ALL_STAGES, NEEDED, TOKENS_BY_CONCURRENCY
from llmops.core.memory.vllm_groups import Group, block_bytes, groups, stage_layers
from llmops.core.memory.vllm_layers import cache_layers
from llmops.core.memory.vllm_pages import CacheLayer
from llmops.core.memory.vllm_settings import VllmSettings
from llmops.core.model import ModelSpec


@dataclass(frozen=True)
class CacheLayout:
    """How one model's cache is laid out: groups, the bytes of a block on each pipeline stage, tokens in flight."""

    groups: tuple[Group, ...]
    stage_block_bytes: tuple[int, ...]
    in_flight_tokens: int
    layers: tuple[CacheLayer, ...]

    @property
    def attention_block_tokens(self) -> int | None:
        """Tokens of a block of the full attention layers, as the engine prints them where states enlarge it."""
        return next((one.first.block_tokens for one in self.groups if one.first.kind in {"full", "latent"}), None)

    @property
    def largest_block_bytes(self) -> int:
        """Bytes of a block on the stage that keeps most of it: the one that limits all."""
        return max(self.stage_block_bytes, default=0)


@dataclass(frozen=True)
class CacheFigures:
    """What the engine says of its cache, and what it means.

    `tokens` and `max_concurrency` are the figures of its log; requests can use `usable_tokens`, since one block is
    never given out. `needed_bytes` is for one request of the longest length, `longest_request_tokens` the longest one
    that would fit; `starts` whether the engine takes the memory for enough.
    """

    blocks: int
    tokens: int
    usable_tokens: int
    max_concurrency: float
    needed_bytes: int
    longest_request_tokens: int
    starts: bool


def cache_layout(model: ModelSpec, settings: VllmSettings, card: CardFacts | None = None) -> CacheLayout:
    """The layout on one card of each stage; raise UnknownArchitecture or UsageError where no rule covers it."""
    layers = cache_layers(model, settings)
    found = groups(layers, settings)
    counts = stage_layers(model.layers, settings)
    sizes = tuple(block_bytes(found, stage, counts) for stage in range(len(counts))) if found else ()
    return CacheLayout(found, sizes, in_flight_tokens(model, settings, card or CardFacts()), layers)


def cache_figures(
    model: ModelSpec, settings: VllmSettings, available_bytes: int, card: CardFacts | None = None
) -> CacheFigures:
    """What a card's cache of `available_bytes` holds; with several stages each has that much."""
    layout = cache_layout(model, settings, card)
    longest = longest_request(model, settings)
    size = layout.largest_block_bytes
    return figures_of_blocks(layout, settings, max(available_bytes, 0) // size if size else 1, longest)


def figures_of_blocks(layout: CacheLayout, settings: VllmSettings, blocks: int, longest: int) -> CacheFigures:
    """What so many blocks hold for requests of up to `longest` tokens."""
    each = request_blocks(layout, longest)
    usable = max(blocks - 1, 0)
    available = blocks * layout.largest_block_bytes
    # One block is never given out; the check at the start knows that only since some version.
    checked = available - CHECKED_NULL_BLOCKS.at(settings.version) * layout.largest_block_bytes
    needed = needed_bytes(layout, settings, longest)
    return CacheFigures(
        blocks,
        _printed_tokens(layout, settings, blocks, longest),
        _printed_tokens(layout, settings, usable, longest),
        blocks / each if each else inf,
        needed,
        longest_fitting_tokens(layout, settings, available, longest),
        blocks > 0 and needed <= checked,
    )


def blocks_of(layer: CacheLayer, tokens: int, in_flight: int) -> int:
    """Blocks that a request of that many tokens takes at most in one layer (max_memory_usage_bytes)."""
    if layer.kind == "state":
        return layer.state_blocks
    if layer.kind == "states":
        return -(-tokens // layer.block_tokens) + layer.state_blocks
    window = layer.window_tokens or 0
    if layer.kind == "window":
        # One more: a window need not begin where a block begins.
        return -(-min(window - 1 + in_flight, tokens) // layer.block_tokens) + 1
    if layer.kind == "chunked":
        return -(-min(window + in_flight, tokens) // layer.block_tokens)
    return -(-tokens // layer.block_tokens)


def request_blocks(layout: CacheLayout, tokens: int) -> int:
    """Blocks of the pool that one request takes over all groups."""
    return sum(blocks_of(group.first, tokens, layout.in_flight_tokens) for group in layout.groups)


def _printed_tokens(layout: CacheLayout, settings: VllmSettings, blocks: int, longest: int) -> int:
    if not layout.groups:
        return 0
    if TOKENS_BY_CONCURRENCY.at(settings.version):
        return int(blocks / request_blocks(layout, longest) * longest)
    smallest = min(group.first.block_tokens for group in layout.groups)
    return blocks // len(layout.groups) * smallest


def needed_bytes(layout: CacheLayout, settings: VllmSettings, tokens: int) -> int:
    """Bytes for one request of that many tokens on the fullest card, as that version's check counts them.

    Some versions compare the layers of all pipeline stages with one card's memory.
    """
    if not layout.groups:
        return 0
    rule = NEEDED.at(settings.version)
    in_flight = layout.in_flight_tokens
    block = layout.largest_block_bytes
    if CHECKS_ALL_STAGES.at(settings.version):
        block = max(group.page_bytes for group in layout.groups)
    if rule == "layers":
        whole = sum(blocks_of(layer, tokens, in_flight) * layer.page_bytes for layer in layout.layers)
        return whole * layout.largest_block_bytes // sum(layout.stage_block_bytes)
    first = blocks_of(layout.groups[0].first, tokens, in_flight)
    blocks = first if rule == "first_group" else request_blocks(layout, tokens)
    return blocks * block


def longest_fitting_tokens(layout: CacheLayout, settings: VllmSettings, available_bytes: int, most: int) -> int:
    """The longest request up to `most` tokens that fits, by bisection as the engine does; 0 where none does."""
    room = available_bytes - CHECKED_NULL_BLOCKS.at(settings.version) * layout.largest_block_bytes
    low, high = 0, most
    while low < high:
        middle = (low + high + 1) // 2
        if needed_bytes(layout, settings, middle) <= room:
            low = middle
        else:
            high = middle - 1
    return low


def bytes_for_requests(layout: CacheLayout, requests: int, tokens: int, stage: int | None = None) -> int:
    """Bytes of cache on a card of a stage (None: the fullest) so that so many full requests run and none is put back.

    The block that is never given out is among them.
    """
    if not layout.groups:
        return 0
    size = layout.largest_block_bytes if stage is None else layout.stage_block_bytes[stage]
    return (requests * request_blocks(layout, tokens) + 1) * size
