"""The memory of a vLLM server: one budget for the host and one for each card; the cache gets what is left of a share.

requested = seen by the engine * utilization; cache = requested - weights - profiled step - libraries - graphs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from llmops.core.errors import UsageError
from llmops.core.hardware import Gpu, Hardware
from llmops.core.memory.budget import MemoryBudget
from llmops.core.memory.ggml import card_free_bytes
from llmops.core.memory.vllm_cache import CacheFigures, CacheLayout, bytes_for_requests, cache_layout, figures_of_blocks
from llmops.core.memory.vllm_defaults import CardFacts, batch, longest_request, utilization
from llmops.core.memory.vllm_overhead import CAPTURE_MARGIN_BYTES, activation, graphs, graphs_inside, libraries
from llmops.core.memory.vllm_settings import VllmSettings
from llmops.core.memory.vllm_weights import Span, card_weights
from llmops.core.model import ModelSpec
from llmops.core.units import MIB

# A driver shows more memory than programs see: 318 to 606 MiB more on eight kinds of NVIDIA cards, nothing under WSL 2,
# 1 to 317 MiB on AMD's MI300X; for Intel's cards no figure was found and much is taken off.
HIDDEN_BYTES = {"cuda": (0, 620 * MIB), "rocm": (0, 320 * MIB), "xpu": (0, 1_536 * MIB)}
UNKNOWN_CARD = "any card"
SEEN_REASON = "at least what the server that runs here made, less what a step and graphs may take more at this start"
POOL_REASON = "what is left of the requested share after the other parts, each at its own end"


@dataclass(frozen=True)
class CardShare:
    """What one card's share is made of; each part as low end, high end and reason."""

    gpu: Gpu
    stage: int
    requested: tuple[int, int]
    weights: Span
    activation: Span
    libraries: Span
    graphs: Span
    requests: int
    least_pool_bytes: int | None = None

    def beside(self, pool_bytes: int, *, inside: bool) -> CardShare:
        """The share of which the cache gets at least so much: its parts' high ends together leave that.

        As it is where so much cannot be: then another server than this one was seen.
        """
        parts = (self.weights, self.activation, self.libraries, *((self.graphs,) if inside else ()))
        least = pool_bytes + sum(low for low, _, _ in parts)
        if least > self.requested[1]:
            return self
        requested = max(self.requested[0], least)
        weights, step, rest, *captured = _bounded(parts, requested - least)
        return replace(
            self,
            requested=(requested, self.requested[1]),
            weights=weights,
            activation=step,
            libraries=rest,
            graphs=captured[0] if captured else self.graphs,
            least_pool_bytes=pool_bytes,
        )

    def pool(self, *, inside: bool) -> tuple[int, int]:
        """Low and high end of what the cache gets; `inside` says whether graphs are taken off it."""
        parts = (self.weights, self.activation, self.libraries, *((self.graphs,) if inside else ()))
        low = self.requested[0] - sum(high for _, high, _ in parts)
        high = self.requested[1] - sum(low for low, _, _ in parts)
        return (low if self.least_pool_bytes is None else self.least_pool_bytes), high


def _bounded(parts: tuple[Span, ...], over: int) -> Iterator[Span]:
    """The parts with high ends that together lie no more than `over` above the low ones, shared out in their order."""
    for low, high, why in parts:
        most = min(high - low, over)
        yield low, low + most, why
        over -= most


@dataclass(frozen=True)
class Pool:
    """The cache of all cards of one engine: its layout and what the smallest and the largest pools hold."""

    layout: CacheLayout
    low: CacheFigures
    high: CacheFigures
    longest_request: int


def budgets_of_cards(hardware: Hardware, model: ModelSpec, settings: VllmSettings) -> tuple[MemoryBudget, ...]:
    """One budget for each card that the machines give to the server; UsageError where there is none."""
    shares = card_shares(hardware, model, settings)
    found: list[MemoryBudget] = []
    for first in range(0, len(shares), settings.world):
        # Each of several engines has a pool of its own.
        engine = _as_seen(shares[first : first + settings.world], model, settings)
        pool = pool_of(model, settings, engine)
        found += [_card_budget(share, settings, pool) for share in engine]
    return tuple(found)


def _as_seen(shares: tuple[CardShare, ...], model: ModelSpec, settings: VllmSettings) -> tuple[CardShare, ...]:
    """The shares with what a running server's pool says of theirs, which another start may make smaller or larger."""
    seen = settings.seen
    if seen is None:
        return shares
    then = settings.with_limits_of(seen)
    each, inside = cache_layout(model, settings, card_facts(shares[0].gpu)).stage_block_bytes, graphs_inside(settings)
    found = []
    for rank, share in enumerate(shares):
        there, made = card_share(share.gpu, rank, model, then), seen.blocks * each[share.stage]
        # A step takes more at a start for which nothing is compiled yet: 1.09 GiB instead of 0.15 in published logs.
        more = share.activation[1] - there.activation[0] + CAPTURE_MARGIN_BYTES
        more += max(share.graphs[1] - there.graphs[1], 0) if inside else 0
        low, _ = share.pool(inside=inside)
        found.append(share.beside(made - more, inside=inside) if made - more > low or made < low else share)
    return tuple(found)


def card_shares(hardware: Hardware, model: ModelSpec, settings: VllmSettings) -> tuple[CardShare, ...]:
    """The cards in the order of their ranks; other machines are like this one, and their cards numbered on."""
    gpus = cards_of_machines(_cards(hardware, settings), settings.nodes)[: settings.ranks]
    return tuple(card_share(gpu, rank, model, settings) for rank, gpu in enumerate(gpus))


def cards_of_machines(gpus: tuple[Gpu, ...], nodes: int) -> tuple[Gpu, ...]:
    """These cards once for each machine; those of the others have numbers of their own."""
    step = max((gpu.index for gpu in gpus), default=-1) + 1
    return tuple(replace(gpu, index=gpu.index + node * step) for node in range(nodes) for gpu in gpus)


def _cards(hardware: Hardware, settings: VllmSettings) -> tuple[Gpu, ...]:
    """The machine's cards; a cache of a given size can be counted without knowing one."""
    if hardware.gpus:
        return hardware.gpus
    if settings.kv_memory_bytes is None and settings.available_cache_bytes is None:
        raise UsageError("this machine has no graphics card that vLLM could use", hint="give one with --gpu NAME:TOTAL")
    return (Gpu(index=0, uuid=None, name=UNKNOWN_CARD, total_bytes=0, free_bytes=0),)


def card_facts(gpu: Gpu) -> CardFacts:
    """What of a card decides defaults; of an unknown size what is free, and UnreadableInput where neither is known."""
    return CardFacts(_total(gpu), gpu.name, gpu.compute_capability)


def _total(gpu: Gpu) -> int:
    return gpu.total_bytes if gpu.total_bytes is not None else card_free_bytes(gpu)


def card_share(gpu: Gpu, rank: int, model: ModelSpec, settings: VllmSettings) -> CardShare:
    """What the card of one rank is asked for; UnreadableInput where its size is not known."""
    card = card_facts(gpu)
    step = batch(model, settings, card)
    least, most = (0, 0) if gpu.unified else HIDDEN_BYTES.get(settings.device, (0, 0))
    part = utilization(settings)
    return CardShare(
        gpu,
        settings.stage(rank),
        (max(int((_total(gpu) - most) * part), 0), max(int((_total(gpu) - least) * part), 0)),
        card_weights(model, settings, rank),
        activation(model, settings, step, card),
        libraries(model, settings, unified=gpu.unified),
        graphs(model, settings, step, settings.stage(rank)),
        step.requests,
    )


def pool_of(model: ModelSpec, settings: VllmSettings, shares: tuple[CardShare, ...]) -> Pool:
    """The blocks of one engine: the least that any of its cards holds."""
    layout = cache_layout(model, settings, card_facts(shares[0].gpu))
    longest = longest_request(model, settings)
    ends = [_pool_bytes(share, settings) for share in shares]
    low, high = (
        min(_blocks(layout, share.stage, ends[position][end]) for position, share in enumerate(shares))
        for end in range(2)
    )
    return Pool(
        layout,
        figures_of_blocks(layout, settings, low, longest),
        figures_of_blocks(layout, settings, high, longest),
        longest,
    )


def _blocks(layout: CacheLayout, stage: int, size: int) -> int:
    each = layout.stage_block_bytes[stage] if layout.stage_block_bytes else 0
    return max(size, 0) // each if each else 1


def _pool_bytes(share: CardShare, settings: VllmSettings) -> tuple[int, int]:
    fixed = settings.kv_memory_bytes if settings.kv_memory_bytes is not None else settings.available_cache_bytes
    return (fixed, fixed) if fixed is not None else share.pool(inside=graphs_inside(settings))


def _card_budget(share: CardShare, settings: VllmSettings, pool: Pool) -> MemoryBudget:
    """One card at the pessimistic end; what cannot start has less than nothing free."""
    low, high = _pool_bytes(share, settings)
    # A pool too small for one request ends the engine: the budget shows how much is missing.
    cache = max(low, 0 if pool.low.starts else pool.low.needed_bytes)
    runtime = (share.libraries[0] + share.graphs[0], share.libraries[1] + share.graphs[1])
    budget = MemoryBudget(
        device=f"gpu{share.gpu.index}",
        total_bytes=_total(share.gpu),
        available_bytes=card_free_bytes(share.gpu),
        weights_bytes=share.weights[1],
        cache_bytes=cache,
        compute_bytes=share.activation[1],
        runtime_bytes=runtime[1],
        reserve_bytes=_reserve(share, settings) if pool.low.starts else _not_asked_for(share, settings, low),
        ranges=(
            ("weights_bytes", *share.weights),
            ("compute_bytes", *share.activation),
            ("runtime_bytes", *runtime, f"{share.libraries[2]}; {share.graphs[2]}"),
            *((("cache_bytes", low, high, _pool_reason(share)),) if low < high else ()),
        ),
        cache_tokens=pool.low.tokens,
        usable_cache_tokens=pool.low.usable_tokens,
        max_concurrency=round(pool.low.max_concurrency, 4),
        needed_cache_bytes=bytes_for_requests(pool.layout, share.requests, pool.longest_request, share.stage),
        request_cache_bytes=bytes_for_requests(pool.layout, 1, pool.longest_request, share.stage),
    )
    if share.gpu.name != UNKNOWN_CARD:
        return budget
    return replace(budget, total_bytes=budget.used_bytes, available_bytes=budget.used_bytes)


def _pool_reason(share: CardShare) -> str:
    return POOL_REASON if share.least_pool_bytes is None else SEEN_REASON


def _reserve(share: CardShare, settings: VllmSettings) -> int:
    """What must stay free beside the share: the engine checks the whole of it, and graphs may outgrow their estimate.

    With a fixed cache there is no share, and the graphs are counted as they are.
    """
    if settings.kv_memory_bytes is not None:
        return CAPTURE_MARGIN_BYTES if share.graphs[1] else 0
    beyond = share.graphs[1] + CAPTURE_MARGIN_BYTES if share.graphs[1] else 0
    counted = 0 if graphs_inside(settings) else share.graphs[1]
    return max(beyond - counted, 0) + share.requested[1] - share.requested[0]


def _not_asked_for(share: CardShare, settings: VllmSettings, low: int) -> int:
    """What must stay free where the cache is too small for one request: all of the card that the engine leaves alone.

    More of it than is needed beside the share is no help, so that what is missing is what the cache lacks.
    """
    if settings.kv_memory_bytes is not None or settings.available_cache_bytes is not None:
        return _reserve(share, settings)
    taken = share.weights[1] + share.activation[1] + share.libraries[1] + share.graphs[1] + low
    return max(_reserve(share, settings), card_free_bytes(share.gpu) - taken)
