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
_GROUPS = "control groups"
_AVERAGE_60 = re.compile(r"^(some|full) .*\bavg60=([0-9.]+)", re.MULTILINE)


def read_memory(
    host: Host, limits: Limits, *, engine_pids: tuple[int, ...] = (), engine_limit_bytes: int | None = None
) -> tuple[Memory, tuple[Observation, ...]]:
    """Memory now. `engine_limit_bytes` is the unit's own MemoryMax, `engine_pids` the processes of the tuned engine."""
    notes = Notes()
    total, available = _of_machine(notes, host)
    limit, limit_available = _of_groups(notes, limits)
    notes.note(
        "memory.engine_limit_bytes", engine_limit_bytes, "MemoryMax of the engine's unit", "no limit in the unit"
    )
    some, full = _pressure(notes, host)
    used = _used_by_group(notes, limits)
    held, processes = held_by_engine(host, engine_pids), ", ".join(str(pid) for pid in engine_pids)
    read = f"RssAnon + RssShmem + locked pages of process {processes}" if engine_pids else "no engine runs"
    notes.note("memory.held_by_engine_bytes", held, read)
    memory = Memory(
        total_bytes=total,
        available_bytes=available,
        limit_bytes=limit,
        limit_available_bytes=limit_available,
        limit_source=limits.memory.source if limits.memory else None,
        engine_limit_bytes=engine_limit_bytes,
        held_by_engine_bytes=held,
        pressure_some_percent=some,
        pressure_full_percent=full,
        group_used_bytes=used,
    )
    return memory, tuple(notes.rows)


def _of_machine(notes: Notes, host: Host) -> tuple[int | None, int | None]:
    """All of it, and what is available now."""
    meminfo = read_source(host, _MEMINFO)
    kilobytes = keyed_numbers(meminfo.content)
    total, available = _bytes(kilobytes, "MemTotal"), _bytes(kilobytes, "MemAvailable")
    notes.note("memory.total_bytes", total, f"{_MEMINFO} MemTotal", meminfo.reason)
    notes.note("memory.available_bytes", available, f"{_MEMINFO} MemAvailable", meminfo.reason)
    return total, available


def _of_groups(notes: Notes, limits: Limits) -> tuple[int | None, int | None]:
    """The smallest limit of the control groups, and the least room under any of them."""
    limit, room = limits.memory, limits.available
    limit_bytes, room_bytes = limit.limit_bytes if limit else None, room.available_bytes if room else None
    source = limit.source if limit else _GROUPS
    room_source = f"{room.source} less use without page cache" if room else _GROUPS
    notes.note("memory.limit_bytes", limit_bytes, source, limits.memory_reason)
    notes.note("memory.limit_available_bytes", room_bytes, room_source, limits.memory_reason)
    return limit_bytes, room_bytes


def _pressure(notes: Notes, host: Host) -> tuple[float | None, float | None]:
    """Percent of the last minute in which some processes, or all, waited for memory."""
    pressure = read_source(host, _PRESSURE)
    averages = {kind: float(value) for kind, value in _AVERAGE_60.findall(pressure.content or "")}
    some, full = averages.get("some"), averages.get("full")
    notes.note("memory.pressure_some_percent", some, f"{_PRESSURE} some avg60", pressure.reason)
    notes.note("memory.pressure_full_percent", full, f"{_PRESSURE} full avg60", pressure.reason)
    return some, full


def _used_by_group(notes: Notes, limits: Limits) -> int | None:
    used = limits.group_used
    source = used.source if used else _GROUPS
    return notes.note("memory.group_used_bytes", used.used_bytes if used else None, source, "not in a container")


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
