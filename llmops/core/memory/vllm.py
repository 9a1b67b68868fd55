"""The memory of a vLLM server in one call: the host's budget, then one for each card, or the host's alone."""

from __future__ import annotations

from dataclasses import replace
from math import ceil

from llmops.core.errors import UnreadableInput
from llmops.core.hardware import Hardware
from llmops.core.memory.budget import MemoryBudget
from llmops.core.memory.ggml_runtime import host_reserve_bytes
from llmops.core.memory.vllm_budget import budgets_of_cards
from llmops.core.memory.vllm_cache import (
    bytes_for_requests,
    cache_layout,
    figures_of_blocks,
)
from llmops.core.memory.vllm_defaults import CardFacts, batch, longest_request, utilization
from llmops.core.memory.vllm_facts import CPU_POOL
from llmops.core.memory.vllm_overhead import step_token_bytes
from llmops.core.memory.vllm_settings import VllmSettings
from llmops.core.memory.vllm_weights import Span, card_weights
from llmops.core.model import ModelSpec
from llmops.core.units import GIB, MIB

# Resident memory of the server's processes without weights and cache, measured on 0.32.0 without a card: API server
# 643 MB, EngineCore 603 MB, each worker 700 MB with 6 MB of weights.
SERVER_BYTES = (1_150 * MIB, 1_400 * MIB)
WORKER_BYTES = (550 * MIB, 900 * MIB)
# A worker with a card also maps its driver and libraries: from their sizes, not measured.
CARD_WORKER_BYTES = (1 * GIB, 4 * GIB)


def budgets(hardware: Hardware, model: ModelSpec, settings: VllmSettings) -> tuple[MemoryBudget, ...]:
    """The host's budget, then one for each card; raise UnreadableInput where a memory size is unknown.

    Also raise UnknownArchitecture where no rule covers the cache, UsageError where the cards do not divide the model.
    Cards that share the host's memory are part of the host's budget.
    """
    if settings.device == "cpu":
        return (_processor_budget(hardware, model, settings),)
    cards = budgets_of_cards(hardware, model, settings)
    each = -(-len(cards) // settings.nodes)
    machines = [cards[first : first + each] for first in range(0, len(cards), each)]
    # One row for the hosts, which are alike: that of the machine whose stages take the most of it.
    hosts = [_host_budget(hardware, settings, len(rows), _shared(hardware, rows)) for rows in machines]
    own = tuple(card for rows in machines for card in rows if card not in _shared(hardware, rows))
    return (min(hosts, key=lambda host: host.free_bytes), *own)


def _shared(hardware: Hardware, cards: tuple[MemoryBudget, ...]) -> tuple[MemoryBudget, ...]:
    """The budgets of one machine's cards that have the host's memory."""
    return tuple(card for card, gpu in zip(cards, hardware.gpus, strict=False) if gpu.unified)


def server_bytes(engines: int) -> tuple[int, int]:
    """The processes beside the workers: a core for each engine, and an API server for each or one for all of them.

    Measured on 0.32.0 with two engines and one API server: 3.19 GiB with both workers.
    """
    return SERVER_BYTES[0] * (engines + 1) // 2, SERVER_BYTES[1] * engines


def _usable(hardware: Hardware) -> int:
    usable = hardware.memory.usable_bytes
    if usable is None:
        raise UnreadableInput(
            "the memory of this machine is unknown", hint="give it with --ram and --ram-available, such as 8GiB"
        )
    return usable


def _host_budget(
    hardware: Hardware, settings: VllmSettings, workers: int, shared: tuple[MemoryBudget, ...]
) -> MemoryBudget:
    usable, servers = _usable(hardware), server_bytes(-(-workers // settings.world))
    low, high = (servers[end] + workers * CARD_WORKER_BYTES[end] for end in range(2))
    why = f"the server's processes and {workers} with a card's driver; not measured on a machine with cards"
    host = MemoryBudget(
        device="host",
        total_bytes=hardware.memory.total_bytes or usable,
        available_bytes=usable,
        runtime_bytes=high,
        reserve_bytes=host_reserve_bytes(hardware.memory),
        ranges=(("runtime_bytes", low, high, why),),
    )
    for card in shared:
        host = _together(host, card)
    return host


def _together(host: MemoryBudget, card: MemoryBudget) -> MemoryBudget:
    """The host with a card that shares its memory: its parts, ranges and cache."""
    ranges = {name: (low, high, why) for name, low, high, why in host.ranges}
    for name, low, high, why in card.ranges:
        before = ranges.get(name, (0, 0, why))
        ranges[name] = (before[0] + low, before[1] + high, why)
    return replace(
        host,
        weights_bytes=host.weights_bytes + card.weights_bytes,
        cache_bytes=host.cache_bytes + card.cache_bytes,
        compute_bytes=host.compute_bytes + card.compute_bytes,
        runtime_bytes=host.runtime_bytes + card.runtime_bytes,
        ranges=tuple((name, low, high, why) for name, (low, high, why) in ranges.items()),
        cache_tokens=card.cache_tokens,
        usable_cache_tokens=card.usable_cache_tokens,
        max_concurrency=card.max_concurrency,
        needed_cache_bytes=card.needed_cache_bytes,
        request_cache_bytes=card.request_cache_bytes,
    )


def _processor_budget(hardware: Hardware, model: ModelSpec, settings: VllmSettings) -> MemoryBudget:
    """A server without cards: weights, cache and processes all in the host's memory."""
    usable = _usable(hardware)
    total = hardware.memory.total_bytes or usable
    ranks = settings.ranks
    rows = [card_weights(model, settings, rank) for rank in range(ranks)]
    weights: Span = (sum(row[0] for row in rows), sum(row[1] for row in rows), rows[0][2])
    servers = server_bytes(settings.data_parallel)
    runtime = tuple(servers[end] + ranks * WORKER_BYTES[end] for end in range(2))
    limits = batch(model, settings, CardFacts())
    step = limits.tokens * step_token_bytes(model, settings) * ranks
    worker = (weights[0] + ranks * WORKER_BYTES[0], weights[1] + ranks * WORKER_BYTES[1] + step)
    low, high = _processor_pool(settings, total, worker, ranks)
    layout, longest = cache_layout(model, settings), longest_request(model, settings)
    size = layout.largest_block_bytes
    figures = figures_of_blocks(layout, settings, max(low, 0) // ranks // size if size else 1, longest)
    return MemoryBudget(
        device="host",
        total_bytes=total,
        available_bytes=usable,
        weights_bytes=weights[1],
        # All that is allocated at once, beside the other parts at their high ends: together they are the share.
        cache_bytes=max(low, 0 if figures.starts else figures.needed_bytes * ranks),
        compute_bytes=step,
        runtime_bytes=runtime[1],
        reserve_bytes=host_reserve_bytes(hardware.memory),
        ranges=(
            ("weights_bytes", *weights),
            ("compute_bytes", 0, step, "temporaries of one step, freed after it"),
            ("runtime_bytes", runtime[0], runtime[1], "the server's processes; measured on 0.32.0"),
            *((("cache_bytes", low, high, "what is left of the engine's share of memory"),) if low < high else ()),
        ),
        cache_tokens=figures.tokens,
        usable_cache_tokens=figures.usable_tokens,
        max_concurrency=round(figures.max_concurrency, 4),
        needed_cache_bytes=bytes_for_requests(layout, limits.requests, longest) * ranks,
        request_cache_bytes=bytes_for_requests(layout, 1, longest) * ranks,
    )


def _processor_pool(settings: VllmSettings, total: int, worker: tuple[int, int], ranks: int) -> tuple[int, int]:
    """Bytes of cache over all ranks, low and high end: given, or by that version's rule."""
    fixed = settings.kv_memory_bytes if settings.kv_memory_bytes is not None else settings.available_cache_bytes
    if fixed is not None:
        return fixed * ranks, fixed * ranks
    rule, amount = CPU_POOL.at(settings.version)
    if rule == "bytes":
        return int(amount * GIB) * ranks, int(amount * GIB) * ranks
    if rule == "share_of_total":
        return int(total * amount), int(total * amount)
    share = amount if settings.gpu_memory_utilization is None else utilization(settings)
    requested = ceil(total * share)
    return requested - worker[1], requested - worker[0]
