"""Swap and re-reading while an engine works: the whole machine's counters, and whose traffic they were."""

from __future__ import annotations

import re
from dataclasses import dataclass

from llmops.core.errors import LlmopsError
from llmops.core.units import KIB, format_bytes
from llmops.core.verification import Check, CheckStatus
from llmops.host import Host
from llmops.load import SwapCounters, SwapTraffic, swap_counters, swap_traffic

_KIBIBYTES = re.compile(r"^(VmSwap|MemTotal|MemAvailable):\s+(\d+) kB$", re.MULTILINE)
_MAJOR_FAULTS_FIELD = 9  # field 12 of /proc/PID/stat, counted from the state, which follows the name (proc(5))
# A server faults a few pages of rarely used code and data in at any time.
FEW_FAULTS = 64
# With this share of memory available the kernel swaps for nobody but a group at its own limit.
PLENTY_SHARE = 0.10


@dataclass(frozen=True)
class PagingBefore:
    """The counters when the work began; `counters` is None, with the reason, where they could not be read."""

    counters: SwapCounters | None
    unseen: str
    own_major_faults: int | None


@dataclass(frozen=True)
class Paging:
    """What moved meanwhile: on the whole machine, and what of it was the engine's own; None is not observed."""

    traffic: SwapTraffic | None
    unseen: str
    own_major_faults: int | None
    own_swap_bytes: int | None
    available_share: float | None

    @property
    def swapped(self) -> bool:
        """Whether the machine swapped at all."""
        return self.traffic is not None and self.traffic.swapped

    @property
    def swapped_by_others(self) -> bool:
        """True where nothing of the engine is in swap and memory is plentiful: somebody else is at a limit."""
        return self.own_swap_bytes == 0 and (self.available_share or 0.0) >= PLENTY_SHARE

    def reread(self, weights_bytes: int) -> bool:
        """Whether the engine itself read a part of its model from disk again."""
        if self.traffic is None or not self.traffic.reread(weights_bytes):
            return False
        return self.own_major_faults is None or self.own_major_faults > FEW_FAULTS


def begin(host: Host, pid: int | None) -> PagingBefore:
    """Read the counters before the work."""
    try:
        return PagingBefore(swap_counters(host), "", _major_faults(host, pid))
    except (OSError, LlmopsError) as problem:
        return PagingBefore(None, str(problem), None)


def end(host: Host, pid: int | None, before: PagingBefore) -> Paging:
    """Read them again and tell whose traffic it was."""
    traffic = None if before.counters is None else swap_traffic(before.counters, swap_counters(host))
    faults = _major_faults(host, pid)
    own = None if faults is None or before.own_major_faults is None else faults - before.own_major_faults
    status = _sizes(host, f"/proc/{pid}/status")
    memory = _sizes(host, "/proc/meminfo")
    total = memory.get("MemTotal")
    share = memory["MemAvailable"] / total if total and "MemAvailable" in memory else None
    return Paging(traffic, before.unseen, own, status.get("VmSwap"), share)


def _sizes(host: Host, path: str) -> dict[str, int]:
    try:
        text = host.read_text(path)
    except OSError:
        return {}
    return {name: int(kibibytes) * KIB for name, kibibytes in _KIBIBYTES.findall(text)}


def _major_faults(host: Host, pid: int | None) -> int | None:
    try:
        fields = host.read_text(f"/proc/{pid}/stat").rpartition(")")[2].split()
    except OSError:
        return None
    text = fields[_MAJOR_FAULTS_FIELD] if len(fields) > _MAJOR_FAULTS_FIELD else ""
    return int(text) if text.isdigit() else None


def paging_checks(paging: Paging, weights_bytes: int, *, repeated: bool) -> tuple[Check, ...]:
    """No swapping, and no reading of the model again, during the test requests."""
    if paging.traffic is None:
        return tuple(
            Check(name, "none", None, CheckStatus.NOT_EVALUATED, paging.unseen) for name in ("no_swap", "no_rereading")
        )
    twice = ", and in the test before it" if repeated else ""
    return (_no_swap(paging, paging.traffic, twice), _no_rereading(paging, paging.traffic, weights_bytes, twice))


def _no_swap(paging: Paging, traffic: SwapTraffic, twice: str) -> Check:
    moved = f"{format_bytes(traffic.swapped_in_bytes)} in, {format_bytes(traffic.swapped_out_bytes)} out"
    if not traffic.swapped:
        return Check("no_swap", "none", "none", CheckStatus.PASS, f"{moved} in {traffic.seconds:.1f} s of requests")
    detail = f"{moved} in {traffic.seconds:.1f} s of requests{twice}"
    if paging.swapped_by_others:
        why = f"others swapped ({detail}); nothing of the engine is in swap and memory is available"
        return Check("no_swap", "none", "by others", CheckStatus.NOT_EVALUATED, why)
    return Check("no_swap", "none", "swapping", CheckStatus.FAIL, detail)


def _no_rereading(paging: Paging, traffic: SwapTraffic, weights_bytes: int, twice: str) -> Check:
    again = paging.reread(weights_bytes)
    own = "" if paging.own_major_faults is None else f", {paging.own_major_faults} major faults of the engine"
    detail = f"{format_bytes(traffic.read_bytes)} read from disk by all{own}{twice if again else ''}"
    observed, status = ("the model is read again", CheckStatus.FAIL) if again else ("none", CheckStatus.PASS)
    return Check("no_rereading", "none", observed, status, detail)
