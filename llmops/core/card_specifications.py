"""Published memory bandwidth and arithmetic of well-known cards, for a card of which only the name is known.

The driver's own figures come first; nothing here is about models. Bandwidth and dense 16-bit tensor rates are the
makers' own data sheets (NVIDIA architecture white papers Turing to Blackwell and product pages, AMD product pages,
Apple's technical specifications); Apple's rate is twice its published 32-bit rate.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from llmops.core.hardware import Gpu

GDDR, HBM, SHARED, APPLE = "gddr", "hbm", "shared", "apple"


@dataclass(frozen=True)
class CardSpecification:
    """One card: the words of its name, GB/s, dense 16-bit TFLOPS of its matrix units (0: not published), memory."""

    words: str
    gigabytes_per_second: float
    teraflops: float
    memory: str = GDDR

    @property
    def bytes_per_second(self) -> int:
        """Bandwidth in bytes per second."""
        return round(self.gigabytes_per_second * 1e9)

    @property
    def operations_per_second(self) -> float:
        """Dense 16-bit matrix operations per second, 0 where none are published."""
        return self.teraflops * 1e12


# A size among the words is that of the card's memory, where the same name was sold with different ones.
SPECIFICATIONS = (
    CardSpecification("RTX 5090", 1792, 419),
    CardSpecification("RTX 5080", 960, 225),
    CardSpecification("RTX 5070 Ti", 896, 176),
    CardSpecification("RTX 5070", 672, 123),
    CardSpecification("RTX 5060 Ti", 448, 95),
    CardSpecification("RTX 5060", 448, 77),
    CardSpecification("RTX 4090", 1008, 330),
    CardSpecification("RTX 4080 SUPER", 736, 209),
    CardSpecification("RTX 4080", 717, 195),
    CardSpecification("RTX 4070 Ti SUPER", 672, 176),
    CardSpecification("RTX 4070 Ti", 504, 160),
    CardSpecification("RTX 4070 SUPER", 504, 142),
    CardSpecification("RTX 4070", 504, 117),
    CardSpecification("RTX 4060 Ti", 288, 88),
    CardSpecification("RTX 4060", 272, 60),
    CardSpecification("RTX 3090 Ti", 1008, 160),
    CardSpecification("RTX 3090", 936, 142),
    CardSpecification("RTX 3080 Ti", 912, 136),
    CardSpecification("RTX 3080 12GB", 912, 123),
    CardSpecification("RTX 3080", 760, 119),
    CardSpecification("RTX 3070 Ti", 608, 87),
    CardSpecification("RTX 3070", 448, 81),
    CardSpecification("RTX 3060 Ti", 448, 65),
    CardSpecification("RTX 3060", 360, 51),
    CardSpecification("RTX 2080 Ti", 616, 108),
    CardSpecification("RTX PRO 6000 Blackwell", 1792, 504),
    CardSpecification("RTX 6000 Ada", 960, 364),
    CardSpecification("RTX 5000 Ada", 576, 261),
    CardSpecification("RTX 4500 Ada", 432, 159),
    CardSpecification("RTX 4000 Ada", 360, 82),
    CardSpecification("RTX A6000", 768, 155),
    CardSpecification("RTX A5000", 768, 111),
    CardSpecification("RTX A4000", 448, 77),
    CardSpecification("L40S", 864, 362),
    CardSpecification("L40", 864, 181),
    CardSpecification("L4", 300, 121),
    CardSpecification("A40", 696, 150),
    CardSpecification("A10G", 600, 70),
    CardSpecification("A10", 600, 125),
    CardSpecification("T4", 320, 65),
    CardSpecification("V100", 900, 125, HBM),
    CardSpecification("A30", 933, 165, HBM),
    CardSpecification("A100 SXM4 80GB", 2039, 312, HBM),
    CardSpecification("A100 SXM 80GB", 2039, 312, HBM),
    CardSpecification("A100 80GB", 1935, 312, HBM),
    CardSpecification("A100", 1555, 312, HBM),
    CardSpecification("H100 NVL", 3938, 835, HBM),
    CardSpecification("H100 PCIe", 2039, 756, HBM),
    CardSpecification("H100", 3350, 989, HBM),
    CardSpecification("H20", 4000, 148, HBM),
    CardSpecification("H200", 4800, 989, HBM),
    CardSpecification("GH200", 4000, 989, HBM),
    CardSpecification("B200", 8000, 2250, HBM),
    CardSpecification("MI210", 1638, 181, HBM),
    CardSpecification("MI300X", 5300, 1307, HBM),
    CardSpecification("MI325X", 6000, 1307, HBM),
    CardSpecification("RX 7900 XTX", 960, 123),
    CardSpecification("RX 7900 XT", 800, 103),
    CardSpecification("RX 9070 XT", 645, 195),
    CardSpecification("GB10", 273, 125, SHARED),
    CardSpecification("AGX Orin", 204.8, 43, SHARED),
    CardSpecification("Orin NX", 102.4, 15, SHARED),
    CardSpecification("AGX Thor", 273, 258, SHARED),
    CardSpecification("8060S", 256, 59, SHARED),
    CardSpecification("Apple M1", 68.3, 5.2, APPLE),
    CardSpecification("Apple M1 Pro", 200, 10.6, APPLE),
    CardSpecification("Apple M1 Max", 400, 21.2, APPLE),
    CardSpecification("Apple M1 Ultra", 800, 42.4, APPLE),
    CardSpecification("Apple M2", 100, 7.2, APPLE),
    CardSpecification("Apple M2 Pro", 200, 13.6, APPLE),
    CardSpecification("Apple M2 Max", 400, 27.2, APPLE),
    CardSpecification("Apple M2 Ultra", 800, 54.4, APPLE),
    CardSpecification("Apple M3", 100, 7.1, APPLE),
    CardSpecification("Apple M3 Pro", 150, 13.0, APPLE),
    CardSpecification("Apple M3 Max", 400, 28.4, APPLE),
    CardSpecification("Apple M3 Ultra", 819, 56.8, APPLE),
    CardSpecification("Apple M4", 120, 8.6, APPLE),
    CardSpecification("Apple M4 Pro", 273, 17.2, APPLE),
    CardSpecification("Apple M4 Max", 546, 34.4, APPLE),
)
# Parts with these words are slower ones under the same number, or a share of a card.
_OTHER_PARTS = frozenset({"laptop", "mobile", "max-q", "mig", "vgpu", "grid"})
_PLAIN_KINDS = frozenset({"card", "integrated"})
_GIGABYTES = re.compile(r"(\d+)\s*gi?b(?:yte)?s?")


def specification(gpu: Gpu) -> CardSpecification | None:
    """The published figures of a whole card by the words of its name: the entry with most of them, or None."""
    words = frozenset(_words(gpu.name))
    if gpu.kind not in _PLAIN_KINDS or words & _OTHER_PARTS:
        return None
    if gpu.total_bytes:
        words |= {f"{round(gpu.total_bytes / size)}gb" for size in (1e9, 1024**3)}
    fitting = [row for row in SPECIFICATIONS if words.issuperset(_words(row.words)) and not _is_variant(words, row)]
    return max(fitting, key=lambda row: len(row.words.split()), default=None)


def _words(name: str) -> list[str]:
    text = _GIGABYTES.sub(r"\1gb", name.lower())
    split = re.sub(r"(rtx|gtx|rx)(?=\d)", r"\1 ", re.sub(r"[^a-z0-9-]+", " ", text))
    return [word for part in split.split() for word in ([part] if part in _OTHER_PARTS else part.split("-")) if word]


def _is_variant(words: frozenset[str], row: CardSpecification) -> bool:
    """A name with a word that makes another card of it: `RTX 3080 Ti` is no `RTX 3080`, known or not."""
    variants = {"ti", "super", "xt", "xtx", "gre", "pro", "max", "ultra", "ada", "blackwell", "d", "dd"}
    return bool(words & variants - set(_words(row.words)))
