"""NVML's arithmetic, and a machine without the Python package."""

from __future__ import annotations

import sys

import pytest

from llmops.host.local.nvml import memory_bandwidth, read_gpus


@pytest.mark.parametrize(
    ("card", "bits", "megahertz", "gigabytes_per_second"),
    [("RTX 3090", 384, 9751, 936), ("A100 80 GB", 5120, 1593, 2039), ("H100 SXM", 5120, 2619, 3352)],
)
def test_bandwidth_from_bus_and_clock(card: str, bits: int, megahertz: int, gigabytes_per_second: int) -> None:
    rate = memory_bandwidth(bits, megahertz * 1_000_000)
    assert rate is not None and round(rate / 1e9) == gigabytes_per_second, card


def test_an_unknown_part_makes_no_bandwidth() -> None:
    assert memory_bandwidth(None, 1) is None
    assert memory_bandwidth(384, None) is None


def test_a_missing_python_package_is_a_missing_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    reading = read_gpus()
    assert (reading.outcome, reading.gpus) == ("library_missing", ())
    assert "nvidia-ml-py cannot be imported" in reading.detail
