"""Every graphics device of the machine, from all sources, and which of them a plan may count with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from llmops.core.hardware import CardLink, Gpu, GpuReading, Memory, Observation
from llmops.core.visible_devices import visible_gpus
from llmops.host import Host
from llmops.probe import amd
from llmops.probe.drm import GraphicsDevice, read_graphics_devices, read_vendors_on_bus
from llmops.probe.jetson import read_jetson
from llmops.probe.links import links_between, note_links
from llmops.probe.nvidia import note_gpu, read_nvidia, shared_with_host
from llmops.probe.sources import Notes, read_value

# Integrated graphics with less than this share the processor's narrow memory bus and gain nothing in decode; those
# with it (40 units in AMD's gfx1151) come with a bus of twice the width or more.
LEAST_COMPUTE_UNITS = 32
_WIDE_ARCHITECTURES = frozenset({"gfx1151"})
_NOT_WORTH_IT = "integrated graphics read the same memory as the processor and are not faster"
_CARD_GOES_FIRST = "engines leave integrated graphics alone where there is a card"
_ROCM_VERSION = "/opt/rocm/.info/version"
_INTEL_INTEGRATED_ADDRESS = "0000:00:02.0"
_NO_INTEL_MEMORY = "the kernel does not show the memory of Intel cards; give it with --gpu NAME:TOTAL"


@dataclass(frozen=True)
class Cards:
    """The reading with all vendors in it, those that do not count, and where each value was read."""

    reading: GpuReading
    others: tuple[Gpu, ...]
    observations: tuple[Observation, ...]


def read_cards(
    host: Host,
    memory: Memory,
    engine_pids: tuple[int, ...] = (),
    engine_environment: Mapping[str, str] | None = None,
) -> Cards:
    """Look at NVML, sysfs and the device tree; `engine_environment` decides which devices the engine may use."""
    reading = read_nvidia(host, memory, engine_pids)
    devices = read_graphics_devices(host)
    found = list(reading.gpus) or _jetson(host, memory)
    amd_gpus = amd.read_amd(host, tuple(device for device in devices if device.vendor == "amd"), memory, engine_pids)
    first = _next_index(found)
    found += [replace(gpu, index=gpu.index + first) for gpu in amd_gpus]
    reading = replace(reading, links=(*reading.links, *_numbered_from(first, amd.read_amd_links(host, devices))))
    not_counted = [*_integrated(found), *_intel(devices, _next_index(found))]
    left = tuple(gpu for gpu in found if gpu not in [gpu for gpu, _ in not_counted])
    counted: tuple[Gpu, ...] = left
    if left:
        variables = host.environment() if engine_environment is None else engine_environment
        counted, hidden = visible_gpus(left, variables)
        not_counted += hidden
    return _cards(reading, counted, not_counted, _details(host, reading, amd_gpus, devices))


def _cards(
    reading: GpuReading, counted: tuple[Gpu, ...], not_counted: list[tuple[Gpu, str]], details: tuple[str, ...]
) -> Cards:
    notes = Notes()
    outcome = "ok" if counted else ("no_devices" if reading.outcome == "ok" else reading.outcome)
    detail = "; ".join((reading.detail, *details))
    notes.note("gpus", counted or None, "NVML and sysfs", f"{outcome}: {detail}")
    for position, gpu in enumerate(counted):
        note_gpu(notes, f"gpus[{position}]", gpu)
    for position, (gpu, why) in enumerate(not_counted):
        notes.rows.append(Observation(f"other_gpus[{position}]", f"{gpu.name} is not counted", why))
    links = links_between(counted, reading.links)
    note_links(notes, links, frozenset(gpu.index for gpu in counted if gpu.vendor == "amd"))
    joined = replace(reading, outcome=outcome, detail=detail, gpus=counted, links=links)
    return Cards(joined, tuple(gpu for gpu, _ in not_counted), tuple(notes.rows))


def _jetson(host: Host, memory: Memory) -> list[Gpu]:
    gpu = read_jetson(host)
    return [] if gpu is None else [shared_with_host(gpu, memory)]


def _numbered_from(first: int, links: tuple[CardLink, ...]) -> tuple[CardLink, ...]:
    return tuple(replace(link, first=link.first + first, second=link.second + first) for link in links)


def _next_index(gpus: list[Gpu]) -> int:
    return max((gpu.index for gpu in gpus), default=-1) + 1


def _integrated(gpus: list[Gpu]) -> list[tuple[Gpu, str]]:
    """Integrated graphics that do not count: beside a card, or too small to gain anything."""
    has_card = any(gpu.kind != "integrated" for gpu in gpus)
    rows = []
    for gpu in gpus:
        if gpu.kind == "integrated" and has_card:
            rows.append((gpu, _CARD_GOES_FIRST))
        elif gpu.kind == "integrated" and not _is_worth_it(gpu):
            rows.append((gpu, _NOT_WORTH_IT))
    return rows


def _is_worth_it(gpu: Gpu) -> bool:
    """CUDA's integrated parts always are: their processors reach less of the memory's rate than they do."""
    wide = (gpu.compute_units or 0) >= LEAST_COMPUTE_UNITS or gpu.architecture in _WIDE_ARCHITECTURES
    return gpu.vendor == "nvidia" or wide


def _intel(devices: tuple[GraphicsDevice, ...], first_index: int) -> list[tuple[Gpu, str]]:
    """Intel's devices: those inside a processor always have the same address."""
    rows = []
    for place, device in enumerate(device for device in devices if device.vendor == "intel"):
        integrated = device.address == _INTEL_INTEGRATED_ADDRESS
        gpu = Gpu(
            index=first_index + place,
            uuid=device.address,
            name=f"Intel graphics {device.device_id or ''}".strip(),
            total_bytes=None,
            free_bytes=None,
            unified=integrated,
            vendor="intel",
            kind="integrated" if integrated else "card",
        )
        rows.append((gpu, _NOT_WORTH_IT if integrated else _NO_INTEL_MEMORY))
    return rows


def _details(
    host: Host, reading: GpuReading, amd_gpus: tuple[Gpu, ...], devices: tuple[GraphicsDevice, ...]
) -> tuple[str, ...]:
    """What else a person should know: AMD's software, and cards without a driver."""
    lines = []
    if amd_gpus:
        version = read_value(host, _ROCM_VERSION)
        rocm = f"ROCm {version} is installed" if version else "no ROCm in /opt/rocm: a Vulkan build of the engine"
        lines.append(f"{len(amd_gpus)} AMD in sysfs; {rocm}{'' if version else ' can use it'}")
    if not amd_gpus and any(device.vendor == "amd" for device in devices):
        lines.append("an AMD card is there, its driver is not amdgpu")
    on_bus = read_vendors_on_bus(host) if reading.outcome in {"library_missing", "driver_not_loaded"} else frozenset()
    if "nvidia" in on_bus:
        lines.append("an NVIDIA card is on the PCI bus: install its driver, or load it, to use it")
    if "amd" in on_bus and not any(device.vendor == "amd" for device in devices):
        lines.append("an AMD card is on the PCI bus and no driver serves it: load amdgpu to use it")
    return tuple(lines)
