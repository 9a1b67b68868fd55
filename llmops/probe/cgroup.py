"""Limits on processors and memory from control groups, version 1 and 2, over every level that can be seen."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeVar

from llmops.host import Host
from llmops.probe.sources import keyed_numbers, read_source, read_value, to_int

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
class Limits:
    """The tightest limits; `*_reason` says why there is none."""

    quota: CpuQuota | None
    quota_reason: str | None
    memory: MemoryLimit | None
    available: MemoryLimit | None
    memory_reason: str | None


@dataclass(frozen=True)
class _Hierarchy:
    """One mounted hierarchy and the directories from the process's own group up to the mount point."""

    version: int
    directories: tuple[str, ...]


@dataclass(frozen=True)
class _Mount:
    filesystem: str
    root: str
    point: str
    controllers: frozenset[str]


def read_limits(host: Host, process: str = "self") -> Limits:
    """The limits on a process (`self` or a process id)."""
    groups = read_source(host, f"/proc/{process}/cgroup")
    mounts = read_source(host, "/proc/self/mountinfo")
    if groups.content is None or mounts.content is None:
        reason = groups.reason or mounts.reason
        return Limits(None, reason, None, None, reason)
    paths, mounted = _parse_groups(groups.content), _parse_mounts(mounts.content)
    cpu = _hierarchy("cpu", paths, mounted)
    memory = _hierarchy("memory", paths, mounted)
    quota = min(_each(cpu, host, {1: _quota_v1, 2: _quota_v2}), key=lambda found: found.cores, default=None)
    limits = _each(memory, host, {1: _memory_v1, 2: _memory_v2})
    with_room = [limit for limit in limits if limit.available_bytes is not None]
    return Limits(
        quota,
        None if quota else _no_limit(cpu, "processor quota"),
        min(limits, key=lambda found: found.limit_bytes, default=None),
        min(with_room, key=lambda found: found.available_bytes or 0, default=None),
        None if limits else _no_limit(memory, "memory limit"),
    )


def _no_limit(hierarchy: _Hierarchy | None, what: str) -> str:
    if hierarchy is None:
        return f"no control-group hierarchy with a {what} is mounted"
    levels = len(hierarchy.directories)
    return f"no {what} at any of {levels} control-group levels from {hierarchy.directories[0]} up"


def _parse_groups(content: str) -> dict[str, str]:
    """Controller -> path of the group; the unified hierarchy has the empty name."""
    paths: dict[str, str] = {}
    for line in content.splitlines():
        fields = line.split(":", 2)
        if len(fields) == 3:
            for controller in fields[1].split(","):
                paths[controller] = fields[2]
    return paths


def _parse_mounts(content: str) -> tuple[_Mount, ...]:
    """Fields of proc_pid_mountinfo(5): 4 root, 5 mount point; after the dash type, source, super options."""
    mounts = []
    for line in content.splitlines():
        before, dash, after = line.partition(" - ")
        fields, tail = before.split(), after.split()
        if dash and len(fields) > 4 and len(tail) > 2 and tail[0] in {"cgroup", "cgroup2"}:
            mounts.append(_Mount(tail[0], _unescape(fields[3]), _unescape(fields[4]), frozenset(tail[2].split(","))))
    return tuple(mounts)


def _unescape(path: str) -> str:
    return path.replace("\\040", " ").replace("\\134", "\\")


def _hierarchy(controller: str, paths: dict[str, str], mounts: tuple[_Mount, ...]) -> _Hierarchy | None:
    """Version 1 where the controller is attached there (a hybrid machine has both), else the unified one."""
    first = [mount for mount in mounts if mount.filesystem == "cgroup" and controller in mount.controllers]
    if controller in paths and first:
        return _Hierarchy(1, _levels(first, paths[controller]))
    unified = [mount for mount in mounts if mount.filesystem == "cgroup2"]
    if "" in paths and unified:
        return _Hierarchy(2, _levels(unified, paths[""]))
    return None


def _levels(mounts: list[_Mount], path: str) -> tuple[str, ...]:
    """Directories of the group and its parents as far as the mount shows them.

    In a container without a group namespace the mount's root is the container's group and is cut off the path; a path
    outside of what is mounted (`/../..`) leaves only the mount point itself.
    """
    for mount in mounts:
        root = mount.root.rstrip("/")
        if "/.." not in path and (path == root or path.startswith(root + "/")):
            inner = [part for part in path[len(root) :].split("/") if part]
            return tuple("/".join([mount.point, *inner[:depth]]) for depth in range(len(inner), -1, -1))
    return (mounts[0].point,)


def _each(hierarchy: _Hierarchy | None, host: Host, readers: dict[int, Callable[[Host, str], Iterator[T]]]) -> list[T]:
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
