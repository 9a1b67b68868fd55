"""What a ggml server takes besides weights, cache and graphs: the process, a card's context, and what is left free."""

from __future__ import annotations

from dataclasses import dataclass

from llmops.core.model import ModelSpec
from llmops.core.units import GIB, MIB


@dataclass(frozen=True)
class Spread:
    """The ends of a range as factors of a likely value, and why it is a range."""

    low: float
    high: float
    reason: str


# Over 44 configurations of 11 architectures the formula lay between 8.4 % below and 4.1 % above the engine's own line.
COMPUTE_SPREAD = Spread(
    0.95, 1.10, "a formula for the widest point of the graph; the engine's own lay within -5 and +10 %"
)

# Driver context, kernels and library work space of one process on one card. Not measured here: the low end is a bare
# context with the kernels loaded on demand, the high end one with all kernels and a cuBLAS work space.
DEVICE_CONTEXT = Spread(
    300 * MIB, 600 * MIB, "depends on driver, card and which kernels are loaded; not printed by the engine"
)

# llama.cpp's own --fit keeps this much free on every card (common/fit.cpp, --fit-target) and moves layers otherwise.
FIT_MARGIN_BYTES = 1 * GIB

# The process besides its buffers, measured on b11434: libraries and heap, then the tables of the tokenizer.
BASE_LOW_BYTES = 20 * MIB
BASE_HIGH_BYTES = 40 * MIB
TOKEN_LOW_BYTES = 120
TOKEN_HIGH_BYTES = 220
# Host side of a graphics driver in the process (mapped libraries, pinned staging buffers); not measured here.
CARD_HOST_LOW_BYTES = 100 * MIB
CARD_HOST_HIGH_BYTES = 400 * MIB

RESERVE_SHARE = 0.05
RESERVE_LEAST_BYTES = 256 * MIB
RESERVE_MOST_BYTES = 1 * GIB


def process_base(model: ModelSpec, *, uses_cards: bool) -> Spread:
    """Bytes of the process itself; it depends on the vocabulary, whose tables are built in memory."""
    low = BASE_LOW_BYTES + TOKEN_LOW_BYTES * model.vocabulary_size
    high = BASE_HIGH_BYTES + TOKEN_HIGH_BYTES * model.vocabulary_size
    if uses_cards:
        low, high = low + CARD_HOST_LOW_BYTES, high + CARD_HOST_HIGH_BYTES
    return Spread(low, high, "libraries, heap and the tokenizer's tables, by vocabulary size; measured on b11434")


def host_reserve_bytes(total_bytes: int) -> int:
    """What stays free for the operating system: 5 % of the memory, at least 256 MiB, at most 1 GiB.

    MemAvailable already leaves out what runs now; this is for what comes: a login, a package upgrade, logs, sockets.
    """
    return int(min(max(total_bytes * RESERVE_SHARE, RESERVE_LEAST_BYTES), RESERVE_MOST_BYTES))


def spread_part(part: str, likely: int, spread: Spread) -> tuple[str, int, int, str]:
    """A range of a budget part."""
    return (part, int(likely * spread.low), int(likely * spread.high), spread.reason)
