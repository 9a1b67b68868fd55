"""Processors: what the machine has (sysfs, /proc/cpuinfo) and the share of it that a process may use."""

from __future__ import annotations

import math

from llmops.core.hardware import Cpu, Observation
from llmops.host import Host
from llmops.probe.cgroup import Limits
from llmops.probe.cpuinfo import CpuInfo, parse_cpuinfo
from llmops.probe.hypervisor import read_hypervisor
from llmops.probe.sources import Notes, parse_cpu_list, read_source, read_value
from llmops.probe.topology import read_topology

_SYSTEM_CPU = "/sys/devices/system/cpu"


def read_cpu(host: Host, limits: Limits, process: str = "self") -> tuple[Cpu, tuple[Observation, ...]]:
    """Processors and what `process` (`self` or a process id) may use of them."""
    notes = Notes()
    text = read_source(host, "/proc/cpuinfo")
    info = parse_cpuinfo(text.content or "")
    online = parse_cpu_list(read_value(host, f"{_SYSTEM_CPU}/online"))
    cpus = online or info.processors or limits.processors or frozenset()
    allowed = _allowed(host, process, cpus)
    topology = read_topology(host, cpus, allowed or cpus, info)
    affinity = _affinity(host, process, allowed)
    logical_source = _logical_source(online, info)
    logical = notes.note("cpu.logical_cpus", len(cpus) or None, logical_source, text.reason)
    quota = limits.quota.cores if limits.quota else None
    usable_threads = _usable(logical, affinity, quota)
    cpu = Cpu(
        model=notes.note("cpu.model", info.model, "/proc/cpuinfo", text.reason),
        architecture=notes.note("cpu.architecture", info.architecture, "/proc/cpuinfo", text.reason),
        physical_cores=notes.note("cpu.physical_cores", topology.cores, topology.cores_source),
        logical_cpus=logical,
        threads_per_core=notes.note("cpu.threads_per_core", topology.threads_per_core, topology.cores_source),
        performance_cores=notes.note("cpu.performance_cores", topology.performance_cores, topology.kinds_source),
        efficiency_cores=notes.note("cpu.efficiency_cores", topology.efficiency_cores, topology.kinds_source),
        numa_nodes=notes.note("cpu.numa_nodes", topology.numa_nodes, "/sys/devices/system/node/has_cpu"),
        flags=_flags(notes, info, text.reason),
        affinity_cpus=notes.note("cpu.affinity_cpus", affinity, f"affinity of process {process}"),
        quota_cores=notes.note(
            "cpu.quota_cores", quota, limits.quota.source if limits.quota else "control groups", limits.quota_reason
        ),
        usable_threads=notes.note("cpu.usable_threads", usable_threads, "least of logical_cpus, affinity and quota"),
        usable_cores=notes.note(
            "cpu.usable_cores",
            _usable(topology.allowed_cores, usable_threads, quota),
            "physical cores within affinity and quota",
        ),
        last_level_cache_bytes=notes.note(
            "cpu.last_level_cache_bytes", topology.last_level_cache_bytes, f"{_SYSTEM_CPU}/cpu*/cache, instances summed"
        ),
        throttled_ratio=_throttled(notes, limits),
        hypervisor=_hypervisor(notes, host, info),
    )
    return cpu, tuple(notes.rows)


def _logical_source(online: frozenset[int] | None, info: CpuInfo) -> str:
    if online:
        return f"{_SYSTEM_CPU}/online"
    return "/proc/cpuinfo processor" if info.processors else "cpuset.cpus.effective"


def _throttled(notes: Notes, limits: Limits) -> float | None:
    found = limits.throttled
    source = found.source if found else "cpu.stat"
    return notes.note("cpu.throttled_ratio", found.ratio if found else None, source, "no quota has counted any period")


def _hypervisor(notes: Notes, host: Host, info: CpuInfo) -> str | None:
    name = read_hypervisor(host, info.flags)
    return notes.note("cpu.hypervisor", name, "/sys/class/dmi/id, /proc/cpuinfo", "no sign of a virtual machine")


def _flags(notes: Notes, info: CpuInfo, reason: str | None) -> tuple[str, ...]:
    notes.note("cpu.flags", info.flags if info.has_flags else None, "/proc/cpuinfo", reason)
    return info.flags


def _allowed(host: Host, process: str, cpus: frozenset[int]) -> frozenset[int] | None:
    status = read_source(host, f"/proc/{process}/status").content or ""
    for line in status.splitlines():
        name, _, value = line.partition(":")
        if name == "Cpus_allowed_list":
            listed = parse_cpu_list(value)
            # The list may name processors that could be plugged in later.
            return (listed & cpus or None) if listed else None
    return None


def _affinity(host: Host, process: str, allowed: frozenset[int] | None) -> int | None:
    own = host.affinity_cpus() if process == "self" else None
    return own or (len(allowed) if allowed else None)


def _usable(*bounds: float | None) -> int | None:
    """The floor of the smallest known bound, and at least one; None where nothing is known."""
    known = [bound for bound in bounds if bound is not None]
    return max(1, math.floor(min(known))) if known else None
