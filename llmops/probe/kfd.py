"""AMD's compute driver in sysfs (/sys/class/kfd): architecture, compute units, memory bus, memory by process."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePath

from llmops.host import Host
from llmops.probe.sources import keyed_numbers, list_names, read_value, to_int

_NODES = "/sys/class/kfd/kfd/topology/nodes"
_PROCESSES = "/sys/class/kfd/kfd/proc"
_HERTZ_PER_MEGAHERTZ = 1_000_000
_BITS_PER_BYTE = 8
_BYTES_PER_MEGABYTE = 1_000_000
# drivers/gpu/drm/amd/amdkfd/kfd_crat.h, CRAT_IOLINK_TYPE_XGMI.
_XGMI = 11
# The driver reports the memory's command clock. Transfers per cycle: GDDR6 16, GDDR5 4 (its clock is the higher one),
# stacked memory (buses of 1,024 bits and more) 2: 256 bits at 1,000 MHz are the 512 GB/s of a Radeon RX 6800, 384 at
# 1,249 the 960 of an RX 7900 XTX, 4,096 at 1,200 the 1,229 of an MI100, 256 at 2,000 the 256 of an RX 580.
_STACKED_FROM_BITS = 1024
_GDDR5_FROM_MEGAHERTZ = 1400
_TRANSFERS_STACKED, _TRANSFERS_GDDR5, _TRANSFERS_GDDR6 = 2, 4, 16


@dataclass(frozen=True)
class ComputeNode:
    """One device that can compute; `architecture` is the compiler's name, such as gfx1151."""

    number: int | None
    gpu_id: str | None
    render_minor: int | None
    architecture: str | None
    compute_units: int | None
    bus_width_bits: int | None
    memory_clock_hertz: int | None
    bandwidth_bytes_per_second: int | None


def read_compute_nodes(host: Host) -> tuple[ComputeNode, ...]:
    """Every node with a graphics engine; none where the compute driver is absent."""
    return tuple(
        _node(host, f"{_NODES}/{name}", properties)
        for name in list_names(host, _NODES)
        if (properties := keyed_numbers(read_value(host, f"{_NODES}/{name}/properties"))).get("simd_count")
    )


def _node(host: Host, directory: str, properties: dict[str, int]) -> ComputeNode:
    bank = keyed_numbers(read_value(host, f"{directory}/mem_banks/0/properties"))
    width, megahertz = bank.get("width") or None, bank.get("mem_clk_max") or None
    per_unit = properties.get("simd_per_cu") or None
    return ComputeNode(
        number=to_int(PurePath(directory).name),
        gpu_id=read_value(host, f"{directory}/gpu_id"),
        render_minor=properties.get("drm_render_minor"),
        architecture=architecture_name(properties.get("gfx_target_version")),
        compute_units=properties["simd_count"] // per_unit if per_unit else None,
        bus_width_bits=width,
        memory_clock_hertz=megahertz * _HERTZ_PER_MEGAHERTZ if megahertz else None,
        bandwidth_bytes_per_second=memory_bandwidth(width, megahertz),
    )


def read_xgmi(host: Host, node: int) -> dict[int, int | None] | None:
    """The nodes that one is linked to directly, each with the peak bytes per second.

    None where its links cannot be read: not even the bus to the processor is there.
    """
    directory = f"{_NODES}/{node}/io_links"
    names = list_names(host, directory)
    links = [keyed_numbers(read_value(host, f"{directory}/{name}/properties")) for name in names]
    if not any(links):
        return None
    return {
        link["node_to"]: link["max_bandwidth"] * _BYTES_PER_MEGABYTE if link.get("max_bandwidth") else None
        for link in links
        if link.get("type") == _XGMI and "node_to" in link
    }


def architecture_name(version: int | None) -> str | None:
    """110501 is gfx1151, 90010 gfx90a: two decimal digits each for minor version and stepping, shown in hexadecimal."""
    if not version:
        return None
    major, minor, stepping = version // 10_000, version // 100 % 100, version % 100
    return f"gfx{major}{minor:x}{stepping:x}"


def memory_bandwidth(bus_width_bits: int | None, megahertz: int | None) -> int | None:
    """Peak bytes per second of a card's own memory."""
    if bus_width_bits is None or megahertz is None:
        return None
    transfers = _TRANSFERS_GDDR5 if megahertz > _GDDR5_FROM_MEGAHERTZ else _TRANSFERS_GDDR6
    if bus_width_bits >= _STACKED_FROM_BITS:
        transfers = _TRANSFERS_STACKED
    return megahertz * _HERTZ_PER_MEGAHERTZ * transfers * bus_width_bits // _BITS_PER_BYTE


def read_process_bytes(host: Host, pid: int, gpu_id: str | None) -> int | None:
    """Bytes of card memory that a computing process holds; None where it does not compute or may not be seen."""
    return None if gpu_id is None else to_int(read_value(host, f"{_PROCESSES}/{pid}/vram_{gpu_id}"))
