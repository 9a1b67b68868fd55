"""The links between the cards that count, each value with its source."""

from __future__ import annotations

from collections.abc import Iterable

from llmops.core.hardware import CardLink, Gpu
from llmops.probe.sources import Notes

_SOURCES = {
    "nvlink": (
        ("kind", "nvmlDeviceGetP2PStatus"),
        ("bytes_per_second", "nvmlDeviceGetNvLinkState x NVLINK_SPEED_MBPS_COMMON"),
        ("path", "nvmlDeviceGetTopologyCommonAncestor"),
        ("peer_access", "nvmlDeviceGetP2PStatus"),
    ),
    "pcie": (
        ("kind", "nvmlDeviceGetP2PStatus"),
        ("bytes_per_second", "nvmlDeviceGetMaxPcieLinkGeneration x nvmlDeviceGetMaxPcieLinkWidth"),
        ("path", "nvmlDeviceGetTopologyCommonAncestor"),
        ("peer_access", "nvmlDeviceGetP2PStatus"),
    ),
}
_NOT_TOLD = "the cards or their driver do not tell it"


def links_between(counted: tuple[Gpu, ...], links: Iterable[CardLink]) -> tuple[CardLink, ...]:
    """The links of which both ends are cards that a plan counts with."""
    indexes = {gpu.index for gpu in counted}
    return tuple(link for link in links if {link.first, link.second} <= indexes)


def note_links(notes: Notes, links: tuple[CardLink, ...]) -> None:
    """Where each value of a link was read, or why it is missing."""
    for position, link in enumerate(links):
        for field, source in _SOURCES.get(link.kind or "", _SOURCES["pcie"]):
            notes.note(f"links[{position}].{field}", getattr(link, field), source, _NOT_TOLD)
