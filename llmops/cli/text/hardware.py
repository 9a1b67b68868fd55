"""What a machine is, for people."""

from __future__ import annotations

from llmops.cli.text.layout import faint, heading, pairs, sections, table
from llmops.core.card_links import LINK_NAMES
from llmops.core.hardware import Bandwidth, CardLink, Cpu, Gpu, Hardware, Memory, Swap
from llmops.core.notices import Notice
from llmops.core.units import format_bytes, format_rate

_UNKNOWN = "not observed"


def hardware_text(
    hardware: Hardware, notices: tuple[Notice, ...] = (), serving: str = "", *, with_sources: bool = False
) -> str:
    """Processors, memory, swap, cards; `serving` is the part about engines.

    Then what to know, what could not be observed and why, on request every source.
    """
    return sections(
        (
            heading("Processor") + "\n" + pairs(_cpu_rows(hardware.cpu)),
            heading("Memory") + "\n" + pairs((*_memory_rows(hardware.memory), *_swap_rows(hardware.swap))),
            heading("Memory bandwidth") + "\n" + pairs(_bandwidth_rows(hardware.bandwidth)),
            _gpu_text(hardware),
            serving,
            _notices_text(notices),
            _observations_text(hardware, with_sources=with_sources),
        )
    )


def _size(size_bytes: int | None) -> str:
    return _UNKNOWN if size_bytes is None else format_bytes(size_bytes)


def _cpu_rows(cpu: Cpu) -> tuple[tuple[str, str | None], ...]:
    cores = _UNKNOWN if cpu.physical_cores is None else str(cpu.physical_cores)
    if cpu.performance_cores is not None and cpu.efficiency_cores:
        cores += f" ({cpu.performance_cores} performance, {cpu.efficiency_cores} efficiency)"
    threads = _UNKNOWN if cpu.usable_threads is None else str(cpu.usable_threads)
    limits = [
        None if cpu.logical_cpus is None else f"{cpu.logical_cpus} logical",
        None if cpu.affinity_cpus is None else f"affinity {cpu.affinity_cpus}",
        None if cpu.quota_cores is None else f"quota {cpu.quota_cores:g} cores",
    ]
    return (
        ("model", cpu.model or _UNKNOWN),
        ("physical cores", cores),
        ("usable threads", f"{threads} ({', '.join(limit for limit in limits if limit)})"),
        ("NUMA nodes", None if cpu.numa_nodes is None else str(cpu.numa_nodes)),
        ("flags", ", ".join(cpu.flags)),
    )


def _memory_rows(memory: Memory) -> tuple[tuple[str, str | None], ...]:
    limit = None if memory.limit_bytes is None else f"{format_bytes(memory.limit_bytes)} ({memory.limit_source})"
    pressure = memory.pressure_some_percent
    return (
        ("total", _size(memory.total_bytes)),
        ("available", _size(memory.available_bytes)),
        ("limit", limit),
        ("limit of the engine", None if memory.engine_limit_bytes is None else format_bytes(memory.engine_limit_bytes)),
        ("held by the engine", format_bytes(memory.held_by_engine_bytes) if memory.held_by_engine_bytes else None),
        ("usable for a plan", _size(memory.usable_bytes)),
        ("pressure", None if pressure is None else f"{pressure:.1f} % of the last minute"),
    )


def _swap_rows(swap: Swap) -> tuple[tuple[str, str | None], ...]:
    if swap.total_bytes is None:
        return (("swap", _UNKNOWN),)
    if swap.total_bytes == 0:
        return (("swap", "none"),)
    kind = f"{swap.kind}, " if swap.kind else ""
    return (("swap", f"{kind}{format_bytes(swap.total_bytes)}, {_size(swap.used_bytes)} used"),)


def _bandwidth_rows(bandwidth: Bandwidth | None) -> tuple[tuple[str, str | None], ...]:
    if bandwidth is None or bandwidth.read_bytes_per_second is None:
        return (("read", (bandwidth and bandwidth.reason) or "not measured (--bandwidth measures it)"),)
    spread = "" if bandwidth.spread is None else f", spread {bandwidth.spread:.0%}"
    passes = f"{bandwidth.passes} passes over {_size(bandwidth.buffer_bytes)}, {bandwidth.threads} threads"
    measured = f" ({passes}{spread})" if bandwidth.passes else ""
    return (
        ("read", format_rate(bandwidth.read_bytes_per_second) + measured),
        ("reliable", "yes" if bandwidth.reliable else f"no: {bandwidth.reason}"),
        ("note", bandwidth.reason if bandwidth.reliable else None),
    )


def _gpu_text(hardware: Hardware) -> str:
    title = heading("Graphics cards")
    if not hardware.gpus:
        return f"{title}\n" + pairs((("none seen", hardware.gpu_detail or hardware.gpu_outcome),))
    headers = ("card", "name", "total", "free", "capability", "bandwidth")
    rows_of_cards = table([_gpu_row(gpu) for gpu in hardware.gpus], headers, left_columns=2)
    driver = f"\n{pairs((('driver', hardware.driver_version),))}" if hardware.driver_version else ""
    links = f"\n{pairs(rows)}" if (rows := _link_rows(hardware.links)) else ""
    return f"{title}\n{rows_of_cards}{driver}{links}"


def _link_rows(links: tuple[CardLink, ...]) -> tuple[tuple[str, str], ...]:
    """Pairs that are linked alike in one row."""
    alike: dict[str, list[str]] = {}
    for link in links:
        alike.setdefault(_link_words(link), []).append(f"{link.first}-{link.second}")
    return tuple((f"link {', '.join(pairs_of)}", words) for words, pairs_of in alike.items())


def _link_words(link: CardLink) -> str:
    name = LINK_NAMES.get(link.kind or "", "how is not known")
    rate = f"{format_rate(link.bytes_per_second)} in each direction" if link.bytes_per_second else ""
    path = f"through {link.path}" if link.path and link.kind != "nvlink" else ""
    through = "not past the host's memory" if link.peer_access is False else ""
    return ", ".join(part for part in (name, rate, path, through) if part)


def _notices_text(notices: tuple[Notice, ...]) -> str:
    rows = [(notice.code, notice.message) for notice in notices]
    return heading("To know") + "\n" + pairs(rows) if rows else ""


def _gpu_row(gpu: Gpu) -> tuple[str, ...]:
    capability = ".".join(str(part) for part in gpu.compute_capability) if gpu.compute_capability else "-"
    rate = format_rate(gpu.bandwidth_bytes_per_second) if gpu.bandwidth_bytes_per_second else "-"
    sizes = ("-" if size is None else format_bytes(size) for size in (gpu.total_bytes, gpu.free_bytes))
    name = f"{gpu.name} ({', '.join(marks)})" if (marks := _marks(gpu)) else gpu.name
    return (str(gpu.index), name, *sizes, capability, rate)


def _marks(gpu: Gpu) -> tuple[str, ...]:
    marks = {
        "memory shared with the host": gpu.unified,
        "one instance": gpu.kind == "instance",
        "virtual": gpu.kind == "virtual",
    }
    return tuple(mark for mark, applies in marks.items() if applies)


def _observations_text(hardware: Hardware, *, with_sources: bool) -> str:
    missing = [(row.quantity, f"{row.reason} ({row.source})") for row in hardware.observations if row.reason]
    parts = []
    if missing:
        parts.append(heading("No value for") + "\n" + pairs(missing))
    if with_sources:
        seen = [(row.quantity, row.source) for row in hardware.observations if not row.reason]
        parts.append(heading("Sources") + "\n" + pairs(seen))
    elif hardware.observations:
        parts.append(faint("-v shows where each value was read"))
    return sections(parts)
