"""How fast a model runs: time per decode step from the bytes it reads and the arithmetic it does.

One decode step reads the active weights once for all streams and each stream's own cache, and multiplies every active
weight once per stream: step(m) = fixed + m x per stream. Prefill is arithmetic: prompt tokens x 2 x matrix parameters.
Predictions are ranges; a rate measured on this host replaces them.
"""

from __future__ import annotations

from dataclasses import dataclass

from llmops.core.card_rates import Triple, card_rates
from llmops.core.hardware import Bandwidth, Cpu, Hardware
from llmops.core.model import ModelSpec
from llmops.core.plan import MeasuredRates, Speed, SpeedRange
from llmops.core.workload import Workload

STREAMS_SHOWN = (1, 2, 5, 20)

# Share of the read bandwidth that single-stream decode reached in published runs: (low, likely, high).
# llama.cpp on 20 cards of 256 to 1008 GB/s: 0.54 to 0.89; on A100 and H100: 0.33 to 0.51 (their bandwidth outruns the
# kernels of one stream); Ollama on a 192-core Arm server 0.49, a desktop processor with 16 cores 0.99.
CPU_BANDWIDTH_SHARE = (0.45, 0.75, 1.0)
GPU_BANDWIDTH_SHARE = (0.5, 0.7, 0.9)
FAST_GPU_BANDWIDTH_SHARE = (0.32, 0.46, 0.65)
FAST_GPU_BYTES_PER_SECOND = 1.5e12
# Arithmetic per core and second in quantised matrix products, by the widest instruction set: (flag, operations/s).
# Measured 59e9 on one virtual AVX-512 VNNI processor without repacked weights; published 470e9 on a desktop core.
CPU_OPERATIONS_PER_CORE = (("avx512_vnni", 90e9), ("avx512f", 60e9), ("avx2", 45e9), ("asimddp", 40e9), ("asimd", 15e9))
CPU_OPERATIONS_PER_CORE_WITHOUT = 8e9
CPU_OPERATIONS_RANGE = (0.4, 1.0, 2.5)
# Assumed where nothing was measured or given: two channels of DDR4 shared with other tenants.
ASSUMED_CPU_BANDWIDTH = (8e9, 20e9, 40e9)
CPU_LAYER_SECONDS = 20e-6
GPU_LAYER_SECONDS = 10e-6
# Around a rate that was extrapolated from measured ones.
EXTRAPOLATED_RANGE = (0.7, 1.0, 1.3)
# The share of a step that one more stream costs at least, where a measurement says that it costs nothing.
LEAST_SLOPE = 0.1


@dataclass(frozen=True)
class RateModel:
    """One consistent set of rates: seconds per decode step by streams, and prefill tokens per second."""

    fixed_seconds: float
    weights_seconds: float
    expert_seconds: float
    expert_share: float
    stream_seconds: float
    prefill_tokens_per_second: float

    def step_seconds(self, streams: float) -> float:
        """Seconds of one decode step that gives each of the streams one token."""
        touched = 1.0
        if 0.0 < self.expert_share < 1.0:
            touched = 1.0 - (1.0 - self.expert_share) ** streams
        return self.fixed_seconds + self.weights_seconds + touched * self.expert_seconds + streams * self.stream_seconds

    def request_seconds(self, streams: float, workload: Workload) -> float:
        """One request in its slot while `streams` are served: all their prefills, which stop each other, and decode."""
        prefill = streams * workload.prompt_tokens / self.prefill_tokens_per_second
        return prefill + workload.reply_tokens * self.step_seconds(streams)


@dataclass(frozen=True)
class Rates:
    """The pessimistic, likely and optimistic rate model, and where they come from."""

    low: RateModel
    likely: RateModel
    high: RateModel
    source: str
    measured: MeasuredRates | None = None

    def measured_rate(self, streams: int) -> float | None:
        """Tokens per second of one stream, where exactly this many streams were measured."""
        return dict(self.measured.decode_tokens_per_second).get(streams) if self.measured else None


def predict_rates(hardware: Hardware, model: ModelSpec, workload: Workload, *, on_gpu: bool) -> Rates:
    """Rates from the machine's bandwidth and arithmetic; no measurement of this model is needed."""
    if on_gpu:
        bandwidths, operations, bandwidth_source = card_rates(hardware.gpus, hardware.bandwidth)
        fast = bandwidths[0] >= FAST_GPU_BYTES_PER_SECOND
        shares, layer_seconds = FAST_GPU_BANDWIDTH_SHARE if fast else GPU_BANDWIDTH_SHARE, GPU_LAYER_SECONDS
    else:
        bandwidths, bandwidth_source = _cpu_bandwidth(hardware.bandwidth)
        operations = _cpu_operations(hardware.cpu)
        shares, layer_seconds = CPU_BANDWIDTH_SHARE, CPU_LAYER_SECONDS
    low, likely, high = (
        _rate_model(model, workload, bandwidth * share, rate, layer_seconds)
        for bandwidth, share, rate in zip(bandwidths, shares, operations, strict=True)
    )
    return Rates(low, likely, high, f"predicted from {bandwidth_source}")


def rates_from_measured(measured: MeasuredRates, predicted: Rates) -> Rates:
    """The measured step times, continued for other numbers of streams by their slope (else the predicted one).

    Noise may make the second stream look free; twenty would then be as fast as one. So each costs something, what an
    optimistic prediction says or LEAST_SLOPE of a step; and none costs more than all that was measured.
    """
    steps = {streams: 1.0 / rate for streams, rate in measured.decode_tokens_per_second}
    fewest, most = min(steps), max(steps)
    slope = predicted.likely.stream_seconds
    if most > fewest:
        least = min(predicted.high.stream_seconds, LEAST_SLOPE * steps[fewest])
        slope = max((steps[most] - steps[fewest]) / (most - fewest), least)
    slope = min(slope, steps[fewest] / fewest)
    fixed = steps[fewest] - fewest * slope
    low, likely, high = (
        RateModel(fixed / factor, 0.0, 0.0, 0.0, slope / factor, measured.prefill_tokens_per_second * factor)
        for factor in EXTRAPOLATED_RANGE
    )
    return Rates(low, likely, high, "measured on this host by an earlier verification", measured)


def speeds(rates: Rates, workload: Workload, streams_shown: tuple[int, ...] = STREAMS_SHOWN) -> tuple[Speed, ...]:
    """What each of so many users sees at once; TTFT is the mean when all of them send their prompt together."""
    return tuple(_speed(rates, workload, streams) for streams in streams_shown)


def _speed(rates: Rates, workload: Workload, streams: int) -> Speed:
    measured = rates.measured_rate(streams)
    if measured is None:
        low, likely, high = (1.0 / model.step_seconds(streams) for model in (rates.low, rates.likely, rates.high))
        span, basis = SpeedRange(low, likely, high), "predicted"
    else:
        span, basis = SpeedRange(measured, measured, measured), "measured"
    prefill = rates.likely.prefill_tokens_per_second
    return Speed(
        streams=streams,
        decode_tokens_per_second_per_stream=span,
        decode_tokens_per_second_total=span.likely * streams,
        prefill_tokens_per_second=prefill,
        ttft_seconds=(streams + 1) / 2 * workload.prompt_tokens / prefill + 1.0 / span.likely,
        basis=basis,
    )


def _rate_model(
    model: ModelSpec, workload: Workload, bytes_per_second: float, operations_per_second: float, layer_seconds: float
) -> RateModel:
    expert_share = model.experts_used / model.experts if model.experts else 0.0
    expert_bytes = _expert_bytes(model, expert_share)
    shared_bytes = model.active_weights_bytes - expert_bytes * expert_share
    matrix_operations = 2 * model.active_parameters
    return RateModel(
        fixed_seconds=model.layers * layer_seconds,
        weights_seconds=shared_bytes / bytes_per_second,
        expert_seconds=expert_bytes / bytes_per_second,
        expert_share=expert_share,
        stream_seconds=_cache_read_bytes(model, workload) / bytes_per_second
        + matrix_operations / operations_per_second,
        prefill_tokens_per_second=operations_per_second / (2 * prefill_parameters(model)),
    )


def prefill_parameters(model: ModelSpec) -> int:
    """Parameters that every prompt token is multiplied with: the output layer is needed for the last token only."""
    return max(model.active_parameters - model.vocabulary_size * model.embedding_length, 1)


def _expert_bytes(model: ModelSpec, expert_share: float) -> float:
    """All experts' bytes, from the part of the weights that one token leaves unread."""
    if not 0.0 < expert_share < 1.0:
        return 0.0
    input_bytes = 0 if model.tied_output else sum(g.stored_bytes for g in model.tensors if g.role == "input")
    unread = model.weights_bytes - model.active_weights_bytes - input_bytes
    return max(unread, 0) / (1.0 - expert_share)


def _cache_read_bytes(model: ModelSpec, workload: Workload) -> float:
    """Cache bytes that one stream's step reads in the middle of its reply."""
    tokens = workload.prompt_tokens + workload.reply_tokens / 2
    return sum(
        layer.cache_bytes_per_token() * min(tokens, layer.window_tokens or tokens) for layer in model.attention_layers
    )


def _cpu_bandwidth(bandwidth: Bandwidth | None) -> tuple[Triple, str]:
    if bandwidth is None or not bandwidth.read_bytes_per_second:
        return ASSUMED_CPU_BANDWIDTH, "an assumed memory bandwidth of 20 GB/s (8 to 40)"
    rate = float(bandwidth.read_bytes_per_second)
    return (rate, rate, rate), "the memory bandwidth of this host"


def _cpu_operations(cpu: Cpu) -> Triple:
    per_core = next(
        (rate for flag, rate in CPU_OPERATIONS_PER_CORE if flag in cpu.flags), CPU_OPERATIONS_PER_CORE_WITHOUT
    )
    cores = min(cpu.usable_threads or 1, cpu.physical_cores or cpu.usable_threads or 1)
    low, likely, high = (per_core * cores * factor for factor in CPU_OPERATIONS_RANGE)
    return low, likely, high
