"""What share of a machine's bandwidth and arithmetic engines reach, by kind of memory and engine: low, likely, high.

Each class is a consequence of how the memory is reached, not of one card or model. The evidence is in
docs/reference/speed.md; every figure is a range because kernels differ between versions, formats and drivers.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from llmops.core.card_specifications import APPLE, GDDR, HBM, SHARED

# Low, likely and high.
Triple = tuple[float, float, float]


@dataclass(frozen=True)
class SpeedClass:
    """How one kind of hardware runs decode and prefill under one engine.

    `bandwidth_share`: of the read bandwidth, in decode. `kernel_seconds`: from one kernel of a step to the next.
    `operations_share`: of the published 16-bit matrix rate; `operations_per_byte`: per byte/s of bandwidth where none
    is published. `unshared_reads`: how much of the weights that another stream has read each of the first
    `unshared_streams` costs again: kernels for few streams read them more than once or are less busy.
    `tile_tokens`: tokens of one expert at which its matrix product is as fast as a dense one. `pipe_depth`: pieces of a
    prompt that run through a row of cards at the same time; `eager_kernel_seconds`: without captured graphs, where the
    engine captures any.
    """

    name: str
    bandwidth_share: Triple
    kernel_seconds: Triple
    operations_share: Triple
    operations_per_byte: Triple
    unshared_reads: Triple
    unshared_streams: int
    tile_tokens: Triple
    prefill_tokens: int
    pipe_depth: int = 1
    eager_kernel_seconds: Triple | None = None


_GGML_CARD = SpeedClass(
    name="graphics memory, ggml kernels",
    # Solving 8B in 4 and in 16 bits on the same card for both: 3 to 5 us per kernel and 0.71 to 0.93 of the bus.
    bandwidth_share=(0.62, 0.82, 0.95),
    kernel_seconds=(7e-6, 3.3e-6, 1e-6),
    # 0.2 to 0.48 of the tensor rate in 2024; integer kernels since then reach more on the same cards.
    operations_share=(0.12, 0.38, 0.65),
    operations_per_byte=(30.0, 70.0, 170.0),
    unshared_reads=(0.35, 0.06, 0.0),
    unshared_streams=8,
    tile_tokens=(128.0, 64.0, 16.0),
    prefill_tokens=512,
    pipe_depth=4,  # 2048 tokens in pieces of 512
)
_GGML = {
    GDDR: _GGML_CARD,
    # One stream has too few bytes under way for 1.5 to 8 TB/s, and the matrix units are used by older instructions.
    HBM: replace(
        _GGML_CARD,
        name="stacked memory (HBM), ggml kernels",
        bandwidth_share=(0.38, 0.54, 0.78),
        operations_share=(0.1, 0.26, 0.5),
        operations_per_byte=(25.0, 55.0, 120.0),
    ),
    SHARED: replace(
        _GGML_CARD,
        name="memory shared with the processor, ggml kernels",
        bandwidth_share=(0.55, 0.82, 0.95),
        operations_share=(0.1, 0.33, 0.6),
        operations_per_byte=(15.0, 70.0, 200.0),
        unshared_reads=(0.5, 0.06, 0.0),
    ),
    APPLE: replace(
        _GGML_CARD,
        name="Apple's shared memory, Metal kernels",
        # Slow to start kernels; the first generation also computes 4-bit weights slower than it reads them.
        bandwidth_share=(0.42, 0.78, 0.95),
        kernel_seconds=(10e-6, 6e-6, 2.5e-6),
        operations_share=(0.15, 0.29, 0.45),
        operations_per_byte=(8.0, 17.0, 35.0),
        unshared_reads=(0.7, 0.25, 0.0),
    ),
}
# Python starts each kernel where no graph was captured.
_EAGER_KERNEL_SECONDS: Triple = (25e-6, 12e-6, 5e-6)
# Graphs and compiled, fused kernels start faster; matrix products read the weights once for all streams.
_VLLM_CARD = replace(
    _GGML_CARD,
    name="graphics memory, vLLM's compiled kernels",
    bandwidth_share=(0.58, 0.8, 0.94),
    kernel_seconds=(3.5e-6, 1.3e-6, 0.6e-6),
    operations_share=(0.15, 0.4, 0.65),
    operations_per_byte=(40.0, 100.0, 220.0),
    unshared_reads=(0.1, 0.02, 0.0),
    prefill_tokens=2048,
    pipe_depth=1,
    eager_kernel_seconds=_EAGER_KERNEL_SECONDS,
)
_VLLM = {
    GDDR: _VLLM_CARD,
    HBM: replace(
        _VLLM_CARD,
        name="stacked memory (HBM), vLLM's compiled kernels",
        bandwidth_share=(0.45, 0.68, 0.86),
        operations_share=(0.2, 0.42, 0.65),
        operations_per_byte=(40.0, 100.0, 200.0),
    ),
    SHARED: replace(
        _VLLM_CARD, name="memory shared with the processor, vLLM's kernels", bandwidth_share=(0.5, 0.75, 0.92)
    ),
    APPLE: replace(
        _GGML[APPLE], name="Apple's shared memory", pipe_depth=1, eager_kernel_seconds=_EAGER_KERNEL_SECONDS
    ),
}
# Engines with kernels of their own; the others run ggml's.
_BY_ENGINE = {"vllm": _VLLM}

CPU = SpeedClass(
    name="processor",
    # Of the measured read rate, 0.99 on a desktop with 16 cores; of a server's published one 0.49 with 192 cores.
    bandwidth_share=(0.45, 0.8, 1.01),
    kernel_seconds=(4e-6, 1e-6, 0.3e-6),
    operations_share=(0.4, 1.0, 5.0),
    operations_per_byte=(0.0, 0.0, 0.0),
    # From no gain at all (2 and 4 streams on a virtual EPYC, row by row) to 3 times the rate of one at 4 streams.
    unshared_reads=(1.0, 0.3, 0.0),
    unshared_streams=8,
    tile_tokens=(32.0, 8.0, 4.0),
    prefill_tokens=512,
)


def card_class(engine: str, memory: str, *, eager: bool = False) -> SpeedClass:
    """The class of a card by its kind of memory; `eager`: without captured graphs."""
    found = _BY_ENGINE.get(engine, _GGML)[memory]
    if not eager or found.eager_kernel_seconds is None:
        return found
    return replace(found, name=f"{found.name}, eager", kernel_seconds=found.eager_kernel_seconds)
