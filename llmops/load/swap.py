"""Did the machine swap, or read the model from disk again, while it was generating?"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from llmops.core.errors import UnreadableInput
from llmops.host import Host

VMSTAT = "/proc/vmstat"
_AUXILIARY_VECTOR = "/proc/self/auxv"
_AT_PAGESZ = 6  # getauxval(3)
_USUAL_PAGE_BYTES = 4096
_KIB = 1024
# A machine at rest moves a few pages now and then; less than this during a test says nothing about the engine.
NOISE_BYTES = 1024 * 1024
# A model that fits is read once, at the start; this share of it read again means that its pages do not stay.
REREAD_SHARE = 0.05


@dataclass(frozen=True)
class SwapCounters:
    """Totals since boot from /proc/vmstat; they are of the whole machine, also inside a container.

    `read_bytes` counts block devices only: a model on a network file system does not show.
    """

    at_seconds: float
    swapped_in_bytes: int
    swapped_out_bytes: int
    read_bytes: int
    major_faults: int


@dataclass(frozen=True)
class SwapTraffic:
    """What moved during an interval: si, so and bi of vmstat in bytes."""

    seconds: float
    swapped_in_bytes: int
    swapped_out_bytes: int
    read_bytes: int
    major_faults: int

    @property
    def swapped(self) -> bool:
        """More swap traffic than a machine at rest has."""
        return self.swapped_in_bytes + self.swapped_out_bytes > NOISE_BYTES

    def reread(self, weights_bytes: int) -> bool:
        """True when a part of the model that counts was read from disk again by page faults (mmap without room)."""
        return self.major_faults > 0 and self.read_bytes > max(NOISE_BYTES, weights_bytes * REREAD_SHARE)


def swap_counters(host: Host) -> SwapCounters:
    """Read the counters; raises OSError where /proc/vmstat is absent and UnreadableInput where a counter is."""
    lines = (line.split() for line in host.read_text(VMSTAT).splitlines())
    values = {line[0]: int(line[1]) for line in lines if len(line) == 2 and line[1].isdigit()}
    missing = [name for name in ("pswpin", "pswpout", "pgpgin", "pgmajfault") if name not in values]
    if missing:
        raise UnreadableInput(f"{VMSTAT} has no {' and no '.join(missing)}", hint="the kernel is built without swap?")
    page_bytes = _page_bytes(host)
    return SwapCounters(
        at_seconds=host.monotonic(),
        swapped_in_bytes=values["pswpin"] * page_bytes,
        swapped_out_bytes=values["pswpout"] * page_bytes,
        read_bytes=values["pgpgin"] * _KIB,  # in KiB, unlike its neighbours: mm/vmstat.c halves the 512-byte sectors
        major_faults=values["pgmajfault"],
    )


def swap_traffic(before: SwapCounters, after: SwapCounters) -> SwapTraffic:
    """What moved between two readings."""
    return SwapTraffic(
        seconds=after.at_seconds - before.at_seconds,
        swapped_in_bytes=after.swapped_in_bytes - before.swapped_in_bytes,
        swapped_out_bytes=after.swapped_out_bytes - before.swapped_out_bytes,
        read_bytes=after.read_bytes - before.read_bytes,
        major_faults=after.major_faults - before.major_faults,
    )


def _page_bytes(host: Host) -> int:
    """The page size that the kernel told this process (64 KiB on some ARM machines); 4 KiB where it may not be read."""
    try:
        vector = host.read_bytes(_AUXILIARY_VECTOR, 0, 4096)
    except OSError:
        return _USUAL_PAGE_BYTES
    pairs = dict(struct.iter_unpack("@LL", vector[: len(vector) // 16 * 16]))
    return int(pairs.get(_AT_PAGESZ, _USUAL_PAGE_BYTES))
