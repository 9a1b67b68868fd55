"""NVIDIA cards as NVML shows them, with the memory that the tuned engine holds on each."""

from __future__ import annotations

from dataclasses import replace

from llmops.core.hardware import Gpu, GpuReading, Memory
from llmops.host import Host
from llmops.probe.sources import Notes

_NVIDIA_SOURCES = (
    ("uuid", "nvmlDeviceGetUUID"),
    ("total_bytes", "nvmlDeviceGetMemoryInfo total"),
    ("free_bytes", "nvmlDeviceGetMemoryInfo free"),
    ("compute_capability", "nvmlDeviceGetCudaComputeCapability"),
    ("bandwidth_bytes_per_second", "bus width x 2 x maximum memory clock"),
    ("bus_width_bits", "nvmlDeviceGetMemoryBusWidth"),
    ("memory_clock_hertz", "nvmlDeviceGetMaxClockInfo"),
)
_AMD_SOURCES = (
    ("uuid", "PCI address"),
    ("total_bytes", "mem_info_vram_total"),
    ("free_bytes", "mem_info_vram_total less mem_info_vram_used"),
    ("architecture", "kfd gfx_target_version"),
    ("compute_units", "kfd simd_count / simd_per_cu"),
    ("bandwidth_bytes_per_second", "kfd memory bus width x mem_clk_max x transfers of that memory"),
)
_NOT_SUPPORTED = "the card does not support this query"


def read_nvidia(host: Host, memory: Memory, engine_pids: tuple[int, ...] = ()) -> GpuReading:
    """The cards, or why there are none; a card without its own memory gets the host's."""
    reading = host.gpus()
    gpus = tuple(_held(shared_with_host(gpu, memory), engine_pids) for gpu in reading.gpus)
    return replace(reading, gpus=gpus)


def shared_with_host(gpu: Gpu, memory: Memory) -> Gpu:
    """Memory shared with the processor: the host's figures are the card's; they must not be added up."""
    if not gpu.unified or gpu.total_bytes is not None:
        return gpu
    rooms = [room for room in (memory.available_bytes, memory.limit_available_bytes) if room is not None]
    return replace(gpu, total_bytes=memory.total_bytes, free_bytes=min(rooms) if rooms else None)


def _held(gpu: Gpu, engine_pids: tuple[int, ...]) -> Gpu:
    held = sum(process.used_bytes or 0 for process in gpu.processes if process.pid in engine_pids)
    return replace(gpu, held_by_engine_bytes=held)


def note_gpu(notes: Notes, name: str, gpu: Gpu) -> None:
    """Where each value of a card was read, or why it is missing."""
    for field, source in _NVIDIA_SOURCES if gpu.vendor == "nvidia" else _AMD_SOURCES:
        shared = gpu.unified and field in {"total_bytes", "free_bytes"}
        notes.note(f"{name}.{field}", getattr(gpu, field), _shared_source(gpu) if shared else source, _NOT_SUPPORTED)


def _shared_source(gpu: Gpu) -> str:
    if gpu.vendor == "nvidia":
        return "/proc/meminfo (memory shared with the processor)"
    return "mem_info_gtt_total, mem_info_gtt_used and MemAvailable (memory shared with the processor)"
