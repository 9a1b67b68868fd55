"""Predicted totals of 1 to 64 streams against published and measured ones: what batching gains, and where it ends."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest

from llmops.core.hardware import Bandwidth, Cpu, Gpu, Hardware
from llmops.core.plan import SpeedRange
from llmops.core.throughput import find_knee, predict_rates
from llmops.core.workload import Workload, WorkloadKind
from tests.truth.test_speed import Row, judge, model_of

GIB = 1024**3


@dataclass(frozen=True)
class Batches:
    """Totals in tokens/s by streams. `decode`: of steps alone; else of requests that also read their prompts."""

    name: str
    source: str
    hardware: Hardware
    engine: str
    model: str
    read_gigabytes: float
    prompt: int
    reply: int
    totals: tuple[tuple[int, float], ...]
    decode: bool = True
    eager: bool = False


def card(name: str) -> Hardware:
    return Hardware(gpus=(Gpu(0, None, name, None, None),))


def processor(flags: tuple[str, ...], bandwidth: float) -> Hardware:
    """One processor of a virtual machine. Its bandwidth was not measured then: it is assumed, above what one stream
    is known to have read (21 GB/s on the EPYC, 5 GB/s on the Xeon)."""
    cpu = Cpu(physical_cores=1, logical_cpus=1, usable_threads=1, flags=flags, hypervisor="kvm")
    return Hardware(cpu=cpu, bandwidth=Bandwidth(round(bandwidth), 0.0, None, 1, 5, reliable=True, reason=None))


PUBLISHED = (
    Batches(
        "M2 Ultra, 7B in 16 bits, 2023",
        "https://github.com/ggml-org/llama.cpp/pull/3545",
        card("Apple M2 Ultra"), "llama-server", "llama3.1:8b", 13.2, 128, 128,
        ((1, 41.57), (2, 50.9), (4, 74.44), (8, 139.43), (16, 242.23), (32, 465.4)),
    ),
    Batches(
        "M2 Ultra, 7B in 8 bits, 2025",
        "https://github.com/ggml-org/llama.cpp/pull/16894",
        card("Apple M2 Ultra"), "llama-server", "llama3.1:8b", 7.5, 512, 32,
        ((1, 79.04), (2, 136.37), (4, 224.52)),
    ),
    Batches(
        "RTX 4090, 8B in 4 bits, pieces of a prompt as long as the batch",
        "https://github.com/ggml-org/llama.cpp/pull/15131",
        card("RTX 4090"), "llama-server", "llama3.1:8b", 4.36, 0, 64,
        ((10, 1183.07), (12, 1424.18), (14, 1637.7), (16, 1891.88)),
    ),
    Batches(
        "H100, 8B in 16 bits",
        "https://yobitelcomm.github.io/bench/recipes/concurrency-sweep/",
        card("NVIDIA H100 80GB HBM3"), "vllm", "llama3.1:8b", 15.0, 128, 128,
        ((1, 1000 / 6.48), (4, 4000 / 6.59), (16, 16000 / 10.94)),
    ),
    Batches(
        "A100 40GB, 8B in 16 bits",
        "https://johnmusgrave.com/p/vllm-throughput-latency-sweep-on",
        card("NVIDIA A100-PCIE-40GB"), "vllm", "llama3.1:8b", 15.0, 1024, 128,
        ((1, 75.0),),
    ),
    Batches(
        "RTX 4090, 7B in 16 bits",
        "https://mushfiqrahman.dev/?p=1668",
        card("RTX 4090"), "vllm", "mistral:7b", 14.2, 256, 128,
        ((4, 210.0), (8, 377.0), (16, 644.0), (32, 975.0), (48, 1190.0)),
        decode=False,
    ),
    Batches(
        "A100 80GB, 14B in 4 bits, no graphs",
        "https://github.com/vllm-project/vllm/issues/20469",
        card("NVIDIA A100 80GB PCIe"), "vllm", "14B-class", 9.2, 16_000, 200,
        ((1, 1000 / 20.63),),
        eager=True,
    ),
    Batches(
        "virtual EPYC, one thread, 0.3B mostly in 8 bits",
        "measured: llama-batched-bench, b11434",
        processor(("avx2", "avx512f", "avx512_vnni"), 25e9), "llama-server", "llama 3.2 1B", 0.247, 128, 64,
        ((1, 86.0), (2, 48.0), (4, 67.0), (5, 56.0), (8, 111.0)),
    ),
    Batches(
        "virtual Xeon, one thread, 0.3B mostly in 8 bits",
        "measured: llama-batched-bench, b11434",
        processor(("avx2", "avx512f", "avx512_vnni"), 10e9), "llama-server", "llama 3.2 1B", 0.247, 128, 64,
        ((1, 20.7), (2, 31.3), (4, 62.0), (8, 79.0)),
    ),
)  # fmt: skip
PARAMETERS = {"virtual": 0.268e9, "M2": 6.7e9, "RTX 4090, 7B": 7.2e9}


def rows_of(batches: Batches) -> list[Row]:
    load = Workload(WorkloadKind.BATCH, 1, None, batches.prompt, batches.reply, 0)
    spec = model_of({"model_id": batches.model, "bytes_read_per_token_gb": batches.read_gigabytes, "quant": ""})
    known = next((count for word, count in PARAMETERS.items() if batches.name.startswith(word)), None)
    if known:
        spec = replace(spec, parameters=int(known), active_parameters=int(known))
    rates = predict_rates(
        batches.hardware,
        spec,
        load,
        on_gpu=bool(batches.hardware.gpus),
        engine=batches.engine,
        eager=batches.eager,
    )
    rows = []
    for streams, measured in batches.totals:
        low, likely, high = (
            model.total_tokens_per_second(streams)
            if batches.decode
            else streams * batches.reply / model.request_seconds(streams, load)
            for model in (rates.low, rates.likely, rates.high)
        )
        rows.append(Row(str(streams), batches.name, batches.model, measured, SpeedRange(low, likely, high)))
    return rows


def test_totals_of_many_streams_lie_inside_the_range_in_nine_of_ten_rows() -> None:
    rows = [row for batches in PUBLISHED for row in rows_of(batches)]
    inside, median, table = judge(rows)
    assert inside >= 0.9, table
    assert median <= 0.3, table


@pytest.mark.parametrize("batches", PUBLISHED, ids=[batches.name for batches in PUBLISHED])
def test_no_machine_is_outside_at_most_of_its_numbers_of_streams(batches: Batches) -> None:
    inside, _, table = judge(rows_of(batches))
    assert inside > 0.5, table


def test_more_streams_than_the_knee_gain_less_than_those_before_it() -> None:
    load = Workload(WorkloadKind.BATCH, 1, None, 1024, 128, 0)
    for batches in PUBLISHED:
        spec = model_of({"model_id": batches.model, "bytes_read_per_token_gb": batches.read_gigabytes, "quant": ""})
        rates = predict_rates(
            batches.hardware, spec, load, on_gpu=bool(batches.hardware.gpus), engine=batches.engine
        ).likely
        knee = find_knee(rates)
        assert knee.streams is not None
        gained = rates.total_tokens_per_second(2 * knee.streams) / knee.total_tokens_per_second
        assert 1.0 <= gained < 1.6, batches.name
