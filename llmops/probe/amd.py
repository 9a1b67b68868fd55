"""AMD cards and integrated graphics through sysfs: their own memory, the host memory that they reach, who holds it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import combinations

from llmops.core.hardware import CardLink, Gpu, GpuProcess, Memory
from llmops.core.units import GIB
from llmops.host import Host
from llmops.probe.drm import GraphicsDevice
from llmops.probe.kfd import ComputeNode, read_compute_nodes, read_process_bytes, read_xgmi
from llmops.probe.sources import read_source, read_value, to_int

_NAMES = "/usr/share/libdrm/amdgpu.ids"
# kgd_pp_interface.h: byte 2 of gpu_metrics is the format; 1 is that of cards, 2 and 3 those of integrated graphics.
_FORMAT_BYTE, _INTEGRATED_FORMAT = 2, 2
# Where the driver is too old for gpu_metrics: no card with less memory can hold a model.
_SMALLEST_CARD_BYTES = 1 * GIB


@dataclass(frozen=True)
class _Pools:
    """Memory of the device's own (or set aside at boot), and host memory that it may map (GTT)."""

    own_total: int | None
    own_used: int | None
    mapped_total: int | None
    mapped_used: int | None


def read_amd(
    host: Host, devices: tuple[GraphicsDevice, ...], memory: Memory, engine_pids: tuple[int, ...] = ()
) -> tuple[Gpu, ...]:
    """Each AMD device that the amdgpu driver serves, numbered from 0; another driver shows no memory."""
    nodes = read_compute_nodes(host) if devices else ()
    served = [device for device in devices if device.driver in {"amdgpu", None}]
    gpus = []
    for index, device in enumerate(served):
        node = _node_of(device, nodes, alone=len(served) == 1)
        gpu = _gpu(host, index, device, node, memory)
        gpus.append(_with_holders(host, gpu, node, engine_pids))
    return tuple(gpus)


def read_amd_links(host: Host, devices: tuple[GraphicsDevice, ...]) -> tuple[CardLink, ...]:
    """How every two of these cards, numbered as `read_amd` does, are linked: by XGMI, else by the bus."""
    served = [device for device in devices if device.driver in {"amdgpu", None}]
    nodes = read_compute_nodes(host) if len(served) > 1 else ()
    found = [_node_of(device, nodes, alone=False) for device in served] if nodes else []
    numbers = [(index, node.number) for index, node in enumerate(found) if node is not None and node.number is not None]
    links = {number: read_xgmi(host, number) for _, number in numbers}
    return tuple(_link(first, second, links[one], other) for (first, one), (second, other) in combinations(numbers, 2))


def _link(first: int, second: int, direct: dict[int, int | None] | None, other: int) -> CardLink:
    if direct is None:
        return CardLink(first, second)
    return CardLink(first, second, "xgmi", direct[other]) if other in direct else CardLink(first, second, "pcie")


def _node_of(device: GraphicsDevice, nodes: tuple[ComputeNode, ...], *, alone: bool) -> ComputeNode | None:
    for node in nodes:
        if device.render_minor is not None and node.render_minor == device.render_minor:
            return node
    return nodes[0] if alone and len(nodes) == 1 and device.render_minor is None else None


def _gpu(host: Host, index: int, device: GraphicsDevice, node: ComputeNode | None, memory: Memory) -> Gpu:
    pools = _pools(host, device.directory)
    integrated = _is_integrated(host, device.directory, pools)
    unified = integrated and (pools.mapped_total or 0) > (pools.own_total or 0)
    total, free = _reachable(pools, memory) if unified else (pools.own_total, _left(pools.own_total, pools.own_used))
    return Gpu(
        index=index,
        uuid=device.address,
        name=_name(host, device, node),
        total_bytes=total,
        free_bytes=free,
        # The memory of an integrated part is the host's; its rate is what was measured there.
        bandwidth_bytes_per_second=node.bandwidth_bytes_per_second if node and not integrated else None,
        bus_width_bits=node.bus_width_bits if node and not integrated else None,
        memory_clock_hertz=node.memory_clock_hertz if node and not integrated else None,
        unified=unified,
        vendor="amd",
        kind="integrated" if integrated else "card",
        architecture=node.architecture if node else None,
        compute_units=node.compute_units if node else None,
    )


def _pools(host: Host, directory: str) -> _Pools:
    own_total, own_used, mapped_total, mapped_used = (
        to_int(read_value(host, f"{directory}/mem_info_{name}"))
        for name in ("vram_total", "vram_used", "gtt_total", "gtt_used")
    )
    return _Pools(own_total, own_used, mapped_total, mapped_used)


def _is_integrated(host: Host, directory: str, pools: _Pools) -> bool:
    try:
        header = host.read_bytes(f"{directory}/gpu_metrics", 0, 4)
    except OSError:
        header = b""
    if len(header) > _FORMAT_BYTE:
        return header[_FORMAT_BYTE] >= _INTEGRATED_FORMAT
    return pools.own_total is not None and pools.own_total < _SMALLEST_CARD_BYTES


def _left(total: int | None, used: int | None) -> int | None:
    return None if total is None or used is None else max(0, total - used)


def _reachable(pools: _Pools, memory: Memory) -> tuple[int | None, int | None]:
    """Host memory that may be mapped, and what of it is free: no more than the host has available.

    What was set aside at boot is smaller and mostly taken by the display: it is not counted.
    """
    rooms = [_left(pools.mapped_total, pools.mapped_used), memory.available_bytes, memory.limit_available_bytes]
    known = [room for room in rooms if room is not None]
    return pools.mapped_total, min(known) if known else None


def _with_holders(host: Host, gpu: Gpu, node: ComputeNode | None, pids: tuple[int, ...]) -> Gpu:
    """The card with the processes of the tuned engine; those of others are not looked for."""
    gpu_id = node.gpu_id if node else None
    held = tuple((pid, read_process_bytes(host, pid, gpu_id)) for pid in pids)
    processes = tuple(GpuProcess(pid, used) for pid, used in held if used is not None)
    return replace(gpu, processes=processes, held_by_engine_bytes=sum(used or 0 for _, used in held))


def _name(host: Host, device: GraphicsDevice, node: ComputeNode | None) -> str:
    """What the card calls itself, its name in libdrm's list, or the number of its kind."""
    own = read_value(host, f"{device.directory}/product_name")
    if own:
        return own if own.startswith("AMD") else f"AMD {own}"
    number, revision = device.device_id or "", read_value(host, f"{device.directory}/revision") or ""
    listed = _listed_name(host, number, revision) if number else None
    architecture = f" ({node.architecture})" if node and node.architecture else ""
    return listed or f"AMD graphics {number or 'of unknown kind'}{architecture}"


def _listed_name(host: Host, number: str, revision: str) -> str | None:
    """Rows of `1586, C1, AMD Radeon 8060S Graphics`: device, revision, name."""
    wanted = (number.removeprefix("0x").upper(), revision.removeprefix("0x").upper())
    for line in (read_source(host, _NAMES).content or "").splitlines():
        parts = [part.strip() for part in line.split(",", 2)]
        if len(parts) == 3 and (parts[0].upper(), parts[1].upper()) == wanted:
            return parts[2]
    return None
