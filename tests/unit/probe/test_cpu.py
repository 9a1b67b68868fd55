"""Processors on machines of different shapes."""

from __future__ import annotations

from llmops.core.hardware import Cpu
from llmops.core.units import MIB
from llmops.probe.cgroup import read_limits
from llmops.probe.cpu import read_cpu
from tests.unit.probe import machines
from tests.unit.probe.machines import CPU, TreeHost


def cpu_of(host: TreeHost, process: str = "self") -> Cpu:
    return read_cpu(host, read_limits(host, process), process)[0]


def test_a_small_virtual_server() -> None:
    cpu = cpu_of(TreeHost(machines.small_server(), affinity=4))
    assert cpu == Cpu(
        model="Intel Xeon Processor (Skylake, IBRS)",
        architecture="x86_64",
        physical_cores=4,
        logical_cpus=4,
        threads_per_core=1,
        performance_cores=4,
        efficiency_cores=0,
        numa_nodes=1,
        flags=("sse4_2", "avx", "f16c", "fma", "avx2", "avx512f"),
        affinity_cpus=4,
        quota_cores=None,
        usable_threads=4,
        last_level_cache_bytes=16 * MIB,
        usable_cores=4,
    )


def test_two_sockets_with_two_threads_per_core() -> None:
    cpu = cpu_of(TreeHost(machines.large_server(), affinity=64))
    assert (cpu.physical_cores, cpu.logical_cpus, cpu.threads_per_core) == (32, 64, 2)
    assert (cpu.usable_threads, cpu.usable_cores, cpu.numa_nodes) == (64, 32, 2)
    assert cpu.last_level_cache_bytes == 120 * MIB
    assert {"amx_tile", "amx_int8", "avx512_vnni", "avx512_bf16"} <= set(cpu.flags)


def test_affinity_to_both_threads_of_a_few_cores_counts_the_cores_and_their_cache() -> None:
    tree = machines.large_server() | {"/proc/self/status": "Cpus_allowed_list:\t0-3,32-35\n"}
    cpu = cpu_of(TreeHost(tree, affinity=8))
    assert (cpu.affinity_cpus, cpu.usable_threads, cpu.usable_cores) == (8, 8, 4)
    assert cpu.last_level_cache_bytes == 60 * MIB


def test_a_quota_is_rounded_down_but_never_to_nothing() -> None:
    for quota, threads in (("350000 100000", 3), ("50000 100000", 1), ("max 100000", 4)):
        tree = machines.small_server() | {"/sys/fs/cgroup/user.slice/cpu.max": f"{quota}\n"}
        cpu = cpu_of(TreeHost(tree, affinity=4))
        assert (cpu.usable_threads, cpu.usable_cores) == (threads, threads)


def test_performance_and_efficiency_cores_of_a_laptop() -> None:
    cpu = cpu_of(TreeHost(machines.hybrid_laptop(), affinity=20))
    assert (cpu.performance_cores, cpu.efficiency_cores, cpu.physical_cores) == (6, 8, 14)
    assert (cpu.usable_threads, cpu.usable_cores) == (20, 14)


def test_an_arm_board_names_its_parts_and_tells_big_from_small() -> None:
    cpu = cpu_of(TreeHost(machines.arm_board(), affinity=8))
    assert (cpu.model, cpu.architecture) == ("Arm Cortex-A55 + Arm Cortex-A76", "aarch64")
    assert (cpu.performance_cores, cpu.efficiency_cores) == (4, 4)
    assert cpu.flags == ("asimd", "asimdhp", "asimddp")
    assert (cpu.last_level_cache_bytes, cpu.numa_nodes) == (None, None)


def test_an_unknown_arm_part_is_given_by_number() -> None:
    info = "processor\t: 0\nFeatures\t: asimd\nCPU implementer\t: 0x61\nCPU part\t: 0x039\n"
    assert cpu_of(TreeHost({"/proc/cpuinfo": info})).model == "Arm implementer 0x61 part 0x39"


def test_an_offline_processor_is_not_counted() -> None:
    tree = machines.large_server() | {f"{CPU}/online": "0-47\n"}
    cpu = cpu_of(TreeHost(tree, affinity=48))
    assert (cpu.logical_cpus, cpu.physical_cores, cpu.threads_per_core) == (48, 32, 2)


def test_without_sysfs_cpuinfo_tells_the_cores() -> None:
    block = "processor\t: {}\nmodel name\t: X\nphysical id\t: 0\ncore id\t\t: {}\nflags\t\t: lm avx2\n"
    tree = {"/proc/cpuinfo": "\n".join(block.format(cpu, cpu // 2) for cpu in range(4))}
    cpu = cpu_of(TreeHost(tree, affinity=4))
    assert (cpu.physical_cores, cpu.logical_cpus, cpu.threads_per_core, cpu.usable_cores) == (2, 4, 2, 2)
    assert (cpu.performance_cores, cpu.efficiency_cores) == (None, None)


def test_the_affinity_of_another_process_comes_from_its_status() -> None:
    tree = machines.small_server() | {"/proc/77/status": "Cpus_allowed_list:\t1-2\n", "/proc/77/cgroup": "0::/\n"}
    assert cpu_of(TreeHost(tree, affinity=4), "77").affinity_cpus == 2


def test_what_is_hidden_is_none_with_a_reason() -> None:
    host = TreeHost({"/proc/cpuinfo": PermissionError(13, "Permission denied")})
    cpu, observations = read_cpu(host, read_limits(host))
    assert cpu == Cpu()
    reasons = {row.quantity: row.reason for row in observations}
    assert reasons["cpu.model"] == "no permission to read /proc/cpuinfo"
    assert None not in reasons.values()
