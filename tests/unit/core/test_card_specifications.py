"""Cards by the words of their names, and what is no such card."""

from __future__ import annotations

import pytest

from llmops.core.card_rates import known_bandwidth, memory_kind
from llmops.core.card_specifications import APPLE, GDDR, HBM, SHARED, SPECIFICATIONS, specification
from llmops.core.hardware import Gpu
from llmops.core.overrides import parse_gpu

GB = 10**9


def card(name: str, gigabytes: int | None = None, *, kind: str = "card") -> Gpu:
    size = None if gigabytes is None else gigabytes * 1024**3
    return Gpu(0, None, name, size, size, kind=kind)


@pytest.mark.parametrize(
    ("name", "gigabytes", "rate", "memory"),
    [
        ("NVIDIA GeForce RTX 3090", 24, 936, GDDR),
        ("RTX3090", None, 936, GDDR),
        ("NVIDIA GeForce RTX 3080 Ti", 12, 912, GDDR),
        ("NVIDIA GeForce RTX 3080", 10, 760, GDDR),
        ("NVIDIA GeForce RTX 3080", 12, 912, GDDR),
        ("NVIDIA GeForce RTX 4070 Ti SUPER", 16, 672, GDDR),
        ("NVIDIA RTX 6000 Ada Generation", 48, 960, GDDR),
        ("NVIDIA RTX PRO 6000 Blackwell Workstation Edition", 96, 1792, GDDR),
        ("NVIDIA RTX A6000", 48, 768, GDDR),
        ("NVIDIA L40S", 45, 864, GDDR),
        ("Tesla T4", 16, 320, GDDR),
        ("Tesla V100-SXM2-32GB", 32, 900, HBM),
        ("NVIDIA A100-SXM4-40GB", 40, 1555, HBM),
        ("NVIDIA A100-SXM4-80GB", 80, 2039, HBM),
        ("NVIDIA A100 80GB PCIe", 80, 1935, HBM),
        ("NVIDIA H100 PCIe", 80, 2039, HBM),
        ("NVIDIA H100 80GB HBM3", 80, 3350, HBM),
        ("NVIDIA H200", 141, 4800, HBM),
        ("AMD Radeon RX 7900 XTX", 24, 960, GDDR),
        ("NVIDIA GB10", 120, 273, SHARED),
        ("AMD Radeon 8060S", 96, 256, SHARED),
        ("Apple M2 Ultra", 192, 800, APPLE),
        ("Apple M2", 24, 100, APPLE),
    ],
)
def test_a_card_is_known_by_its_name(name: str, gigabytes: int | None, rate: float, memory: str) -> None:
    gpu = card(name, gigabytes)
    assert known_bandwidth(gpu) == rate * GB
    assert memory_kind(gpu) == memory


@pytest.mark.parametrize(
    "name",
    [
        "NVIDIA GeForce RTX 3080 Laptop GPU",
        "NVIDIA GeForce RTX 2070 with Max-Q Design",
        "NVIDIA GeForce RTX 5090 D",
        "NVIDIA GeForce GTX 1080",
        "RTX",
        "card",
        "",
    ],
)
def test_a_card_of_another_name_is_not_taken_for_one_that_is_known(name: str) -> None:
    assert specification(card(name)) is None


def test_a_share_of_a_card_has_not_the_bandwidth_of_the_whole() -> None:
    assert specification(card("NVIDIA A100-SXM4-80GB", 10, kind="instance")) is None
    assert specification(card("NVIDIA A100-SXM4-80GB MIG 1g.10gb", 10)) is None


def test_what_the_driver_or_the_user_says_comes_first() -> None:
    assert known_bandwidth(parse_gpu("RTX 3090:24GiB:23GiB:8.6:800GB/s")) == 800 * GB
    assert known_bandwidth(parse_gpu("RTX 3090:24GiB")) == 936 * GB


def test_every_entry_finds_itself_and_has_figures_of_a_card() -> None:
    for row in SPECIFICATIONS:
        assert specification(card(row.words)) == row
        assert 50 * GB < row.bytes_per_second < 10_000 * GB
        assert 0 < row.operations_per_second < 3e15


@pytest.mark.parametrize(
    ("gpu", "memory"),
    [
        (Gpu(0, None, "x", None, None, compute_capability=(9, 0)), HBM),
        (Gpu(0, None, "x", None, None, compute_capability=(12, 0), bandwidth_bytes_per_second=1792 * GB), GDDR),
        (Gpu(0, None, "x", None, None, architecture="gfx942", vendor="amd"), HBM),
        (Gpu(0, None, "x", None, None, architecture="gfx1100", vendor="amd"), GDDR),
        (Gpu(0, None, "x", None, None, bandwidth_bytes_per_second=3350 * GB), HBM),
        (Gpu(0, None, "x", None, None, bandwidth_bytes_per_second=936 * GB), GDDR),
        (Gpu(0, None, "x", None, None, unified=True), SHARED),
        (Gpu(0, None, "Apple M9", None, None), APPLE),
    ],
)
def test_the_kind_of_memory_follows_from_what_is_known(gpu: Gpu, memory: str) -> None:
    assert memory_kind(gpu) == memory
