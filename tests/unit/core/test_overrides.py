"""Given values replace probed ones and say so."""

from __future__ import annotations

from dataclasses import replace

import pytest

from llmops.core.errors import UsageError
from llmops.core.hardware import Cpu, Gpu, Hardware, Memory, Observation, Swap
from llmops.core.overrides import override_hardware, parse_gpu
from llmops.core.units import GIB

PROBED = Hardware(
    cpu=Cpu(physical_cores=16, logical_cpus=32, threads_per_core=2, quota_cores=2.0, usable_threads=2, usable_cores=2),
    memory=Memory(
        total_bytes=16 * GIB,
        available_bytes=8 * GIB,
        limit_bytes=6 * GIB,
        limit_available_bytes=3 * GIB,
        limit_source="/sys/fs/cgroup/memory.max",
        engine_limit_bytes=5 * GIB,
        held_by_engine_bytes=1 * GIB,
    ),
    swap=Swap(2 * GIB, 1 * GIB, "file"),
    gpus=(Gpu(0, "GPU-1", "T4", 16 * GIB, 15 * GIB),),
    gpu_outcome="ok",
    driver_version="550.54",
    observations=(
        Observation("memory.total_bytes", "/proc/meminfo MemTotal"),
        Observation("memory.available_bytes", "/proc/meminfo MemAvailable"),
        Observation("cpu.quota_cores", "/sys/fs/cgroup/cpu.max"),
        Observation("gpus", "NVML"),
        Observation("gpus[0].total_bytes", "nvmlDeviceGetMemoryInfo total"),
        Observation("swap.kind", "/proc/swaps Type"),
    ),
)


def sources(hardware: Hardware) -> dict[str, str]:
    assert len({row.quantity for row in hardware.observations}) == len(hardware.observations)
    return {row.quantity: row.source for row in hardware.observations}


def test_nothing_given_changes_nothing() -> None:
    assert override_hardware(PROBED) == PROBED


def test_given_memory_is_another_machine() -> None:
    hardware = override_hardware(PROBED, ram_bytes=64 * GIB)
    assert hardware.memory == Memory(total_bytes=64 * GIB, available_bytes=64 * GIB)
    assert hardware.memory.usable_bytes == 64 * GIB
    assert sources(hardware)["memory.total_bytes"] == "given"
    assert sources(hardware)["memory.limit_bytes"] == "given"
    assert sources(hardware)["cpu.quota_cores"] == "/sys/fs/cgroup/cpu.max"


def test_given_memory_with_its_available_part() -> None:
    hardware = override_hardware(PROBED, ram_bytes=64 * GIB, ram_available_bytes=50 * GIB)
    assert hardware.memory.usable_bytes == 50 * GIB


def test_given_available_memory_keeps_the_hard_limits_of_this_machine() -> None:
    hardware = override_hardware(PROBED, ram_available_bytes=4 * GIB)
    assert (hardware.memory.total_bytes, hardware.memory.usable_bytes) == (16 * GIB, 4 * GIB)
    assert override_hardware(PROBED, ram_available_bytes=12 * GIB).memory.usable_bytes == 5 * GIB
    assert sources(hardware)["memory.available_bytes"] == "given"
    assert sources(hardware)["memory.total_bytes"] == "/proc/meminfo MemTotal"


def test_given_cores_are_all_usable() -> None:
    cpu = override_hardware(PROBED, cores=12).cpu
    assert (cpu.physical_cores, cpu.logical_cpus, cpu.usable_threads, cpu.usable_cores) == (12, 12, 12, 12)
    assert (cpu.quota_cores, cpu.affinity_cpus, cpu.performance_cores, cpu.efficiency_cores) == (None, None, 12, 0)


def test_given_swap_and_bandwidth() -> None:
    hardware = override_hardware(PROBED, swap_bytes=0, bandwidth_bytes_per_second=20_000_000_000)
    assert hardware.swap == Swap(0, 0, "none")
    assert hardware.bandwidth is not None
    assert (hardware.bandwidth.read_bytes_per_second, hardware.bandwidth.reliable) == (20_000_000_000, True)
    assert sources(hardware)["swap.kind"] == sources(hardware)["bandwidth.read_bytes_per_second"] == "given"


def test_given_cards_replace_all_that_were_seen() -> None:
    given = (parse_gpu("A:24GiB"), parse_gpu("B:12GiB"))
    hardware = override_hardware(PROBED, gpus=given)
    assert [(gpu.index, gpu.name) for gpu in hardware.gpus] == [(0, "A"), (1, "B")]
    assert (hardware.gpu_outcome, hardware.driver_version) == ("ok", None)
    assert {name: source for name, source in sources(hardware).items() if name.startswith("gpus")} == {"gpus": "given"}


def test_no_card() -> None:
    hardware = override_hardware(PROBED, no_gpu=True)
    assert (hardware.gpus, hardware.gpu_outcome, hardware.gpu_detail) == ((), "no_devices", "given")


@pytest.mark.parametrize(
    "given",
    [
        {"ram_bytes": 0},
        {"ram_bytes": 8 * GIB, "ram_available_bytes": 9 * GIB},
        {"ram_available_bytes": 17 * GIB},
        {"cores": 0},
    ],
)
def test_impossible_values_are_refused(given: dict[str, int]) -> None:
    with pytest.raises(UsageError) as raised:
        override_hardware(PROBED, **given)  # type: ignore[arg-type]
    assert raised.value.hint


def test_cards_and_no_cards_exclude_each_other() -> None:
    with pytest.raises(UsageError, match="exclude each other"):
        override_hardware(PROBED, gpus=(parse_gpu("A:24GiB"),), no_gpu=True)


def test_a_card_in_full() -> None:
    card = Gpu(
        index=0,
        uuid=None,
        name="NVIDIA GeForce RTX 3090",
        total_bytes=24 * GIB,
        free_bytes=23 * GIB,
        compute_capability=(8, 6),
        bandwidth_bytes_per_second=936_000_000_000,
    )
    assert parse_gpu("NVIDIA GeForce RTX 3090:24GiB:23GiB:8.6:936GB/s") == card
    assert parse_gpu("NVIDIA GeForce RTX 3090:24GiB::8.6:936GB/s") == replace(card, free_bytes=24 * GIB)
    assert parse_gpu(" H100 : 80GiB ").name == "H100"
    assert parse_gpu("GB10:128GiB:100GiB:12.1").compute_capability == (12, 1)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "RTX",
        ":24GiB",
        "RTX:",
        "RTX:many",
        "RTX:0",
        "RTX:1GiB:2GiB",
        "RTX:24GiB:23GiB:eight",
        "RTX:24GiB:::936GB",
        "RTX:24GiB:23GiB:8.6:936GB/s:more",
    ],
)
def test_nonsense_is_no_card(text: str) -> None:
    with pytest.raises(UsageError) as raised:
        parse_gpu(text)
    assert raised.value.hint


def test_given_links_are_those_of_every_two_cards() -> None:
    pair = (parse_gpu("A:24GiB"), parse_gpu("B:24GiB"), parse_gpu("C:24GiB"))
    found = override_hardware(PROBED, gpus=pair, links="pcie")
    assert [(link.first, link.second, link.kind) for link in found.links] == [
        (0, 1, "pcie"),
        (0, 2, "pcie"),
        (1, 2, "pcie"),
    ]
    assert sources(found)["links"] == "given"
    assert override_hardware(found, gpus=pair[:2]).links == ()
