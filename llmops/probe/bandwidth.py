"""How fast this machine reads main memory: the figure that token generation on processors depends on."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median

from llmops.core.hardware import Bandwidth, Cpu, Memory, Observation
from llmops.core.units import GIB, format_bytes
from llmops.host import Host
from llmops.probe.busy import busy_reason
from llmops.probe.sources import Notes

# A cache that keeps a fixed part of what streams through it serves at most a quarter of such a read.
CACHE_MULTIPLE = 4
# Virtual machines often report a slice of the cache, or none: a small buffer would be read from the real one.
MINIMUM_WANTED_BYTES = GIB
AVAILABLE_SHARE = 4
PASSES = 7
# After a buffer that could not be written in time (every page is given out and cleared) there is time for less.
SECOND_TRY_SHARE = 4
SECOND_TRY_PASSES = 3
# Passes of an idle machine differ by a few percent; a quarter is the accuracy that is promised.
LARGEST_RELIABLE_SPREAD = 0.25

_SOURCE = "libc memchr over written private buffers, all usable threads at once"


@dataclass(frozen=True)
class _Buffer:
    """The size to read, what the cache makes necessary, and why it is smaller than wanted (if so)."""

    size_bytes: int
    needed_bytes: int
    reason: str | None


def read_bandwidth(host: Host, cpu: Cpu, memory: Memory) -> tuple[Bandwidth, tuple[Observation, ...]]:
    """Measure reading; takes under three seconds and at most a quarter of the available memory."""
    rooms = [room for room in (memory.available_bytes, memory.limit_available_bytes) if room is not None]
    if not rooms:
        return _result(_nothing("the available memory is unknown, so no buffer is safe"))
    threads = cpu.usable_threads or 1
    busy = busy_reason(host, cpu.logical_cpus or 1)
    buffer = _buffer(cpu, min(rooms) // AVAILABLE_SHARE)
    try:
        return _result(_judge(buffer, threads, host.memory_read_seconds(buffer.size_bytes, threads, PASSES), busy))
    except TimeoutError:
        smaller = _second_buffer(buffer)
    except OSError as error:
        return _result(_nothing(f"the buffers were refused: {error}"))
    try:
        seconds = host.memory_read_seconds(smaller.size_bytes, threads, SECOND_TRY_PASSES)
    except OSError as error:
        return _result(_nothing(f"memory is given out too slowly: {error}"))
    return _result(_judge(smaller, threads, seconds, busy))


def _buffer(cpu: Cpu, cap_bytes: int) -> _Buffer:
    cache = cpu.last_level_cache_bytes
    needed = CACHE_MULTIPLE * cache if cache else MINIMUM_WANTED_BYTES
    wanted = max(needed, MINIMUM_WANTED_BYTES)
    if cap_bytes >= wanted:
        return _Buffer(wanted, needed, None)
    reason = f"capped at a quarter of the available memory: {format_bytes(cap_bytes)} of {format_bytes(wanted)} wanted"
    return _Buffer(cap_bytes, needed, reason)


def _second_buffer(buffer: _Buffer) -> _Buffer:
    size = buffer.size_bytes // SECOND_TRY_SHARE
    reason = f"cut to {format_bytes(size)}: {format_bytes(buffer.size_bytes)} could not be written in time"
    return _Buffer(size, buffer.needed_bytes, reason)


def _judge(buffer: _Buffer, threads: int, seconds: tuple[float, ...], busy: str | None) -> Bandwidth:
    middle = median(seconds) if seconds else 0.0
    if middle <= 0:
        return _nothing("no pass was timed")
    spread = (max(seconds) - min(seconds)) / middle
    doubts = []
    if busy:
        doubts.append(busy)
    if spread > LARGEST_RELIABLE_SPREAD:
        doubts.append(f"the passes differ by {spread:.0%}")
    if len(seconds) < 2:
        doubts.append("there was time for one pass only")
    if buffer.size_bytes < buffer.needed_bytes:
        doubts.append("the buffers are too small for this cache, so part of the read may come from it")
    reasons = [*([buffer.reason] if buffer.reason else []), *doubts]
    return Bandwidth(
        read_bytes_per_second=round(buffer.size_bytes / middle),
        spread=spread,
        buffer_bytes=buffer.size_bytes,
        threads=threads,
        passes=len(seconds),
        reliable=not doubts,
        reason="; ".join(reasons) or None,
    )


def _nothing(reason: str) -> Bandwidth:
    return Bandwidth(None, None, None, None, 0, reliable=False, reason=reason)


def _result(bandwidth: Bandwidth) -> tuple[Bandwidth, tuple[Observation, ...]]:
    notes = Notes()
    for name in ("read_bytes_per_second", "spread", "buffer_bytes"):
        notes.note(f"bandwidth.{name}", getattr(bandwidth, name), _SOURCE, bandwidth.reason)
    return bandwidth, tuple(notes.rows)
