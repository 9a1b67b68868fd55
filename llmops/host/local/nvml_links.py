"""How NVIDIA cards reach each other: NVLink, or PCIe and what lies between them, as NVML shows each pair."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import combinations
from typing import Any

from llmops.core.hardware import CardLink

Ask = Callable[..., Any]
# nvml.h, nvmlGpuTopologyLevel_t.
_PATHS = {
    0: "one board",
    10: "one PCIe switch",
    20: "several PCIe switches",
    30: "a host bridge",
    40: "one NUMA node",
    50: "the link between processors",
}
# nvmlGpuP2PCapsIndex_t; pynvml's own constant of the first one is a tuple.
_CAN_READ, _HAS_NVLINK = 0, 2
# Bytes per second of one lane by PCIe generation, after its encoding (8b/10b, from generation 3 on 128b/130b).
_LANE_BYTES = {1: 250_000_000, 2: 500_000_000, 3: 984_615_384, 4: 1_969_230_769, 5: 3_938_461_538, 6: 7_563_000_000}
_BYTES_PER_MEGABYTE = 1_000_000


def read_links(nvml: Any, ask: Ask, handles: Mapping[int, Any]) -> tuple[CardLink, ...]:
    """Every pair of these whole cards, by their indexes; what a card does not tell is None.

    `ask(function, *arguments)` gives None where the card or the library does not support a function.
    """
    return tuple(_link(nvml, ask, first, second, handles) for first, second in combinations(sorted(handles), 2))


def _link(nvml: Any, ask: Ask, first: int, second: int, handles: Mapping[int, Any]) -> CardLink:
    pair = handles[first], handles[second]
    nvlink = ask(nvml.nvmlDeviceGetP2PStatus, *pair, _HAS_NVLINK)
    reads = ask(nvml.nvmlDeviceGetP2PStatus, *pair, _CAN_READ)
    kind = None if nvlink is None else ("nvlink" if nvlink == nvml.NVML_P2P_STATUS_OK else "pcie")
    return CardLink(
        first=first,
        second=second,
        kind=kind,
        bytes_per_second=_nvlink_rate(nvml, ask, *pair) if kind == "nvlink" else _pcie_rate(nvml, ask, pair),
        path=_PATHS.get(ask(nvml.nvmlDeviceGetTopologyCommonAncestor, *pair)),
        peer_access=None if reads is None else reads == nvml.NVML_P2P_STATUS_OK,
    )


def _nvlink_rate(nvml: Any, ask: Ask, card: Any, other: Any) -> int | None:
    """Active links that lead to the other card, or to a switch that leads to all, times the rate of one."""
    peer = _bus_id(ask(nvml.nvmlDeviceGetPciInfo, other))
    links = sum(
        _leads_to(nvml, ask, card, number, peer)
        for number in range(nvml.NVML_NVLINK_MAX_LINKS)
        if ask(nvml.nvmlDeviceGetNvLinkState, card, number)
    )
    each = _field(nvml, ask, card, nvml.NVML_FI_DEV_NVLINK_SPEED_MBPS_COMMON)
    return links * each * _BYTES_PER_MEGABYTE if links and each else None


def _leads_to(nvml: Any, ask: Ask, card: Any, number: int, peer: str | None) -> bool:
    if ask(nvml.nvmlDeviceGetNvLinkRemoteDeviceType, card, number) == nvml.NVML_NVLINK_DEVICE_TYPE_SWITCH:
        return True
    return peer is not None and _bus_id(ask(nvml.nvmlDeviceGetNvLinkRemotePciInfo, card, number)) == peer


def _bus_id(info: Any) -> str | None:
    """The PCI address; its domain has four or eight digits, by the version of the call."""
    if info is None:
        return None
    text = info.busId.decode(errors="replace") if isinstance(info.busId, bytes) else str(info.busId)
    domain, _, rest = text.lower().partition(":")
    return f"{domain[-4:]}:{rest}"


def _field(nvml: Any, ask: Ask, card: Any, field: int) -> int | None:
    values = ask(nvml.nvmlDeviceGetFieldValues, card, [field])
    if not values or values[0].nvmlReturn != nvml.NVML_SUCCESS:
        return None
    return int(values[0].value.uiVal) or None


def _pcie_rate(nvml: Any, ask: Ask, pair: tuple[Any, Any]) -> int | None:
    """The slower of the two slots, in one direction; idle cards lower their current speed, so the highest counts."""
    rates: list[int] = []
    for card in pair:
        lane = _LANE_BYTES.get(ask(nvml.nvmlDeviceGetMaxPcieLinkGeneration, card) or 0)
        width = ask(nvml.nvmlDeviceGetMaxPcieLinkWidth, card)
        if not lane or not width:
            return None
        rates.append(lane * width)
    return min(rates)
