"""NVIDIA cards as NVML shows them, with the memory that the tuned engine holds on each."""

from __future__ import annotations

from dataclasses import replace

from llmops.core.hardware import Gpu, GpuReading, Memory, Observation
from llmops.host import Host
from llmops.probe.sources import Notes

_SOURCES = (
    ("uuid", "nvmlDeviceGetUUID"),
    ("total_bytes", "nvmlDeviceGetMemoryInfo total"),
    ("free_bytes", "nvmlDeviceGetMemoryInfo free"),
    ("compute_capability", "nvmlDeviceGetCudaComputeCapability"),
    ("bandwidth_bytes_per_second", "bus width x 2 x maximum memory clock"),
    ("bus_width_bits", "nvmlDeviceGetMemoryBusWidth"),
    ("memory_clock_hertz", "nvmlDeviceGetMaxClockInfo"),
)
_NOT_SUPPORTED = "the card does not support this query"


def read_nvidia(
    host: Host, memory: Memory, engine_pids: tuple[int, ...] = ()
) -> tuple[GpuReading, tuple[Observation, ...]]:
    """The cards, or why there are none; a card without its own memory gets the host's."""
    notes = Notes()
    reading = host.gpus()
    notes.note("gpus", reading.gpus or None, "NVML", f"{reading.outcome}: {reading.detail}")
    gpus = []
    for position, gpu in enumerate(reading.gpus):
        prepared = _held(_unified(gpu, memory), engine_pids)
        gpus.append(prepared)
        _note(notes, position, prepared)
    return replace(reading, gpus=tuple(gpus)), tuple(notes.rows)


def _unified(gpu: Gpu, memory: Memory) -> Gpu:
    """Memory shared with the processor: the host's figures are the card's; they must not be added up."""
    if not gpu.unified or gpu.total_bytes is not None:
        return gpu
    rooms = [room for room in (memory.available_bytes, memory.limit_available_bytes) if room is not None]
    return replace(gpu, total_bytes=memory.total_bytes, free_bytes=min(rooms) if rooms else None)


def _held(gpu: Gpu, engine_pids: tuple[int, ...]) -> Gpu:
    held = sum(process.used_bytes or 0 for process in gpu.processes if process.pid in engine_pids)
    return replace(gpu, held_by_engine_bytes=held)


def _note(notes: Notes, position: int, gpu: Gpu) -> None:
    for name, source in _SOURCES:
        shared = gpu.unified and name in {"total_bytes", "free_bytes"}
        notes.note(
            f"gpus[{position}].{name}",
            getattr(gpu, name),
            "/proc/meminfo (memory shared with the processor)" if shared else source,
            _NOT_SUPPORTED,
        )
