"""How fast graphics cards read and compute: one alone, several in a row, or several that share each layer."""

from __future__ import annotations

from dataclasses import dataclass

from llmops.core.card_links import EXCHANGES_PER_LAYER, LINK_NAMES
from llmops.core.card_specifications import APPLE, GDDR, HBM, SHARED, specification
from llmops.core.hardware import Bandwidth, Gpu
from llmops.core.throughput_classes import SpeedClass, Triple, card_class

# Assumed for a card that neither says its bus nor has a known name: the slowest with 8 GB in common use, a middle one.
ASSUMED_GPU_BANDWIDTH: Triple = (200e9, 350e9, 900e9)
# Graphics that share the memory of the processor reach at least what the processor measured, at most twice as much:
# the processor's cores alone often cannot fill the bus.
SHARED_RANGE: Triple = (1.0, 1.3, 2.0)
# Assumed for shared memory that was not measured: a laptop's two channels, and the widest buses (GB10, gfx1151).
ASSUMED_SHARED_BANDWIDTH: Triple = (60e9, 150e9, 273e9)
# Stacked memory by compute capability (V100, A100, H100, B200) and by AMD's architecture; all other cards have GDDR.
_HBM_CAPABILITIES = frozenset({(6, 0), (7, 0), (8, 0), (9, 0), (10, 0), (10, 3)})
_HBM_ARCHITECTURES = frozenset({"gfx906", "gfx908", "gfx90a", "gfx942", "gfx950"})
# Of a card that says neither: no graphics memory is this fast so far.
_HBM_BYTES_PER_SECOND = 1.85e12
# An exchange between cards that share a layer: over PCIe through the host, likely, over NVLink.
EXCHANGE_SECONDS: Triple = (60e-6, 22e-6, 7e-6)
# What the kind of their links leaves of that range.
LINKED_SECONDS: dict[str | None, Triple] = {
    "nvlink": (22e-6, 7e-6, 7e-6),
    "xgmi": (22e-6, 7e-6, 7e-6),
    "pcie": (60e-6, 22e-6, 22e-6),
}
# What sharing a layer leaves of each card's rates: the parts are smaller, and each waits for the slowest.
SHARING: Triple = (0.7, 0.88, 1.0)


@dataclass(frozen=True)
class CardRates:
    """Bytes and matrix operations per second that the cards reach, low, likely, high, and where the figures come from.

    `exchange_seconds` is what cards that share each layer add to every layer of a step.
    """

    bandwidth: Triple
    operations: Triple
    speed_class: SpeedClass
    source: str
    exchange_seconds: Triple = (0.0, 0.0, 0.0)


def card_rates(
    gpus: tuple[Gpu, ...],
    host: Bandwidth | None = None,
    *,
    engine: str = "llama-server",
    tensor_parallel: int = 1,
    eager: bool = False,
    linked: str | None = None,
) -> CardRates:
    """What the cards reach in decode and prefill.

    Every token passes through the layers of one card after the other, so the times add up: a card takes its share of
    the model (as large as its share of the free memory, llama.cpp's default split) divided by its bandwidth. Layers
    split over cards add room, not speed. `tensor_parallel` cards share each layer and wait for the slowest; `linked` is
    the kind of the links between them, where it is known.
    """
    each = [_one_card(gpu, host, engine, eager=eager) for gpu in gpus]
    if tensor_parallel > 1:
        return _together(each, tensor_parallel, linked)
    shares = _shares(gpus)
    source = " and ".join(dict.fromkeys(rates.source for rates in each))
    if len(gpus) > 1:
        source += f", each of {len(gpus)} cards with its share of the layers"
    low, likely, high = _in_a_row(shares, [rates.operations for rates in each])
    slowest = max(zip(shares, each, strict=True), key=lambda pair: pair[0] / pair[1].bandwidth[1])[1]
    bandwidth = _in_a_row(shares, [rates.bandwidth for rates in each])
    pipe = min(len(gpus), slowest.speed_class.pipe_depth)
    return CardRates(bandwidth, (low, likely, high * pipe), slowest.speed_class, source)


def known_bandwidth(gpu: Gpu) -> int | None:
    """Bytes per second that the card says or that are published for its name."""
    if gpu.bandwidth_bytes_per_second:
        return gpu.bandwidth_bytes_per_second
    published = specification(gpu)
    return published.bytes_per_second if published else None


def memory_kind(gpu: Gpu) -> str:
    """gddr, hbm, shared or apple: what decides how much of the bandwidth one stream can use."""
    published = specification(gpu)
    if published is not None:
        return published.memory
    if gpu.name.lower().startswith("apple"):
        return APPLE
    if gpu.unified:
        return SHARED
    if gpu.compute_capability is not None:
        return HBM if gpu.compute_capability in _HBM_CAPABILITIES else GDDR
    if gpu.architecture is not None:
        return HBM if gpu.architecture in _HBM_ARCHITECTURES else GDDR
    return HBM if (gpu.bandwidth_bytes_per_second or 0) >= _HBM_BYTES_PER_SECOND else GDDR


def _one_card(gpu: Gpu, host: Bandwidth | None, engine: str, *, eager: bool) -> CardRates:
    speed_class = card_class(engine, memory_kind(gpu), eager=eager)
    (low, likely, high), source = _bus(gpu, host)
    shares = speed_class.bandwidth_share
    reached = (low * shares[0], likely * shares[1], high * shares[2])
    published = specification(gpu)
    if published is not None and published.operations_per_second:
        first, second, third = (published.operations_per_second * share for share in speed_class.operations_share)
    else:
        first, second, third = (
            bus * each for bus, each in zip((low, likely, high), speed_class.operations_per_byte, strict=True)
        )
    return CardRates(reached, (first, second, third), speed_class, source)


def _in_a_row(shares: tuple[float, ...], rates: list[Triple]) -> Triple:
    low, likely, high = (
        1.0 / sum(share / rate[end] for share, rate in zip(shares, rates, strict=True)) for end in range(3)
    )
    return low, likely, high


def _together(each: list[CardRates], count: int, linked: str | None) -> CardRates:
    slowest = min(each, key=lambda rates: rates.bandwidth[1])
    bandwidth, operations = (
        (rate[0] * SHARING[0] * count, rate[1] * SHARING[1] * count, rate[2] * SHARING[2] * count)
        for rate in (slowest.bandwidth, slowest.operations)
    )
    low, likely, high = (EXCHANGES_PER_LAYER * seconds for seconds in LINKED_SECONDS.get(linked, EXCHANGE_SECONDS))
    over = f" over {LINK_NAMES[linked]}" if linked else ""
    source = f"{slowest.source}, {count} cards that share each layer{over}"
    return CardRates(bandwidth, operations, slowest.speed_class, source, (low, likely, high))


def _shares(gpus: tuple[Gpu, ...]) -> tuple[float, ...]:
    """Each card's share of the layers; equal ones where a size is unknown."""
    sizes = [gpu.usable_bytes if gpu.usable_bytes is not None else gpu.total_bytes for gpu in gpus]
    total = sum(size or 0 for size in sizes)
    if not total or any(size is None for size in sizes):
        return (1.0 / len(gpus),) * len(gpus)
    return tuple((size or 0) / total for size in sizes)


def _bus(gpu: Gpu, host: Bandwidth | None) -> tuple[Triple, str]:
    known = known_bandwidth(gpu)
    if known:
        rate = float(known)
        said = "the card's memory bandwidth" if gpu.bandwidth_bytes_per_second else "the card's published bandwidth"
        return (rate, rate, rate), said
    if not gpu.unified:
        return ASSUMED_GPU_BANDWIDTH, "an assumed card bandwidth of 350 GB/s (200 to 900)"
    if host is None or not host.read_bytes_per_second:
        return ASSUMED_SHARED_BANDWIDTH, "an assumed bandwidth of shared memory of 150 GB/s (60 to 273)"
    low, likely, high = (host.read_bytes_per_second * factor for factor in SHARED_RANGE)
    return (low, likely, high), "the memory bandwidth of this host, which the card shares"
