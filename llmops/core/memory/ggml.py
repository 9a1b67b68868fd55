"""The memory of a ggml server (llama-server, Ollama's runner): one budget for the host and one for each card."""

from __future__ import annotations

from dataclasses import dataclass, replace

from llmops.core.errors import UnreadableInput
from llmops.core.hardware import Gpu, Hardware
from llmops.core.memory.budget import MemoryBudget
from llmops.core.memory.ggml_cache import cache_beside_bytes, checkpoints_bytes, layer_cache_bytes
from llmops.core.memory.ggml_compute import compute_bytes, input_bytes, misplaced_bytes, output_bytes
from llmops.core.memory.ggml_copies import card_range
from llmops.core.memory.ggml_runtime import (
    ENCODER_REASON,
    FIT_MARGIN_BYTES,
    NO_COMPUTE,
    Range,
    compute_range,
    device_context_range,
    host_reserve_bytes,
    process_range,
)
from llmops.core.memory.ggml_settings import GgmlSettings
from llmops.core.memory.ggml_state import layer_state_bytes
from llmops.core.memory.ggml_weights import (
    HOST,
    Placement,
    device_weights,
    doubled_output_bytes,
    encoder_device,
    place_layers,
    role_bytes,
)
from llmops.core.model import ModelSpec
from llmops.core.version import Version


@dataclass(frozen=True)
class Demand:
    """What is to be served, how, by which build, and where its layers lie."""

    model: ModelSpec
    settings: GgmlSettings
    build: Version | None
    placement: Placement


def budgets(
    hardware: Hardware,
    model: ModelSpec,
    settings: GgmlSettings,
    build: Version | None = None,
    placement: Placement | None = None,
) -> tuple[MemoryBudget, ...]:
    """The host's budget, then one for each card that is used; raise UnreadableInput where a memory size is unknown.

    Cards that share the host's memory are part of the host's budget. `placement` is the engine's own where it does not
    divide by free memory.
    """
    used = cards_used(hardware, settings)
    free = tuple(card_free_bytes(gpu) for gpu in used)
    demand = Demand(model, settings, build, placement or placed(model, settings, free))
    cards = card_budgets(used, demand)
    shared = tuple(budget for gpu, budget in cards if gpu.unified)
    own = tuple(budget for gpu, budget in cards if not gpu.unified)
    held = sum(gpu.held_by_engine_bytes for gpu, _ in cards if gpu.unified)
    return (host_budget(hardware, demand, shared, held), *own)


def cards_used(hardware: Hardware, settings: GgmlSettings) -> tuple[Gpu, ...]:
    """The cards that a server with these settings opens: all, also where none holds a layer (llama-context.cpp)."""
    return hardware.gpus if settings.opens_cards else ()


def placed(model: ModelSpec, settings: GgmlSettings, free_bytes: tuple[int, ...]) -> Placement:
    """The devices of the main model's layers; the split counts draft layers too, between them and the output layer."""
    layers = model.layers + model.draft_layers
    everything = place_layers(layers, settings.gpu_layers, free_bytes, settings.tensor_split)
    opens_cards = settings.opens_cards and bool(free_bytes)
    return Placement(everything.layers[: model.layers], everything.output, settings.cpu_expert_layers, opens_cards)


def card_free_bytes(gpu: Gpu) -> int:
    """What a card has for a new plan; its total where only that is known."""
    known = gpu.usable_bytes if gpu.usable_bytes is not None else gpu.total_bytes
    if known is None:
        raise UnreadableInput(
            f"the memory of card {gpu.index} ({gpu.name}) is unknown", hint="give it with --gpu NAME:TOTAL:FREE"
        )
    return known


def cache_on(device: int, demand: Demand) -> int:
    """Bytes of the KV cache that lie with their layers on this device; what has no layer lies with the last one."""
    numbers = tuple(layer.layer for layer in demand.model.attention_layers)
    sizes = layer_cache_bytes(demand.model, demand.settings, demand.build)
    beside = cache_beside_bytes(demand.model, demand.settings) if device == demand.placement.layers[-1] else 0
    return _lying_on(device, numbers, sizes, demand.placement) + beside


def state_on(device: int, demand: Demand) -> int:
    """Bytes of the states that lie with their layers on this device."""
    numbers = tuple(layer.layer for layer in demand.model.state_layers)
    return _lying_on(device, numbers, layer_state_bytes(demand.model, demand.settings), demand.placement)


def draft_weights_on(device: int, demand: Demand) -> int:
    """Bytes of the layers that only guess tokens, 0 while they do not run: the engine passes them over."""
    runs = demand.settings.draft_tokens > 0 and device == demand.placement.layers[-1]
    return role_bytes(demand.model, "draft") if runs else 0


def _lying_on(device: int, numbers: tuple[int | None, ...], sizes: tuple[int, ...], placement: Placement) -> int:
    """What of these sizes lies on a device; layers without a number are spread evenly."""
    layers = placement.layers
    last = len(layers) - 1
    homes = (
        layers[position * len(layers) // len(numbers) if number is None else min(number, last)]
        for position, number in enumerate(numbers)
    )
    return sum(size for size, home in zip(sizes, homes, strict=True) if home == device)


def card_budgets(used: tuple[Gpu, ...], demand: Demand) -> tuple[tuple[Gpu, MemoryBudget], ...]:
    """Every card with its budget; each may be given the largest part of the graph, so that it is planned once.

    Where no card holds a layer, the first one computes large batches all the same, and the others nothing.
    """
    if not used:
        return ()
    compute = card_range(demand.model, demand.settings, demand.build, demand.placement)
    others = compute if demand.placement.output != HOST else NO_COMPUTE
    return tuple((gpu, card_budget(gpu, place, demand, others if place else compute)) for place, gpu in enumerate(used))


def card_budget(gpu: Gpu, position: int, demand: Demand, compute: Range) -> MemoryBudget:
    """The budget of one graphics card with this compute buffer."""
    free = card_free_bytes(gpu)
    compute = with_encoder(compute, position, demand)
    total = gpu.total_bytes if gpu.total_bytes is not None else free
    runtime = device_context_range(total)
    return MemoryBudget(
        device=f"gpu{gpu.index}",
        total_bytes=total,
        available_bytes=free,
        weights_bytes=device_weights(demand.model, demand.placement, position) + draft_weights_on(position, demand),
        cache_bytes=cache_on(position, demand),
        state_bytes=state_on(position, demand),
        compute_bytes=compute[2],
        runtime_bytes=runtime[2],
        reserve_bytes=FIT_MARGIN_BYTES,
        ranges=(compute, runtime),
    )


def with_encoder(compute: Range, device: int, demand: Demand) -> Range:
    """A device's graph, and beside it that of the encoder of pictures or sound which is loaded there."""
    low, high = demand.model.encoder_graph_bytes
    if not high or device != encoder_device(demand.placement):
        return compute
    return (compute[0], compute[1] + low, compute[2] + high, f"{compute[3]}; and {ENCODER_REASON}")


def host_budget(
    hardware: Hardware, demand: Demand, shared: tuple[MemoryBudget, ...], held_bytes: int = 0
) -> MemoryBudget:
    """The budget of the host, with the parts of the cards that share its memory.

    `held_bytes` is what the tuned engine holds through such cards. A driver may let a card map less than the host has.
    """
    usable = hardware.memory.usable_bytes
    if usable is None:
        raise UnreadableInput(
            "the memory of this machine is unknown", hint="give it with --ram and --ram-available, such as 8GiB"
        )
    total = hardware.memory.total_bytes if hardware.memory.total_bytes is not None else usable
    usable = min(usable + held_bytes, max(total, usable))
    ranges = tuple(with_shared(part, shared) for part in host_ranges(demand))
    high = {name: value for name, _, value, _ in ranges}
    budget = MemoryBudget(
        device="host",
        total_bytes=total,
        available_bytes=usable,
        weights_bytes=host_weights(demand) + sum(card.weights_bytes for card in shared),
        cache_bytes=cache_on(HOST, demand) + sum(card.cache_bytes for card in shared),
        state_bytes=state_on(HOST, demand) + sum(card.state_bytes for card in shared),
        output_bytes=output_bytes(demand.model, demand.settings),
        reserve_bytes=host_reserve_bytes(hardware.memory),
        ranges=ranges,
        **high,
    )
    return _within_reach(budget, shared)


def _within_reach(budget: MemoryBudget, shared: tuple[MemoryBudget, ...]) -> MemoryBudget:
    """Available is at most what the cards reach, and beside that what the host's own parts take."""
    if not shared:
        return budget
    on_cards = sum(card.used_bytes - card.reserve_bytes for card in shared)
    reach = sum(card.available_bytes for card in shared)
    return replace(budget, available_bytes=min(budget.available_bytes, reach + budget.used_bytes - on_cards))


def host_weights(demand: Demand) -> int:
    """Bytes of weights that the host must keep in memory: each tensor once, as its repacked copy where there is one.

    The mapped pages of repacked tensors are clean and never read again: the kernel drops them first, at no cost.
    """
    doubled = doubled_output_bytes(demand.model, demand.settings, demand.placement)
    return device_weights(demand.model, demand.placement, HOST) + draft_weights_on(HOST, demand) + doubled


def host_ranges(demand: Demand) -> tuple[Range, ...]:
    """The parts of the host's own memory that are ranges."""
    model, settings, placement = demand.model, demand.settings, demand.placement
    if HOST in (*placement.layers, placement.output):
        whole = compute_bytes(model, settings, demand.build)
        compute = compute_range(whole, demand.build, misplaced_bytes=misplaced_bytes(model, settings))
    else:
        inputs = input_bytes(model, settings, demand.build, in_turn=placement.works_in_turn)
        compute = compute_range(inputs, demand.build)
    host_cache = settings.prompt_cache_bytes + checkpoints_bytes(model, settings)
    return (
        with_encoder(compute, HOST, demand),
        process_range(model, uses_cards=placement.uses_cards),
        ("prompt_cache_bytes", 0, host_cache, "empty at the start; grows with traffic up to its limits"),
    )


def with_shared(own: Range, shared: tuple[MemoryBudget, ...]) -> Range:
    """A range of the host with the same part of the cards that share its memory."""
    name, low, high, why = own
    same = [(low, high) for card in shared for part, low, high, _ in card.ranges if part == name]
    return (name, low + sum(low for low, _ in same), high + sum(high for _, high in same), why)
