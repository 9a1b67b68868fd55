"""Host memory: /proc/meminfo, control-group limits, pressure, and what the engine being tuned holds."""

from __future__ import annotations

import re

from llmops.core.hardware import Memory, Observation
from llmops.core.units import KIB
from llmops.host import Host
from llmops.probe.cgroup import Limits
from llmops.probe.sources import Notes, keyed_numbers, read_source

_MEMINFO = "/proc/meminfo"
_PRESSURE = "/proc/pressure/memory"
_AVERAGE_60 = re.compile(r"^(some|full) .*\bavg60=([0-9.]+)", re.MULTILINE)


def read_memory(
    host: Host, limits: Limits, *, engine_pids: tuple[int, ...] = (), engine_limit_bytes: int | None = None
) -> tuple[Memory, tuple[Observation, ...]]:
    """Memory now. `engine_limit_bytes` is the unit's own MemoryMax, `engine_pids` the processes of the tuned engine."""
    notes = Notes()
    meminfo = read_source(host, _MEMINFO)
    kilobytes = keyed_numbers(meminfo.content)
    pressure = read_source(host, _PRESSURE)
    averages = {kind: float(value) for kind, value in _AVERAGE_60.findall(pressure.content or "")}
    limit, room = limits.memory, limits.available
    memory = Memory(
        total_bytes=notes.note(
            "memory.total_bytes", _bytes(kilobytes, "MemTotal"), f"{_MEMINFO} MemTotal", meminfo.reason
        ),
        available_bytes=notes.note(
            "memory.available_bytes", _bytes(kilobytes, "MemAvailable"), f"{_MEMINFO} MemAvailable", meminfo.reason
        ),
        limit_bytes=notes.note(
            "memory.limit_bytes",
            limit.limit_bytes if limit else None,
            limit.source if limit else "control groups",
            limits.memory_reason,
        ),
        limit_available_bytes=notes.note(
            "memory.limit_available_bytes",
            room.available_bytes if room else None,
            f"{room.source} less use without page cache" if room else "control groups",
            limits.memory_reason,
        ),
        limit_source=limit.source if limit else None,
        engine_limit_bytes=notes.note(
            "memory.engine_limit_bytes", engine_limit_bytes, "MemoryMax of the engine's unit", "no limit in the unit"
        ),
        held_by_engine_bytes=held_by_engine(host, engine_pids),
        pressure_some_percent=notes.note(
            "memory.pressure_some_percent", averages.get("some"), f"{_PRESSURE} some avg60", pressure.reason
        ),
        pressure_full_percent=notes.note(
            "memory.pressure_full_percent", averages.get("full"), f"{_PRESSURE} full avg60", pressure.reason
        ),
        group_used_bytes=notes.note(
            "memory.group_used_bytes",
            limits.group_used.used_bytes if limits.group_used else None,
            limits.group_used.source if limits.group_used else "control groups",
            "not in a container",
        ),
    )
    processes = ", ".join(str(pid) for pid in engine_pids)
    notes.note(
        "memory.held_by_engine_bytes",
        memory.held_by_engine_bytes,
        f"RssAnon + RssShmem + locked pages of process {processes}" if engine_pids else "no engine runs",
    )
    return memory, tuple(notes.rows)


def _bytes(kilobytes: dict[str, int], name: str) -> int | None:
    """The file says kB and means KiB (proc_meminfo(5))."""
    value = kilobytes.get(name)
    return None if value is None else value * KIB


def held_by_engine(host: Host, pids: tuple[int, ...]) -> int:
    """Bytes that come back as available when these processes end; a process that is gone holds nothing.

    MemAvailable already counts the clean pages of mapped model files, so only anonymous and shared memory is added.
    Locked file pages are the exception: the kernel cannot take them back. Swapped-out pages are no memory at all.
    """
    return sum(_held(host, pid) for pid in pids)


def _held(host: Host, pid: int) -> int:
    status = keyed_numbers(read_source(host, f"/proc/{pid}/status").content)
    anonymous = status.get("RssAnon", 0)
    # What is locked may be anonymous too (weights read instead of mapped); counting the excess errs on the low side.
    locked_file_pages = min(status.get("RssFile", 0), max(0, status.get("VmLck", 0) - anonymous))
    return (anonymous + status.get("RssShmem", 0) + locked_file_pages) * KIB
