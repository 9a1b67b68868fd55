"""The whole probe: every value has a source or a reason, and one failing source hides no other."""

from __future__ import annotations

from dataclasses import fields

import pytest

from llmops.core.hardware import Gpu, GpuProcess, GpuReading, Hardware
from llmops.core.units import GIB
from llmops.probe import read_hardware
from tests.unit.probe import machines
from tests.unit.probe.machines import TreeHost

CARD = Gpu(
    index=0,
    uuid="GPU-1",
    name="NVIDIA GeForce RTX 3090",
    total_bytes=24 * GIB,
    free_bytes=4 * GIB,
    processes=(GpuProcess(812, 18 * GIB), GpuProcess(900, None)),
)


def reasons(hardware: Hardware) -> dict[str, str | None]:
    return {row.quantity: row.reason for row in hardware.observations}


@pytest.mark.parametrize(
    "tree", [machines.small_server, machines.large_server, machines.hybrid_laptop, machines.arm_board]
)
def test_every_value_has_one_observation_that_agrees_with_it(tree: object) -> None:
    assert callable(tree)
    hardware = read_hardware(TreeHost(tree()))
    notes = reasons(hardware)
    assert len(notes) == len(hardware.observations)
    for section in ("cpu", "memory", "swap"):
        value = getattr(hardware, section)
        for field in fields(value):
            if field.name != "limit_source":
                missing = getattr(value, field.name) is None
                assert (notes[f"{section}.{field.name}"] is not None) == missing, field.name


def test_a_machine_that_shows_nothing_still_gives_an_answer() -> None:
    hardware = read_hardware(TreeHost({}), bandwidth=True)
    assert (hardware.cpu.usable_threads, hardware.memory.usable_bytes, hardware.swap.kind) == (None, None, None)
    assert hardware.bandwidth is not None and hardware.bandwidth.read_bytes_per_second is None
    known = {quantity for quantity, reason in reasons(hardware).items() if reason is None}
    assert known == {"memory.held_by_engine_bytes"}


def test_hidden_processors_do_not_hide_memory() -> None:
    tree: dict[str, str | OSError] = {**machines.small_server(), "/proc/cpuinfo": PermissionError(13, "denied")}
    hardware = read_hardware(TreeHost(tree))
    assert hardware.cpu.model is None
    assert reasons(hardware)["cpu.model"] == "no permission to read /proc/cpuinfo"
    assert (hardware.cpu.physical_cores, hardware.memory.total_bytes) == (4, 8 * GIB)


def test_no_card_keeps_how_it_was_not_seen() -> None:
    reading = GpuReading("version_mismatch", "libnvidia-ml and the module differ")
    hardware = read_hardware(TreeHost(machines.small_server(), reading=reading))
    assert (hardware.gpus, hardware.gpu_outcome) == ((), "version_mismatch")
    assert reasons(hardware)["gpus"] == "version_mismatch: libnvidia-ml and the module differ"


def test_card_memory_of_the_tuned_engine_counts_as_free() -> None:
    host = TreeHost(machines.small_server(), reading=GpuReading("ok", "1 seen", (CARD,), "550.54"))
    (gpu,) = read_hardware(host, engine_pids=(812,)).gpus
    assert (gpu.free_bytes, gpu.held_by_engine_bytes, gpu.usable_bytes) == (4 * GIB, 18 * GIB, 22 * GIB)
    (gpu,) = read_hardware(host, engine_pids=(900,)).gpus
    assert (gpu.held_by_engine_bytes, gpu.usable_bytes) == (0, 4 * GIB)


def test_a_card_without_its_own_memory_has_that_of_the_host() -> None:
    shared = Gpu(index=0, uuid=None, name="NVIDIA GB10", total_bytes=None, free_bytes=None, unified=True)
    hardware = read_hardware(TreeHost(machines.small_server(), reading=GpuReading("ok", "1 seen", (shared,))))
    assert [(gpu.total_bytes, gpu.free_bytes, gpu.unified) for gpu in hardware.gpus] == [(8 * GIB, 7 * GIB, True)]
    sources = {row.quantity: row.source for row in hardware.observations}
    assert sources["gpus[0].total_bytes"] == "/proc/meminfo (memory shared with the processor)"


def test_the_running_engine_is_limited_by_its_own_group() -> None:
    service = "/sys/fs/cgroup/system.slice/llama-server.service"
    tree = machines.small_server() | {
        "/proc/812/cgroup": "0::/system.slice/llama-server.service\n",
        "/proc/812/status": "Cpus_allowed_list:\t0-2\nRssAnon:\t1048576 kB\n",
        f"{service}/cpu.max": "200000 100000\n",
        f"{service}/memory.max": f"{5 * GIB}\n",
        f"{service}/memory.current": f"{2 * GIB}\n",
        f"{service}/memory.stat": f"anon {1 * GIB}\ninactive_file {1 * GIB}\n",
    }
    hardware = read_hardware(TreeHost(tree, affinity=4), engine_pids=(812,))
    assert (hardware.cpu.affinity_cpus, hardware.cpu.quota_cores, hardware.cpu.usable_threads) == (3, 2.0, 2)
    assert (hardware.memory.limit_bytes, hardware.memory.held_by_engine_bytes) == (5 * GIB, 1 * GIB)
    # 4 GiB left below the limit and 1 GiB that the engine gives back.
    assert hardware.memory.usable_bytes == 5 * GIB


def test_an_engine_that_has_just_ended_leaves_our_own_limits() -> None:
    hardware = read_hardware(TreeHost(machines.small_server(), affinity=4), engine_pids=(812,))
    assert (hardware.cpu.usable_threads, hardware.memory.usable_bytes) == (4, 7 * GIB)
