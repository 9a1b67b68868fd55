"""The links between the cards that count, each value with its source."""

from __future__ import annotations

from collections.abc import Iterable

from llmops.core.hardware import CardLink, Gpu
from llmops.probe.sources import Notes

_STATUS, _RATE = "nvmlDeviceGetP2PStatus", "nvmlDeviceGetMaxPcieLinkGeneration x nvmlDeviceGetMaxPcieLinkWidth"
_NVLINK_RATE = "nvmlDeviceGetNvLinkState x NVLINK_SPEED_MBPS_COMMON"
_ANCESTOR, _IO_LINKS = "nvmlDeviceGetTopologyCommonAncestor", "kfd io_links"
_NOT_TOLD = "the cards or their driver do not tell it"


def links_between(counted: tuple[Gpu, ...], links: Iterable[CardLink]) -> tuple[CardLink, ...]:
    """The links of which both ends are cards that a plan counts with."""
    indexes = {gpu.index for gpu in counted}
    return tuple(link for link in links if {link.first, link.second} <= indexes)


def note_links(notes: Notes, links: tuple[CardLink, ...], amd_indexes: frozenset[int]) -> None:
    """Where each value of a link was read, or why it is missing."""
    for position, link in enumerate(links):
        of_amd = {link.first, link.second} <= amd_indexes
        for field, source in (_amd_sources() if of_amd else _nvidia_sources(link)).items():
            notes.note(f"links[{position}].{field}", getattr(link, field), source, _NOT_TOLD)


def _nvidia_sources(link: CardLink) -> dict[str, str]:
    rate = _NVLINK_RATE if link.kind == "nvlink" else _RATE
    return {"kind": _STATUS, "bytes_per_second": rate, "path": _ANCESTOR, "peer_access": _STATUS}


def _amd_sources() -> dict[str, str]:
    return {"kind": f"{_IO_LINKS} type", "bytes_per_second": f"{_IO_LINKS} max_bandwidth"}
