"""Whether something else is using the processors, so that a measurement taken now would say too little."""

from __future__ import annotations

import re

from llmops.host import Host
from llmops.probe.sources import read_value, to_int

# A seventh of the processors at work takes about that share of the figure, more than idle services ever do.
BUSY_SHARE = 0.15
# The load average lags by a minute; it decides only where the counters of /proc/stat do not move.
BUSY_LOAD_PER_PROCESSOR = 0.5
# A tenth of the time something waits for a processor: then threads of a measurement wait too.
BUSY_PRESSURE_PERCENT = 10.0
SAMPLE_SECONDS = 0.2

_AVERAGE_10 = re.compile(r"^some .*\bavg10=([0-9.]+)", re.MULTILINE)
# Columns of the cpu line in proc_stat(5): user nice system idle iowait irq softirq steal; guest time is in user.
_IDLE, _IOWAIT, _COLUMNS = 3, 4, 8


def busy_reason(host: Host, processors: int) -> str | None:
    """Why the machine counts as busy, or None; looks for a fifth of a second."""
    pressure = _AVERAGE_10.search(read_value(host, "/proc/pressure/cpu") or "")
    waiting_percent = float(pressure.group(1)) if pressure else 0.0
    if waiting_percent >= BUSY_PRESSURE_PERCENT:
        return f"the machine is busy: tasks waited for a processor {waiting_percent:.0f} % of the last 10 s"
    share = _busy_share(host)
    if share is not None:
        return f"the machine is busy: {share:.0%} of the processor time is taken" if share >= BUSY_SHARE else None
    load = _load_average(host)
    if load is not None and load >= BUSY_LOAD_PER_PROCESSOR * processors:
        return f"the machine is busy: load average {load:.2f} on {processors} processors"
    return None


def _busy_share(host: Host) -> float | None:
    """Share of all processor time that was not idle between two looks; None where nothing was counted."""
    before = _processor_times(host)
    host.sleep(SAMPLE_SECONDS)
    after = _processor_times(host)
    if before is None or after is None:
        return None
    passed = [late - early for early, late in zip(before, after, strict=True)]
    total = sum(passed)
    return None if total <= 0 else 1 - (passed[_IDLE] + passed[_IOWAIT]) / total


def _processor_times(host: Host) -> list[int] | None:
    first = (read_value(host, "/proc/stat") or "").partition("\n")[0].split()
    numbers = [to_int(word) for word in first[1 : 1 + _COLUMNS]]
    known = [number for number in numbers if number is not None]
    return known if first[:1] == ["cpu"] and len(known) == _COLUMNS else None


def _load_average(host: Host) -> float | None:
    words = (read_value(host, "/proc/loadavg") or "").split()
    return float(words[0]) if words and re.fullmatch(r"\d+(\.\d+)?", words[0]) else None
