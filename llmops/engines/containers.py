"""Engines in containers and snaps: found and named, so that llmops leaves them alone and says how to set them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from llmops.host import Host, ProcessInfo

# Control groups of containers: docker-<id>.scope or /docker/<id>, libpod-<id>.scope, kubepods, cri-containerd-<id>.
_MACHINE = re.compile(
    r"machine\.slice/[^/\s]+|lxc\.payload[^/\s]*|/lxc/[^/\s]+|systemd-nspawn@[^/\s]+|machine-[^/\s]+\.scope"
    r"|[^/\s]+/payload(?=[/\s]|$)"  # systemd-nspawn --keep-unit, in whatever group it was started
)
_GROUPS = (
    ("podman", re.compile(r"libpod-(?:conmon-)?([0-9a-f]{12,64})")),
    ("docker", re.compile(r"docker[-/]([0-9a-f]{12,64})")),
    ("docker", re.compile(r"(?:cri-containerd-|kubepods\S*/)([0-9a-f-]{12,64})")),
)


@dataclass(frozen=True)
class Container:
    """One container that runs an engine; `manager` is docker or podman."""

    manager: str
    identity: str
    description: str


def list_containers(host: Host, image: re.Pattern[str]) -> tuple[Container, ...]:
    """Running containers whose image or command matches `image`, by every container manager that is installed."""
    return tuple(
        container
        for manager in ("docker", "podman")
        if host.which(manager) is not None
        for container in _listed_by(host, manager, image)
    )


def _listed_by(host: Host, manager: str, image: re.Pattern[str]) -> Iterator[Container]:
    try:
        answer = host.query((manager, "ps", "--no-trunc", "--format", "{{json .}}"))
    except (OSError, TimeoutError):
        return
    if answer.exit_code != 0:  # the daemon does not run, or this user may not ask it
        return
    for line in answer.stdout.splitlines():
        try:
            entry = json.loads(line)
        except ValueError:
            continue
        if isinstance(entry, dict) and image.search(f"{entry.get('Image')} {entry.get('Command')}"):
            yield _container(manager, entry)


def _container(manager: str, entry: dict[str, Any]) -> Container:
    names = entry.get("Names") or entry.get("Name") or ""
    name = names[0] if isinstance(names, list) and names else names
    identity = str(entry.get("ID") or entry.get("Id") or "")
    return Container(manager, identity, f"container {name or identity[:12]} of image {entry.get('Image')}")


def container_of(process: ProcessInfo) -> Container | None:
    """The container that a process runs in, told by its control group."""
    for manager, pattern in _GROUPS:
        match = pattern.search(process.control_group or "")
        if match:
            return Container(manager, match.group(1), f"container {match.group(1)[:12]}")
    return None


def own_machine(host: Host) -> frozenset[str]:
    """The names of machines and containers that this process itself runs in, by its control groups."""
    try:
        return frozenset(_MACHINE.findall(host.read_text("/proc/self/cgroup")))
    except OSError:
        return frozenset()


def in_another_machine(process: ProcessInfo, own: frozenset[str]) -> bool:
    """Whether a process belongs to a system container (nspawn, LXC), which is a machine of its own."""
    return bool(set(_MACHINE.findall(process.control_group or "")) - own)


def is_here(process: ProcessInfo, own: frozenset[str]) -> bool:
    """Whether it runs on this machine, in a container or not."""
    return container_of(process) is not None or not in_another_machine(process, own)


def is_snap(path: str) -> bool:
    """Whether a program belongs to a snap package."""
    return path.startswith("/snap/") or "/snap/bin/" in path
