"""How fast this machine reads main memory: the figure that token generation on processors depends on."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median

from llmops.core.hardware import Bandwidth, Cpu, Memory, Observation
from llmops.core.units import GIB, MIB, format_bytes
from llmops.host import Host
from llmops.probe.busy import busy_reason
from llmops.probe.sources import Notes

# A cache that keeps a fixed part of what streams through it serves at most a quarter of such a read.
CACHE_MULTIPLE = 4
# Virtual machines often report a slice of the cache, or none: a small buffer would be read from the real one.
MINIMUM_WANTED_BYTES = GIB
AVAILABLE_SHARE = 4
PASSES = 7
# Writing is slower than reading (every page is given out and cleared); passes need the rest of the three seconds.
WRITING_SECONDS = 1.2
CALIBRATION_BYTES = 64 * MIB
CALIBRATION_BYTES_PER_THREAD = 4 * MIB
# Passes of an idle machine differ by a few percent; a quarter is the accuracy that is promised.
LARGEST_RELIABLE_SPREAD = 0.25

_SOURCE = "libc memchr over written private buffers, all usable threads at once"


@dataclass(frozen=True)
class _Buffer:
    """The size to read, why it is smaller than wanted (if so), and whether it is too small for the cache."""

    size_bytes: int
    reason: str | None
    cached: bool


def read_bandwidth(host: Host, cpu: Cpu, memory: Memory) -> tuple[Bandwidth, tuple[Observation, ...]]:
    """Measure reading; takes under three seconds and at most a quarter of the available memory."""
    rooms = [room for room in (memory.available_bytes, memory.limit_available_bytes) if room is not None]
    if not rooms:
        return _result(_nothing("the available memory is unknown, so no buffer is safe"))
    threads = cpu.usable_threads or 1
    busy = busy_reason(host, cpu.logical_cpus or 1)
    cap_bytes = min(rooms) // AVAILABLE_SHARE
    try:
        buffer = _buffer(cpu, cap_bytes, _writable_bytes(host, threads, cap_bytes))
        seconds = host.memory_read_seconds(buffer.size_bytes, threads, PASSES)
    except OSError as error:
        return _result(_nothing(f"the buffers were refused: {error}"))
    return _result(_judge(buffer, threads, seconds, busy))


def _writable_bytes(host: Host, threads: int, cap_bytes: int) -> int | None:
    """How much can be written in the time for it, from a small trial; None where the clock shows nothing."""
    trial_bytes = min(cap_bytes, max(CALIBRATION_BYTES, CALIBRATION_BYTES_PER_THREAD * threads))
    begun = host.monotonic()
    host.memory_read_seconds(trial_bytes, threads, 1)
    elapsed = host.monotonic() - begun
    return int(trial_bytes / elapsed * WRITING_SECONDS) if elapsed > 0 else None


def _buffer(cpu: Cpu, cap_bytes: int, writable_bytes: int | None) -> _Buffer:
    cache = cpu.last_level_cache_bytes
    needed = CACHE_MULTIPLE * cache if cache else MINIMUM_WANTED_BYTES
    wanted = max(needed, MINIMUM_WANTED_BYTES)
    size, reason = wanted, None
    if cap_bytes < size:
        size = cap_bytes
        reason = f"capped at a quarter of the available memory: {format_bytes(size)} of {format_bytes(wanted)} wanted"
    if writable_bytes is not None and writable_bytes < size:
        size = writable_bytes
        reason = f"cut to what can be written in time: {format_bytes(size)} of {format_bytes(wanted)} wanted"
    return _Buffer(size, reason, size < needed)


def _judge(buffer: _Buffer, threads: int, seconds: tuple[float, ...], busy: str | None) -> Bandwidth:
    middle = median(seconds)
    spread = (max(seconds) - min(seconds)) / middle
    doubts = []
    if busy:
        doubts.append(busy)
    if spread > LARGEST_RELIABLE_SPREAD:
        doubts.append(f"the passes differ by {spread:.0%}")
    if len(seconds) < 2:
        doubts.append("there was time for one pass only")
    if buffer.cached:
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
