"""Limits on processors and memory from control groups, version 1 and 2, over every level that can be seen."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeVar

from llmops.host import Host
from llmops.probe.cgroup_hierarchy import Hierarchy, read_hierarchies
from llmops.probe.sources import keyed_numbers, parse_cpu_list, read_value, to_int

T = TypeVar("T")
# Version 1 writes "no limit" as the largest multiple of the page size that fits 63 bits.
_NO_LIMIT_FROM = 1 << 62


@dataclass(frozen=True)
class MemoryLimit:
    """One limit: what may still be taken below it, page cache that the kernel would give back not counted as used."""

    limit_bytes: int
    available_bytes: int | None
    source: str


@dataclass(frozen=True)
class CpuQuota:
    """Processor time that may be used per time passed: 2.0 is two whole processors."""

    cores: float
    source: str


@dataclass(frozen=True)
class Throttled:
    """The share of a quota's periods in which it ran out."""

    ratio: float
    source: str


@dataclass(frozen=True)
class GroupUse:
    """Memory charged to a group, page cache included."""

    used_bytes: int
    source: str


@dataclass(frozen=True)
class Limits:
    """The tightest limits; `*_reason` says why there is none.

    `group_used` is the use of the outermost visible group, `processors` those that the group may run on.
    """

    quota: CpuQuota | None
    quota_reason: str | None
    memory: MemoryLimit | None
    available: MemoryLimit | None
    memory_reason: str | None
    throttled: Throttled | None = None
    group_used: GroupUse | None = None
    processors: frozenset[int] | None = None


def read_limits(host: Host, process: str = "self") -> Limits:
    """The limits on a process (`self` or a process id)."""
    found = read_hierarchies(host, process)
    if found.reason is not None:
        return Limits(None, found.reason, None, None, found.reason)
    quota = min(_each(found.cpu, host, {1: _quota_v1, 2: _quota_v2}), key=lambda row: row.cores, default=None)
    limits = _each(found.memory, host, {1: _memory_v1, 2: _memory_v2})
    with_room = [limit for limit in limits if limit.available_bytes is not None]
    return Limits(
        quota,
        None if quota else _no_limit(found.cpu, "processor quota"),
        min(limits, key=lambda row: row.limit_bytes, default=None),
        min(with_room, key=lambda row: row.available_bytes or 0, default=None),
        None if limits else _no_limit(found.memory, "memory limit"),
        throttled=max(_each(found.cpu, host, {1: _throttled, 2: _throttled}), key=lambda row: row.ratio, default=None),
        group_used=_group_used(host, found.memory),
        processors=_processors(host, found.cpu),
    )


def _no_limit(hierarchy: Hierarchy | None, what: str) -> str:
    if hierarchy is None:
        return f"no control-group hierarchy with a {what} is mounted"
    levels = len(hierarchy.directories)
    return f"no {what} at any of {levels} control-group levels from {hierarchy.directories[0]} up"


def _each(hierarchy: Hierarchy | None, host: Host, readers: dict[int, Callable[[Host, str], Iterator[T]]]) -> list[T]:
    if hierarchy is None:
        return []
    return [found for directory in hierarchy.directories for found in readers[hierarchy.version](host, directory)]


def _quota_v1(host: Host, directory: str) -> Iterator[CpuQuota]:
    source = f"{directory}/cpu.cfs_quota_us"
    quota, period = to_int(read_value(host, source)), to_int(read_value(host, f"{directory}/cpu.cfs_period_us"))
    if quota is not None and period and quota > 0:
        yield CpuQuota(quota / period, source)


def _quota_v2(host: Host, directory: str) -> Iterator[CpuQuota]:
    """One line: `max 100000` or `150000 100000`, quota and period in microseconds."""
    source = f"{directory}/cpu.max"
    words = (read_value(host, source) or "").split()
    quota, period = (to_int(words[0]), to_int(words[1])) if len(words) == 2 else (None, None)
    if quota is not None and period and quota > 0:
        yield CpuQuota(quota / period, source)


def _throttled(host: Host, directory: str) -> Iterator[Throttled]:
    source = f"{directory}/cpu.stat"
    numbers = keyed_numbers(read_value(host, source))
    if numbers.get("nr_periods") and "nr_throttled" in numbers:
        yield Throttled(numbers["nr_throttled"] / numbers["nr_periods"], source)


def _processors(host: Host, hierarchy: Hierarchy | None) -> frozenset[int] | None:
    """cpuset.cpus.effective already is what all levels together leave."""
    if hierarchy is None or hierarchy.version == 1:
        return None
    texts = (read_value(host, f"{directory}/cpuset.cpus.effective") for directory in hierarchy.directories)
    return next((cpus for cpus in map(parse_cpu_list, texts) if cpus), None)


def _group_used(host: Host, hierarchy: Hierarchy | None) -> GroupUse | None:
    """Only a container has this file at its mount point: the group of the whole machine has none."""
    if hierarchy is None or hierarchy.version == 1:
        return None
    source = f"{hierarchy.directories[-1]}/memory.current"
    used = to_int(read_value(host, source))
    return None if used is None else GroupUse(used, source)


def _memory_v1(host: Host, directory: str) -> Iterator[MemoryLimit]:
    """The group's own limit, and the least of all its parents': memory.stat knows those that a container cannot see."""
    statistics = keyed_numbers(read_value(host, f"{directory}/memory.stat"))
    used = to_int(read_value(host, f"{directory}/memory.usage_in_bytes"))
    cache = statistics.get("total_inactive_file", 0) + statistics.get("total_active_file", 0)
    own = to_int(read_value(host, f"{directory}/memory.limit_in_bytes"))
    inherited = statistics.get("hierarchical_memory_limit")
    yield from _limit(own, used, cache, f"{directory}/memory.limit_in_bytes")
    if inherited != own:
        yield from _limit(inherited, used, cache, f"{directory}/memory.stat hierarchical_memory_limit")


def _memory_v2(host: Host, directory: str) -> Iterator[MemoryLimit]:
    """memory.max kills above it, memory.high slows everything down above it: a plan must stay below both."""
    limits = [(name, to_int(read_value(host, f"{directory}/{name}"))) for name in ("memory.max", "memory.high")]
    if all(limit is None for _, limit in limits):
        return
    used = to_int(read_value(host, f"{directory}/memory.current"))
    statistics = keyed_numbers(read_value(host, f"{directory}/memory.stat"))
    cache = sum(statistics.get(name, 0) for name in ("inactive_file", "active_file", "slab_reclaimable"))
    for name, limit in limits:
        yield from _limit(limit, used, cache, f"{directory}/{name}")


def _limit(limit: int | None, used: int | None, cache: int, source: str) -> Iterator[MemoryLimit]:
    if limit is None or not 0 <= limit < _NO_LIMIT_FROM:
        return
    held = None if used is None else max(0, used - cache)
    yield MemoryLimit(limit, None if held is None else max(0, limit - held), source)
