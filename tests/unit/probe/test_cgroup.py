"""Limits of control groups in the layouts that servers and containers have."""

from __future__ import annotations

import pytest

from llmops.core.units import GIB, MIB
from llmops.probe.cgroup import Limits, read_limits
from tests.unit.probe.machines import MOUNT_V2, TreeHost

UNLIMITED_V1 = "9223372036854771712\n"


def limits_of(files: dict[str, str], process: str = "self") -> Limits:
    return read_limits(TreeHost(files), process)


def nested_v2() -> dict[str, str]:
    service = "/sys/fs/cgroup/system.slice/llama-server.service"
    return {
        "/proc/self/cgroup": "0::/system.slice/llama-server.service\n",
        "/proc/self/mountinfo": "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n" + MOUNT_V2,
        f"{service}/memory.max": f"{12 * GIB}\n",
        f"{service}/memory.high": "max\n",
        f"{service}/memory.current": f"{9 * GIB}\n",
        f"{service}/memory.stat": f"anon {2 * GIB}\nfile {7 * GIB}\ninactive_file {4 * GIB}\nactive_file {3 * GIB}\n",
        f"{service}/cpu.max": "400000 100000\n",
        "/sys/fs/cgroup/system.slice/memory.max": f"{16 * GIB}\n",
        "/sys/fs/cgroup/system.slice/memory.high": "max\n",
        "/sys/fs/cgroup/system.slice/memory.current": f"{15 * GIB}\n",
        "/sys/fs/cgroup/system.slice/memory.stat": f"inactive_file {4 * GIB}\nactive_file {3 * GIB}\n",
        "/sys/fs/cgroup/system.slice/cpu.max": "250000 100000\n",
    }


def test_every_level_counts_and_page_cache_is_not_use() -> None:
    limits = limits_of(nested_v2())
    assert limits.quota is not None and limits.memory is not None and limits.available is not None
    assert (limits.quota.cores, limits.quota.source) == (2.5, "/sys/fs/cgroup/system.slice/cpu.max")
    assert limits.memory.limit_bytes == 12 * GIB
    assert limits.memory.source.endswith("llama-server.service/memory.max")
    # The service could take 10 GiB more, its slice only 8: the neighbours are full.
    assert limits.available.available_bytes == 8 * GIB
    assert limits.available.source == "/sys/fs/cgroup/system.slice/memory.max"


def test_max_is_no_limit() -> None:
    files = {name: "max\n" if name.endswith("memory.max") else text for name, text in nested_v2().items()}
    files = {name: "max 100000\n" if name.endswith("cpu.max") else text for name, text in files.items()}
    limits = limits_of(files)
    assert (limits.quota, limits.memory, limits.available) == (None, None, None)
    assert limits.memory_reason == (
        "no memory limit at any of 3 control-group levels from /sys/fs/cgroup/system.slice/llama-server.service up"
    )


def test_memory_high_limits_too() -> None:
    service = "/sys/fs/cgroup/system.slice/llama-server.service"
    limits = limits_of(nested_v2() | {f"{service}/memory.high": f"{6 * GIB}\n"})
    assert limits.memory is not None and limits.available is not None
    assert (limits.memory.limit_bytes, limits.memory.source) == (6 * GIB, f"{service}/memory.high")
    assert limits.available.available_bytes == 4 * GIB


def test_a_container_with_its_own_root_sees_its_limit_at_the_mount_point() -> None:
    limits = limits_of(
        {
            "/proc/self/cgroup": "0::/\n",
            "/proc/self/mountinfo": MOUNT_V2,
            "/sys/fs/cgroup/memory.max": f"{4 * GIB}\n",
            "/sys/fs/cgroup/memory.current": f"{1 * GIB}\n",
            "/sys/fs/cgroup/memory.stat": f"inactive_file {512 * MIB}\nslab_reclaimable {256 * MIB}\n",
            "/sys/fs/cgroup/cpu.max": "150000 100000\n",
        }
    )
    assert limits.memory is not None and limits.quota is not None
    assert limits.memory.available_bytes == 4 * GIB - 256 * MIB
    assert limits.quota.cores == 1.5


def test_a_path_outside_of_the_namespace_leaves_the_mount_point() -> None:
    limits = limits_of(
        {
            "/proc/self/cgroup": "0::/../../init.scope\n",
            "/proc/self/mountinfo": MOUNT_V2,
            "/sys/fs/cgroup/memory.max": f"{2 * GIB}\n",
        }
    )
    assert limits.memory is not None
    assert (limits.memory.limit_bytes, limits.memory.available_bytes, limits.available) == (2 * GIB, None, None)


def docker_v1() -> dict[str, str]:
    """Version 1 without a namespace: the path is the host's, the mount shows only the container's part of it."""
    return {
        "/proc/self/cgroup": "5:memory:/docker/abc\n4:cpu,cpuacct:/docker/abc\n1:name=systemd:/docker/abc\n",
        "/proc/self/mountinfo": (
            "40 30 0:30 /docker/abc /sys/fs/cgroup/memory ro,nosuid master:11 - cgroup cgroup rw,memory\n"
            "41 30 0:31 /docker/abc /sys/fs/cgroup/cpu,cpuacct ro master:12 - cgroup cgroup rw,cpu,cpuacct\n"
        ),
        "/sys/fs/cgroup/memory/memory.limit_in_bytes": f"{4 * GIB}\n",
        "/sys/fs/cgroup/memory/memory.usage_in_bytes": f"{3 * GIB}\n",
        "/sys/fs/cgroup/memory/memory.stat": (
            f"cache {2 * GIB}\nhierarchical_memory_limit {4 * GIB}\n"
            f"total_inactive_file {1 * GIB}\ntotal_active_file {1 * GIB}\n"
        ),
        "/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us": "200000\n",
        "/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us": "100000\n",
    }


def test_version_one_in_a_container() -> None:
    limits = limits_of(docker_v1())
    assert limits.memory is not None and limits.quota is not None
    assert (limits.memory.limit_bytes, limits.memory.available_bytes) == (4 * GIB, 3 * GIB)
    assert limits.quota.cores == 2.0


def test_version_one_knows_the_limit_of_a_parent_that_is_hidden() -> None:
    statistics = f"hierarchical_memory_limit {1 * GIB}\ntotal_inactive_file 0\n"
    changed = {
        "/sys/fs/cgroup/memory/memory.limit_in_bytes": UNLIMITED_V1,
        "/sys/fs/cgroup/memory/memory.usage_in_bytes": f"{256 * MIB}\n",
        "/sys/fs/cgroup/memory/memory.stat": statistics,
    }
    limits = limits_of(docker_v1() | changed)
    assert limits.memory is not None
    assert (limits.memory.limit_bytes, limits.memory.available_bytes) == (1 * GIB, 768 * MIB)
    assert limits.memory.source.endswith("hierarchical_memory_limit")


@pytest.mark.parametrize("largest", ["9223372036854771712", "9223372036854710272", "9223372036854775807"])
def test_version_one_writes_no_limit_as_the_largest_number_of_pages(largest: str) -> None:
    changed = {
        "/sys/fs/cgroup/memory/memory.limit_in_bytes": f"{largest}\n",
        "/sys/fs/cgroup/memory/memory.stat": f"hierarchical_memory_limit {largest}\n",
        "/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us": "-1\n",
    }
    limits = limits_of(docker_v1() | changed)
    assert (limits.memory, limits.quota) == (None, None)
    assert (
        limits.quota_reason == "no processor quota at any of 1 control-group levels from /sys/fs/cgroup/cpu,cpuacct up"
    )


def test_a_hybrid_machine_has_its_controllers_in_version_one() -> None:
    limits = limits_of(
        {
            "/proc/self/cgroup": "4:memory:/system.slice/a.service\n1:name=systemd:/x\n0::/system.slice/a.service\n",
            "/proc/self/mountinfo": (
                "35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n"
                "41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n"
            ),
            "/sys/fs/cgroup/memory/system.slice/memory.limit_in_bytes": f"{3 * GIB}\n",
            "/sys/fs/cgroup/memory/system.slice/memory.usage_in_bytes": f"{1 * GIB}\n",
            "/sys/fs/cgroup/unified/system.slice/memory.max": "1\n",
            "/sys/fs/cgroup/unified/system.slice/cpu.max": "100000 100000\n",
        }
    )
    assert limits.memory is not None and limits.quota is not None
    assert (limits.memory.limit_bytes, limits.memory.available_bytes) == (3 * GIB, 2 * GIB)
    # The processor controller is in no version-one hierarchy here, so the unified one has it.
    assert limits.quota.source == "/sys/fs/cgroup/unified/system.slice/cpu.max"


def test_the_limits_of_another_process() -> None:
    files = nested_v2() | {"/proc/self/cgroup": "0::/\n", "/proc/812/cgroup": nested_v2()["/proc/self/cgroup"]}
    assert limits_of(files).memory is None
    found = limits_of(files, "812").memory
    assert found is not None and found.limit_bytes == 12 * GIB


def test_nothing_to_read_is_a_reason() -> None:
    limits = limits_of({})
    assert (limits.memory, limits.memory_reason) == (None, "/proc/self/cgroup does not exist")


@pytest.mark.parametrize("nonsense", ["", "abc\n", "1 2 3\n", "-5 100000\n", "100000 0\n"])
def test_nonsense_is_no_limit(nonsense: str) -> None:
    service = "/sys/fs/cgroup/system.slice/llama-server.service"
    files = nested_v2() | {f"{service}/cpu.max": nonsense, "/sys/fs/cgroup/system.slice/cpu.max": nonsense}
    assert limits_of(files).quota is None
