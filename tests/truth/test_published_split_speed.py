"""Decode speeds that people published of models divided between card and processor, against the predicted range.

Sources: github.com/AlexsJones/llmfit pull requests 775 and 778 (RTX 2080 of 8 GB, i9-10900X, Q4_K_M, warmed, context
4,096), github.com/ggml-org/llama.cpp pull request 15077 (two RTX 5090). Read rates of main memory are not in them: four
channels of DDR4-2933 and two of DDR5-6000 at four fifths of their peak are taken.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import median
from typing import NamedTuple

import pytest

from llmops.core.hardware import Bandwidth, Cpu, Gpu, Hardware, Memory
from llmops.core.plan import Speed, SpeedRange
from llmops.core.throughput import host_part, predict_rates, speeds
from llmops.core.workload import DEFAULTS, WorkloadKind
from tests.doubles.gguf_files import MXFP4, Q8_0
from tests.truth.shapes import attention
from tests.truth.shapes.shape import Shape
from tests.truth.shapes.sizes import DEEPSEEK_V2_LITE, GEMMA_2_9B
from tests.truth.test_published_placement import Recipe, made, medium

GIB = 1024**3
WORKLOAD = replace(DEFAULTS[WorkloadKind.CHAT], prompt_tokens=128, reply_tokens=256)


def experts_in_4_bits(name: str, layer: int, layers: int) -> int:
    """gpt-oss as it is distributed."""
    return MXFP4 if "exps" in name else Q8_0


class Row(NamedTuple):
    """One published rate in tokens per second."""

    name: str
    shape: Callable[[], Shape]
    recipe: Recipe
    cards: int
    gpu_layers: int | None
    cpu_expert_layers: int
    published: float


ROWS = (
    Row(
        "deepseek-coder-v2-lite",
        DEEPSEEK_V2_LITE,
        medium,
        1,
        None,
        16,
        49.6,
    ),
    Row("gpt-oss-20b", attention.gpt_oss, experts_in_4_bits, 1, None, 12, 36.4),
    Row(
        "gemma-2-9b",
        GEMMA_2_9B,
        medium,
        1,
        36,
        0,
        23.7,
    ),
    Row(
        "qwen2.5-14b",
        partial(attention.llama, layers=48, embedding=5120, count=40, kv_heads=8, width=13_824, vocabulary=152_064),
        medium,
        1,
        42,
        0,
        20.8,
    ),
    Row(
        "mistral-small-24b",
        partial(attention.llama, layers=40, embedding=5120, count=32, kv_heads=8, width=32_768, vocabulary=131_072),
        medium,
        1,
        16,
        0,
        5.2,
    ),
    Row(
        "gpt-oss-120b",
        partial(attention.gpt_oss, layers=36, expert_count=128),
        experts_in_4_bits,
        2,
        None,
        3,
        108.0,
    ),
)


def machine(cards: int) -> Hardware:
    """One RTX 2080 beside four channels of DDR4, or two RTX 5090 beside two channels of DDR5."""
    small = cards == 1
    name, size, capability = ("RTX 2080", 8, (7, 5)) if small else ("RTX 5090", 32, (12, 0))
    rate, cores = (75_000_000_000, 10) if small else (77_000_000_000, 16)
    gpus = tuple(
        Gpu(number, None, f"NVIDIA GeForce {name}", size * GIB, size * GIB, capability) for number in range(cards)
    )
    return Hardware(
        cpu=Cpu(physical_cores=cores, usable_threads=cores, flags=("avx2", "avx512f", "avx512_vnni")),
        memory=Memory(total_bytes=128 * GIB, available_bytes=120 * GIB),
        gpus=gpus,
        bandwidth=Bandwidth(rate, 0.05, 2 * GIB, cores, 5, reliable=True, reason=None),
    )


def predicted(row: Row, directory: Path) -> Speed:
    model = made(row.shape(), row.recipe, directory)
    part = host_part(model, row.gpu_layers, row.cpu_expert_layers)
    assert part is not None
    return speeds(predict_rates(machine(row.cards), model, WORKLOAD, on_gpu=True, part=part), WORKLOAD, (1,))[0]


@pytest.fixture(scope="module")
def spans(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, SpeedRange]:
    """The predicted range of every row."""
    directory = tmp_path_factory.mktemp("split")
    return {row.name: predicted(row, directory).decode_tokens_per_second_per_stream for row in ROWS}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_published_rates_lie_inside_the_range(row: Row, spans: Mapping[str, SpeedRange]) -> None:
    assert spans[row.name].low <= row.published <= spans[row.name].high


def test_half_of_the_likely_rates_are_within_a_fifth(spans: Mapping[str, SpeedRange]) -> None:
    assert median(abs(spans[row.name].likely / row.published - 1.0) for row in ROWS) <= 0.2
