"""How fast graphics cards read and compute, one alone or several that hold a model's layers one after the other."""

from __future__ import annotations

from llmops.core.hardware import Bandwidth, Gpu

# Low, likely and high.
Triple = tuple[float, float, float]

# Matrix operations per byte of memory bandwidth in prefill: 45 to 103 on 20 published cards of 256 to 1008 GB/s.
GPU_OPERATIONS_PER_BYTE: Triple = (30.0, 70.0, 150.0)
# Assumed for a card that does not say its bus: the slowest card with 8 GB in common use, and a middle one.
ASSUMED_GPU_BANDWIDTH: Triple = (200e9, 350e9, 900e9)
# Graphics that share the memory of the processor reach at least what the processor measured, at most twice as much:
# the processor's cores alone often cannot fill the bus.
SHARED_RANGE: Triple = (1.0, 1.3, 2.0)
# Assumed for shared memory that was not measured: a laptop's two channels, and the widest buses (GB10, gfx1151).
ASSUMED_SHARED_BANDWIDTH: Triple = (60e9, 150e9, 273e9)


def card_rates(gpus: tuple[Gpu, ...], host: Bandwidth | None = None) -> tuple[Triple, Triple, str]:
    """Bytes read and matrix operations done per second, and where the figures come from.

    Every token passes through the layers of one card after the other, so the times add up: a card takes its share of
    the model (as large as its share of the free memory, llama.cpp's default split) divided by its bandwidth.
    """
    shares = _shares(gpus)
    rates = [_rate(gpu, host) for gpu in gpus]
    low, likely, high = (
        1.0 / sum(share / rate[end] for share, (rate, _) in zip(shares, rates, strict=True)) for end in range(3)
    )
    bandwidths = (low, likely, high)
    first, second, third = (rate * each for rate, each in zip(bandwidths, GPU_OPERATIONS_PER_BYTE, strict=True))
    sources = dict.fromkeys(source for _, source in rates)
    source = " and ".join(sources)
    if len(gpus) > 1:
        source += f", each of {len(gpus)} cards with its share of the layers"
    return bandwidths, (first, second, third), source


def _shares(gpus: tuple[Gpu, ...]) -> tuple[float, ...]:
    """Each card's share of the layers; equal ones where a size is unknown."""
    sizes = [gpu.usable_bytes if gpu.usable_bytes is not None else gpu.total_bytes for gpu in gpus]
    total = sum(size or 0 for size in sizes)
    if not total or any(size is None for size in sizes):
        return (1.0 / len(gpus),) * len(gpus)
    return tuple((size or 0) / total for size in sizes)


def _rate(gpu: Gpu, host: Bandwidth | None) -> tuple[Triple, str]:
    if gpu.bandwidth_bytes_per_second:
        rate = float(gpu.bandwidth_bytes_per_second)
        return (rate, rate, rate), "the card's memory bandwidth"
    if not gpu.unified:
        return ASSUMED_GPU_BANDWIDTH, "an assumed card bandwidth of 350 GB/s (200 to 900)"
    if host is None or not host.read_bytes_per_second:
        return ASSUMED_SHARED_BANDWIDTH, "an assumed bandwidth of shared memory of 150 GB/s (60 to 273)"
    low, likely, high = (host.read_bytes_per_second * factor for factor in SHARED_RANGE)
    return (low, likely, high), "the memory bandwidth of this host, which the card shares"
