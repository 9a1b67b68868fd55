"""Where the control groups of a process are mounted, version 1 and 2: every directory from its own group up."""

from __future__ import annotations

from dataclasses import dataclass

from llmops.host import Host
from llmops.probe.sources import Text, read_source, read_value

# Where a hierarchy is mounted by custom, and a file that is there when it is.
_STANDARD = {
    "cpu": ((2, "/sys/fs/cgroup", "cpu.max"), (1, "/sys/fs/cgroup/cpu", "cpu.cfs_quota_us")),
    "memory": ((2, "/sys/fs/cgroup", "memory.max"), (1, "/sys/fs/cgroup/memory", "memory.limit_in_bytes")),
}


@dataclass(frozen=True)
class Hierarchy:
    """One mounted hierarchy and the directories from the process's own group up to the mount point."""

    version: int
    directories: tuple[str, ...]


@dataclass(frozen=True)
class _Mount:
    filesystem: str
    root: str
    point: str
    controllers: frozenset[str]


@dataclass(frozen=True)
class Hierarchies:
    """Those of processor time and memory; `reason` says why neither could be found."""

    cpu: Hierarchy | None
    memory: Hierarchy | None
    reason: str | None = None


def read_hierarchies(host: Host, process: str) -> Hierarchies:
    """From /proc; where that does not tell, the places where hierarchies are mounted by custom."""
    groups = read_source(host, f"/proc/{process}/cgroup")
    mounts = read_source(host, "/proc/self/mountinfo")
    if groups.content is None or mounts.content is None:
        return _by_custom(host, groups, mounts)
    paths, mounted = _parse_groups(groups.content), _parse_mounts(mounts.content)
    return Hierarchies(_hierarchy("cpu", paths, mounted), _hierarchy("memory", paths, mounted))


def _by_custom(host: Host, groups: Text, mounts: Text) -> Hierarchies:
    cpu, memory = (
        next(
            (Hierarchy(version, (point,)) for version, point, name in places if read_value(host, f"{point}/{name}")),
            None,
        )
        for places in (_STANDARD["cpu"], _STANDARD["memory"])
    )
    return Hierarchies(cpu, memory, None if cpu or memory else groups.reason or mounts.reason)


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


def _hierarchy(controller: str, paths: dict[str, str], mounts: tuple[_Mount, ...]) -> Hierarchy | None:
    """Version 1 where the controller is attached there (a hybrid machine has both), else the unified one."""
    first = [mount for mount in mounts if mount.filesystem == "cgroup" and controller in mount.controllers]
    if controller in paths and first:
        return Hierarchy(1, _levels(first, paths[controller]))
    unified = [mount for mount in mounts if mount.filesystem == "cgroup2"]
    if "" in paths and unified:
        return Hierarchy(2, _levels(unified, paths[""]))
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
