"""What cards that share each layer tell each other, and how fast the links between them carry it."""

from __future__ import annotations

from collections.abc import Sequence

from llmops.core.hardware import CardLink, Gpu, Hardware
from llmops.core.model import ModelSpec

# The exchanges after attention and after the layers behind it, in 16 bits.
EXCHANGES_PER_LAYER = 2
_VALUE_BYTES = 2
# The kinds of links, as people write them.
LINK_NAMES = {"nvlink": "NVLink", "xgmi": "XGMI", "pcie": "PCIe"}
# Links that carry an exchange faster than the cards wait for it.
FAST = frozenset({"nvlink", "xgmi"})


def links_among(hardware: Hardware, gpus: Sequence[Gpu]) -> tuple[CardLink, ...]:
    """The known links of these cards; () where one of their pairs is not known."""
    indexes = {gpu.index for gpu in gpus}
    found = tuple(link for link in hardware.links if {link.first, link.second} <= indexes and link.kind is not None)
    return found if len(found) == len(indexes) * (len(indexes) - 1) // 2 else ()


def kind_among(hardware: Hardware, gpus: Sequence[Gpu]) -> str | None:
    """How these cards are linked, by the slowest of their links; None for one card or where it is not known."""
    kinds = {link.kind for link in links_among(hardware, gpus)}
    return "pcie" if "pcie" in kinds else next(iter(sorted(kind for kind in kinds if kind)), None)


def slowest_rate(hardware: Hardware, gpus: Sequence[Gpu]) -> int | None:
    """Bytes per second, in one direction, of the slowest link among these cards; None where one is not known."""
    rates = [link.bytes_per_second for link in links_among(hardware, gpus)]
    known = [rate for rate in rates if rate is not None]
    return min(known) if known and len(known) == len(rates) else None


def exchange_bytes(model: ModelSpec, ranks: int) -> int:
    """Bytes that each card sends for one token: a ring passes every value on twice, less a card's own part."""
    whole = EXCHANGES_PER_LAYER * model.layers * model.embedding_length * _VALUE_BYTES
    return whole * 2 * (ranks - 1) // ranks
