"""How fast a model runs: time per decode step from the bytes it reads and the arithmetic it does.

One decode step reads the active weights once for all streams (more experts with more streams) and each stream's own
cache and state, and multiplies every active weight once per stream. Prefill is arithmetic, over the weights that each
piece of a prompt reads. Predictions are ranges; a rate measured on this host replaces them. Formulas, classes and
evidence: docs/reference/speed.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from llmops.core.card_links import exchange_bytes, kind_among, slowest_rate
from llmops.core.card_rates import CardRates, card_rates
from llmops.core.hardware import Bandwidth, Cpu, Hardware
from llmops.core.model import ModelSpec
from llmops.core.plan import Speed, SpeedRange
from llmops.core.throughput_classes import CPU, SpeedClass, Triple
from llmops.core.throughput_measured import rates_from_measured
from llmops.core.throughput_model import Knee, RateModel, Rates, find_knee
from llmops.core.throughput_split import HostPart, divided, host_part, joined
from llmops.core.throughput_work import Work, prefill_parameters, work
from llmops.core.workload import Workload

__all__ = [
    "HostPart",
    "Knee",
    "RateModel",
    "Rates",
    "find_knee",
    "host_part",
    "predict_rates",
    "prefill_parameters",
    "rates_from_measured",
    "speeds",
]

STREAMS_SHOWN = (1, 2, 5, 20)

# Arithmetic per core and second in quantised matrix products, by the widest instruction set: (flag, operations/s).
# Measured 59e9 on one virtual AVX-512 VNNI processor without repacked weights; published 470e9 on a desktop core.
CPU_OPERATIONS_PER_CORE = (("avx512_vnni", 90e9), ("avx512f", 60e9), ("avx2", 45e9), ("asimddp", 40e9), ("asimd", 15e9))
CPU_OPERATIONS_PER_CORE_WITHOUT = 8e9
# Virtual processors are shared and clocked low: the fast end of bare metal (a desktop's 5 GHz) is out of reach.
CPU_VIRTUAL_HIGH = 2.5
# Assumed where nothing was measured or given: two channels of DDR4 shared with other tenants.
ASSUMED_CPU_BANDWIDTH: Triple = (8e9, 20e9, 40e9)
# How much of reading and computing happens at the same time.
OVERLAP: Triple = (0.0, 0.5, 1.0)


@dataclass(frozen=True)
class _Reached:
    """What the machine reaches at one end of the range (0 low, 1 likely, 2 high); exchanges are of a whole step.

    `carried_seconds` is what the links between cards need for one token more, where their rate is known.
    """

    end: int
    bytes_per_second: float
    operations_per_second: float
    exchange_seconds: float
    carried_seconds: float = 0.0


def predict_rates(
    hardware: Hardware,
    model: ModelSpec,
    workload: Workload,
    *,
    on_gpu: bool,
    engine: str = "llama-server",
    tensor_parallel: int = 1,
    eager: bool = False,
    part: HostPart | None = None,
    copies: int = 1,
) -> Rates:
    """Rates from the machine's bandwidth and arithmetic; no measurement of this model is needed.

    `tensor_parallel` cards share each layer; `eager`: vLLM without captured graphs. `part` of the model stays with the
    processor though cards are used. The hardware is that of one of `copies` that serve side by side.
    """
    if not on_gpu:
        machine, source = _processor(hardware)
        return _alike(work(model, workload, tensor_parallel=1), CPU, machine, source, copies)
    linked = kind_among(hardware, hardware.gpus)
    cards = card_rates(
        hardware.gpus, hardware.bandwidth, engine=engine, tensor_parallel=tensor_parallel, eager=eager, linked=linked
    )
    cost = work(model, workload, tensor_parallel=tensor_parallel)
    if part is not None:
        both = _with_host(hardware, cost, part, cards.speed_class, _on_cards(cards, model, 0.0))
        return replace(both, source=f"predicted from {cards.source}, and for the part on the host {both.source}")
    link = slowest_rate(hardware, hardware.gpus) if tensor_parallel > 1 else None
    carried = exchange_bytes(model, tensor_parallel) / link if link else 0.0
    return _alike(cost, cards.speed_class, _on_cards(cards, model, carried), cards.source, copies)


def _processor(hardware: Hardware) -> tuple[tuple[_Reached, ...], str]:
    """What the processor reaches, and where its bandwidth is from."""
    bandwidth, source = _cpu_bandwidth(hardware.bandwidth)
    reached, operations = _times(bandwidth, CPU.bandwidth_share), _cpu_operations(hardware.cpu)
    return tuple(_Reached(end, reached[end], operations[end], 0.0) for end in range(3)), source


def _on_cards(cards: CardRates, model: ModelSpec, carried_seconds: float) -> tuple[_Reached, ...]:
    return tuple(
        _Reached(
            end,
            cards.bandwidth[end],
            cards.operations[end],
            model.layers * cards.exchange_seconds[end],
            carried_seconds,
        )
        for end in range(3)
    )


def _alike(cost: Work, speed_class: SpeedClass, machine: Sequence[_Reached], source: str, copies: int) -> Rates:
    """The rates where all of the model lies on one kind of device."""
    low, likely, high = (replace(_rate_model(cost, speed_class, reached), copies=copies) for reached in machine)
    return Rates(low, likely, high, f"predicted from {source}", basis=speed_class.name)


def _with_host(
    hardware: Hardware, cost: Work, part: HostPart, speed_class: SpeedClass, cards: tuple[_Reached, ...]
) -> Rates:
    """Cards and processor one after the other; both sides read their own part."""
    processor, said = _processor(hardware)
    on_cards, on_host = divided(cost, part)
    low, likely, high = (
        joined(
            _rate_model(on_cards, speed_class, machine),
            _rate_model(on_host, CPU, processor[machine.end]),
            part,
            machine.end,
            speed_class.prefill_tokens,
        )
        for machine in cards
    )
    return Rates(low, likely, high, said, basis=f"{speed_class.name}, a part with the processor")


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
        ttft_seconds=(rates.likely.of_each(streams) + 1) / 2 * workload.prompt_tokens / prefill + 1.0 / span.likely,
        basis=basis,
    )


def _rate_model(cost: Work, speed_class: SpeedClass, machine: _Reached) -> RateModel:
    end, reading = machine.end, machine.bytes_per_second
    fixed = cost.kernels * speed_class.kernel_seconds[end] + machine.exchange_seconds
    return RateModel(
        fixed_seconds=fixed,
        weights_seconds=cost.shared_bytes / reading,
        expert_seconds=cost.expert_bytes / reading,
        expert_share=cost.expert_share,
        stream_seconds=cost.stream_bytes / reading + machine.carried_seconds,
        prefill_tokens_per_second=_prefill_rate(cost, speed_class, machine, fixed),
        arithmetic_seconds=cost.operations / machine.operations_per_second,
        overlap=OVERLAP[end],
        unshared_reads=speed_class.unshared_reads[end],
        unshared_streams=speed_class.unshared_streams,
    )


def _prefill_rate(cost: Work, speed_class: SpeedClass, machine: _Reached, fixed_seconds: float) -> float:
    """Tokens per second of a piece of a prompt: its arithmetic, while it reads all weights that its tokens touch.

    The tokens of a piece spread over the experts: each multiplies few, and small products are slow.
    """
    tokens = speed_class.prefill_tokens
    per_expert = tokens * cost.expert_share
    busy = min(1.0, per_expert / speed_class.tile_tokens[machine.end]) if per_expert else 1.0
    operations = tokens * (cost.prompt_operations + cost.prompt_expert_operations / busy)
    computing = operations / machine.operations_per_second
    reading = (cost.shared_bytes + cost.touched(tokens) * cost.expert_bytes) / machine.bytes_per_second
    both = max(computing, reading) + (1.0 - OVERLAP[machine.end]) * min(computing, reading)
    return tokens / (fixed_seconds + both + tokens * machine.carried_seconds)


def _times(rates: Triple, shares: Triple) -> Triple:
    return rates[0] * shares[0], rates[1] * shares[1], rates[2] * shares[2]


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
    low, likely, high = _times((per_core * cores,) * 3, CPU.operations_share)
    return low, likely, min(high, per_core * cores * CPU_VIRTUAL_HIGH) if cpu.hypervisor else high
