"""What a ggml server takes besides weights, cache and graphs: the process, a card's context, and what is left free."""

from __future__ import annotations

from llmops.core.hardware import Memory
from llmops.core.model import ModelSpec
from llmops.core.units import GIB, MIB
from llmops.core.version import Since, Timeline, Version

# A part of a budget, its low and high end in bytes, and why it is a range.
Range = tuple[str, int, int, str]

# Against the `compute buffer size` lines of b11434 the graph lay between 5.3 % too low and 6.4 % too high in 313 starts
# of 41 shapes of all families, within 0.1 % in three quarters of them; in 394 starts of sizes and settings drawn by
# chance 2 were more than 8 % too low (a buffer of 26 MiB with a 32-bit latent cache, one of 23 MiB).
COMPUTE_LOW, COMPUTE_HIGH = 0.92, 1.08
# What alignment and tensors of a few bytes add to one that is placed otherwise.
PLACEMENT_ERROR = 0.01
COMPUTE_REASON = "the engine's graph, placed as ggml places it; its own figure lay within 7 % at published sizes"
NO_COMPUTE: Range = ("compute_bytes", 0, 0, "no layer lies on a card, and the first one computes large batches")
# Cards: against published figures only; a build before August 2025 copied more (a fused projection: 8 % in one row).
CARD_COMPUTE_REASON = "the engine's graph as a card computes it; compared with published figures only"
WIDENED_REASON = "CUDA and ROCm copy one layer of a quantised cache to 16 bits"
COMPUTE_HIGH_BY_BUILD = Timeline(
    (
        Since(
            Version((0,)), value=1.12, source="published compute buffers of 2024 and 2025, up to 9 % above the graph"
        ),
        Since(Version((6000,)), value=COMPUTE_HIGH, source="b11434, measured; published figures since August 2025"),
    )
)

ENCODER_REASON = (
    "the encoder's, from flash attention for the picture it reserves for to every head's scores or a larger picture;"
    " from the sources, not measured"
)

# Driver context, loaded kernels and library work space of one process on one card, by published figures. Vulkan beyond
# its buffers: 9 MiB after loading (b9849, RTX 3080 Ti), up to 165 MiB while a long prompt was read (RTX 4050). CUDA's
# bare context is about 3 MiB for each multiprocessor: 107 MiB on 34 (RTX 4060 Ti), 555 MiB on 188 (RTX PRO 6000; both
# llama.cpp pull request 23604), and 749 MiB there with kernels and cuBLAS (llama.cpp issue 27953). No card of up to
# 24 GiB has more than the 128 of an RTX 4090.
DEVICE_CONTEXT_BYTES = (8 * MIB, 800 * MIB)
SMALLER_CARD_BYTES, SMALLER_CARD_CONTEXT_BYTES = 24 * GIB, 600 * MIB
DEVICE_CONTEXT_REASON = (
    "from Vulkan's 9 MiB to CUDA's, which grows with the card (749 MiB on the largest), published; the engine does not"
    " print it"
)

# llama.cpp's --fit leaves this much of every card free (common/fit.cpp, --fit-target) and moves layers to get it.
FIT_MARGIN_BYTES = 1 * GIB

# The process besides its buffers, measured on b11434 with nine tokenizers of 32,000 to 262,144 tokens: libraries and
# heap (21 MiB), 178 bytes for each token, 134 to 157 bytes for each merge rule. The ends leave room around that.
PROCESS_BYTES = (18 * MIB, 21 * MIB, 28 * MIB)
TOKEN_BYTES = (170, 178, 195)
MERGE_BYTES = (130, 145, 160)
# Where the file does not say: none (SentencePiece), or as many as the largest known byte-pair tokenizers have.
MOST_MERGES_PER_TOKEN = 2.2
PROCESS_REASON = "libraries, heap and the tokenizer's tables; measured per token and merge rule on b11434"
# The host's side of a card's driver (mapped libraries, pinned staging buffers): from the sources, not measured.
CARD_HOST_BYTES = (100 * MIB, 400 * MIB)

# MemAvailable leaves out what runs now; this is for what comes: a login, a package upgrade (81 MiB, apt on Debian 12),
# logs, socket buffers, and the cached pages that the kernel must find before it takes the model's.
RESERVE_SHARE = 0.05
RESERVE_BOUNDS_BYTES = (256 * MIB, 1 * GIB)


def compute_range(
    likely_bytes: int, build: Version | None = None, reason: str = COMPUTE_REASON, *, misplaced_bytes: int = 0
) -> Range:
    """The compute buffer as a range around the graph.

    `misplaced_bytes` is what one tensor takes that finds no hole, or finds one that our graph has not: of small graphs
    more than the shares.
    """
    around = int(likely_bytes * PLACEMENT_ERROR) + misplaced_bytes
    low = min(int(likely_bytes * COMPUTE_LOW), max(0, likely_bytes - around))
    return (
        "compute_bytes",
        low,
        max(int(likely_bytes * COMPUTE_HIGH_BY_BUILD.at(build)), likely_bytes + around),
        reason,
    )


def card_compute_range(
    likely_bytes: int,
    build: Version | None = None,
    *,
    most_bytes: int = 0,
    widened: bool = False,
    misplaced_bytes: int = 0,
) -> Range:
    """The compute buffer of a card as a range around the graph; `most_bytes` where copies may make it larger."""
    reason = f"{CARD_COMPUTE_REASON}; {WIDENED_REASON}" if widened else CARD_COMPUTE_REASON
    part, low, _, why = compute_range(likely_bytes, build, reason, misplaced_bytes=misplaced_bytes)
    return part, low, compute_range(max(likely_bytes, most_bytes), build, misplaced_bytes=misplaced_bytes)[2], why


def device_context_range(total_bytes: int) -> Range:
    """What the driver takes of a card of this size for one process."""
    low, high = DEVICE_CONTEXT_BYTES
    if total_bytes <= SMALLER_CARD_BYTES:
        high = SMALLER_CARD_CONTEXT_BYTES
    return ("runtime_bytes", low, high, DEVICE_CONTEXT_REASON)


def process_bytes(model: ModelSpec) -> tuple[int, int, int]:
    """Bytes of the process itself: low, likely, high."""
    merges = model.tokenizer_merges
    most = int(MOST_MERGES_PER_TOKEN * model.vocabulary_size)
    counts = (merges, merges, merges) if merges is not None else (0, most // 2, most)
    low, likely, high = (
        PROCESS_BYTES[end] + TOKEN_BYTES[end] * model.vocabulary_size + MERGE_BYTES[end] * counts[end]
        for end in range(3)
    )
    return low, likely, high


def process_range(model: ModelSpec, *, uses_cards: bool) -> Range:
    """The process on the host, with its side of the card's driver where cards are used."""
    low, _, high = process_bytes(model)
    if uses_cards:
        low, high = low + CARD_HOST_BYTES[0], high + CARD_HOST_BYTES[1]
    return ("runtime_bytes", low, high, PROCESS_REASON)


def reserve_of(total_bytes: int) -> int:
    """What stays free of a machine or a control group of this size: 5 %, at least 256 MiB, at most 1 GiB."""
    least, most = RESERVE_BOUNDS_BYTES
    return min(max(int(total_bytes * RESERVE_SHARE), least), most)


def host_reserve_bytes(memory: Memory) -> int:
    """What a plan leaves of the usable memory, so that every limit keeps its own reserve.

    A container's limit that is far below the machine's memory keeps a share of the limit, not of the machine.
    """
    usable = min(room for room, _ in memory.rooms)
    return usable - min(room - reserve_of(whole) for room, whole in memory.rooms)
