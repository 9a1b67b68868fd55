"""What others took of the processors while an engine was measured: rates of a busy minute must not be remembered."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from llmops.host import Host

# /proc/stat, the line of all processors: user nice system idle iowait irq softirq steal (proc(5)), in clock ticks.
_IDLE, _WAITING, _COUNTED = 3, 4, 8
# utime and stime, fields 14 and 15 of /proc/PID/stat, counted from the state, which follows the name; same ticks.
_OWN_FIELDS = slice(11, 13)
# Others that take more than this of all processor time slow the engine by about as much, unless some of it is idle.
MOST_SHARE_OF_OTHERS = 0.20
IDLE_SHARE = 0.15
_FEWEST_TICKS = 20


@dataclass(frozen=True)
class ProcessorTime:
    """Ticks since boot: of all processors, of those that were busy (stolen ones too), of the engine and its workers."""

    total: int
    busy: int
    own: int


def processor_time(host: Host, pids: Sequence[int]) -> ProcessorTime | None:
    """None where the counters cannot be read."""
    try:
        line = host.read_text("/proc/stat").partition("\n")[0].split()
        stats = [host.read_text(f"/proc/{pid}/stat").rpartition(")")[2].split() for pid in pids]
        ticks = [int(word) for word in line[1 : 1 + _COUNTED]]
        own = sum(int(word) for fields in stats for word in fields[_OWN_FIELDS])
    except (OSError, ValueError):
        return None
    if len(ticks) < _COUNTED or not stats:
        return None
    total = sum(ticks)
    return ProcessorTime(total, total - ticks[_IDLE] - ticks[_WAITING], own)


def share_of_others(before: ProcessorTime | None, after: ProcessorTime | None) -> float | None:
    """Share of all processor time that others took; 0 where enough of it was idle, None when unknown."""
    if before is None or after is None or after.total - before.total < _FEWEST_TICKS:
        return None
    total, busy, own = (after.total - before.total, after.busy - before.busy, after.own - before.own)
    return 0.0 if total - busy > IDLE_SHARE * total else max(0.0, (busy - own) / total)
