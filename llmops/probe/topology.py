"""How processors share cores, caches and memory controllers, from sysfs."""

from __future__ import annotations

import re
from dataclasses import dataclass

from llmops.core.units import GIB, KIB, MIB
from llmops.host import Host
from llmops.probe.cpuinfo import CpuInfo
from llmops.probe.sources import list_names, parse_cpu_list, read_value, to_int

_SYSTEM_CPU = "/sys/devices/system/cpu"
# Arm's small cores reach a quarter to a third of the capacity of the big ones; the middle ones of three kinds more
# than two thirds (Documentation/scheduler/sched-capacity.rst: capacity 1024 is the biggest).
_EFFICIENCY_CAPACITY_RATIO = 0.5
_CACHE_UNITS = {"K": KIB, "M": MIB, "G": GIB, "": 1}


@dataclass(frozen=True)
class Topology:
    """Counts over the online processors; `allowed_cores` only over those that the process may use."""

    cores: int | None
    cores_source: str
    threads_per_core: int | None
    allowed_cores: int | None
    performance_cores: int | None
    efficiency_cores: int | None
    kinds_source: str
    numa_nodes: int | None
    last_level_cache_bytes: int | None


def read_topology(host: Host, cpus: frozenset[int], allowed: frozenset[int], info: CpuInfo) -> Topology:
    """Read the topology of `cpus`; `allowed` are those that the process may use."""
    cores = _cores(host, cpus)
    kinds_source, efficiency_cpus = _efficiency_cpus(host, cores)
    counted = len(cores) or len(info.core_keys) or None
    efficiency = None if efficiency_cpus is None else sum(1 for core in cores if core & efficiency_cpus)
    return Topology(
        cores=counted,
        cores_source=f"{_SYSTEM_CPU}/cpu*/topology" if cores else "/proc/cpuinfo core id",
        threads_per_core=_threads_per_core(cores, counted, cpus),
        allowed_cores=sum(1 for core in cores if core & allowed) or counted,
        performance_cores=None if efficiency is None else len(cores) - efficiency,
        efficiency_cores=efficiency,
        kinds_source=kinds_source,
        numa_nodes=_numa_nodes(host),
        last_level_cache_bytes=_last_level_cache(host, allowed),
    )


def _cores(host: Host, cpus: frozenset[int]) -> frozenset[frozenset[int]]:
    """Each physical core as the set of its processors; nothing when any of them does not tell."""
    cores: set[frozenset[int]] = set()
    seen: set[int] = set()
    for cpu in sorted(cpus):
        if cpu in seen:
            continue
        directory = f"{_SYSTEM_CPU}/cpu{cpu}/topology"
        # core_cpus_list is the name since Linux 5.3, thread_siblings_list the older one.
        text = read_value(host, f"{directory}/core_cpus_list") or read_value(host, f"{directory}/thread_siblings_list")
        siblings = parse_cpu_list(text)
        if siblings is None:
            return frozenset()
        seen |= siblings
        cores.add(siblings & cpus)
    return frozenset(cores)


def _threads_per_core(cores: frozenset[frozenset[int]], counted: int | None, cpus: frozenset[int]) -> int | None:
    if cores:
        return max(len(core) for core in cores)
    return max(1, len(cpus) // counted) if counted else None


def _efficiency_cpus(host: Host, cores: frozenset[frozenset[int]]) -> tuple[str, frozenset[int] | None]:
    """Processors of the slow kind: Intel's hybrid parts name them, elsewhere cpu_capacity tells the kinds apart."""
    if not cores:
        return f"{_SYSTEM_CPU}/cpu*/topology", None
    slow = parse_cpu_list(read_value(host, "/sys/devices/cpu_atom/cpus"))
    if slow is not None:
        return "/sys/devices/cpu_atom/cpus", slow
    capacities = {
        min(core): to_int(read_value(host, f"{_SYSTEM_CPU}/cpu{min(core)}/cpu_capacity"))
        for core in sorted(cores, key=min)
    }
    known = {cpu: capacity for cpu, capacity in capacities.items() if capacity is not None}
    if len(known) < len(cores):
        return "no cpu_atom and no cpu_capacity in sysfs: one kind of core", frozenset()
    least = _EFFICIENCY_CAPACITY_RATIO * max(known.values())
    return f"{_SYSTEM_CPU}/cpu*/cpu_capacity", frozenset(cpu for cpu, capacity in known.items() if capacity < least)


def _numa_nodes(host: Host) -> int | None:
    """Nodes with processors: a node of memory only (a memory expander) is no place to run threads."""
    nodes = parse_cpu_list(read_value(host, "/sys/devices/system/node/has_cpu"))
    return None if nodes is None else len(nodes)


def _last_level_cache(host: Host, cpus: frozenset[int]) -> int | None:
    """Bytes of the highest data or unified level, every instance that the processors use counted once."""
    total = 0
    seen: set[int] = set()
    for cpu in sorted(cpus):
        if cpu not in seen:
            size, shared = _cache_of(host, cpu)
            seen |= shared
            total += size
    return total or None


def _cache_of(host: Host, cpu: int) -> tuple[int, frozenset[int]]:
    directory = f"{_SYSTEM_CPU}/cpu{cpu}/cache"
    best_level, best = 0, ""
    for name in list_names(host, directory):
        if not name.startswith("index") or read_value(host, f"{directory}/{name}/type") == "Instruction":
            continue
        level = to_int(read_value(host, f"{directory}/{name}/level")) or 0
        if level > best_level:
            best_level, best = level, f"{directory}/{name}"
    if not best:
        return 0, frozenset({cpu})
    shared = parse_cpu_list(read_value(host, f"{best}/shared_cpu_list"))
    return _cache_bytes(read_value(host, f"{best}/size")), shared or frozenset({cpu})


def _cache_bytes(text: str | None) -> int:
    """`32768K` as the kernel writes it."""
    match = re.fullmatch(r"(\d+)([KMG]?)", text or "")
    return int(match.group(1)) * _CACHE_UNITS[match.group(2)] if match else 0
