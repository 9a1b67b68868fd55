"""Memory, what the engine holds, and swap."""

from __future__ import annotations

import pytest

from llmops.core.hardware import Memory, Swap
from llmops.core.units import GIB, KIB
from llmops.probe.cgroup import read_limits
from llmops.probe.memory import held_by_engine, read_memory
from llmops.probe.swap import read_swap
from tests.unit.probe import machines
from tests.unit.probe.machines import TreeHost

HEADING = "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n"


def status(anonymous: int, file: int, shared: int = 0, locked: int = 0, swapped: int = 0) -> str:
    rows = {"VmLck": locked, "RssAnon": anonymous, "RssFile": file, "RssShmem": shared, "VmSwap": swapped}
    return "Name:\tllama-server\nTgid:\t812\n" + "".join(f"{name}:\t{size // KIB} kB\n" for name, size in rows.items())


def test_memory_without_limits() -> None:
    host = TreeHost(machines.small_server() | {"/proc/pressure/memory": machines.pressure(1.5, 0.25)})
    memory, observations = read_memory(host, read_limits(host))
    assert memory == Memory(
        total_bytes=8 * GIB, available_bytes=7 * GIB, pressure_some_percent=1.5, pressure_full_percent=0.25
    )
    notes = {row.quantity: (row.source, row.reason) for row in observations}
    assert notes["memory.available_bytes"] == ("/proc/meminfo MemAvailable", None)
    assert (notes["memory.limit_bytes"][1] or "").startswith("no memory limit at any of")


def test_a_limit_and_the_unit_bound_what_may_be_used() -> None:
    tree = machines.small_server() | {
        "/sys/fs/cgroup/user.slice/memory.max": f"{4 * GIB}\n",
        "/sys/fs/cgroup/user.slice/memory.current": f"{3 * GIB}\n",
        "/sys/fs/cgroup/user.slice/memory.stat": f"inactive_file {2 * GIB}\n",
    }
    host = TreeHost(tree)
    memory, _ = read_memory(host, read_limits(host))
    assert (memory.limit_bytes, memory.limit_available_bytes, memory.usable_bytes) == (4 * GIB, 3 * GIB, 3 * GIB)
    assert memory.limit_source == "/sys/fs/cgroup/user.slice/memory.max"
    memory, _ = read_memory(host, read_limits(host), engine_limit_bytes=2 * GIB)
    assert memory.usable_bytes == 2 * GIB


@pytest.mark.parametrize(
    ("text", "held"),
    [
        (status(2 * GIB, 5 * GIB), 2 * GIB),
        (status(2 * GIB, 5 * GIB, shared=1 * GIB, swapped=3 * GIB), 3 * GIB),
        # Mapped and locked: 6 GiB locked, of which 2 may be the anonymous ones.
        (status(2 * GIB, 5 * GIB, locked=6 * GIB), 6 * GIB),
        # Read and locked: everything locked is anonymous already.
        (status(7 * GIB, 0, locked=5 * GIB), 7 * GIB),
        ("nonsense", 0),
    ],
)
def test_only_what_cannot_be_reclaimed_counts_as_held(text: str, held: int) -> None:
    assert held_by_engine(TreeHost({"/proc/812/status": text}), (812,)) == held


def test_the_same_machine_counts_the_same_with_and_without_the_engine_running() -> None:
    free = TreeHost(machines.small_server())
    without, _ = read_memory(free, read_limits(free))
    busy_tree = machines.small_server() | machines.meminfo(8 * GIB, 4 * GIB) | {"/proc/812/status": status(3 * GIB, 0)}
    busy = TreeHost(busy_tree)
    during, _ = read_memory(busy, read_limits(busy), engine_pids=(812,))
    assert during.held_by_engine_bytes == 3 * GIB
    assert during.usable_bytes == without.usable_bytes == 7 * GIB


def test_a_process_that_has_ended_holds_nothing() -> None:
    assert held_by_engine(TreeHost({}), (1, 2)) == 0


def test_a_kernel_without_pressure_says_so() -> None:
    host = TreeHost(
        machines.small_server() | {"/proc/pressure/memory": OSError(95, "Operation not supported")}  # psi=0 at boot
    )
    memory, observations = read_memory(host, read_limits(host))
    assert memory.pressure_some_percent is None
    (reason,) = [row.reason for row in observations if row.quantity == "memory.pressure_some_percent"]
    assert reason == "/proc/pressure/memory: Operation not supported"


@pytest.mark.parametrize(
    ("rows", "swap"),
    [
        ("", Swap(0, 0, "none")),
        ("/swapfile  file\t2097148\t\t1024\t\t-2\n", Swap(2097148 * KIB, 1024 * KIB, "file")),
        ("/dev/sda2  partition\t1000\t\t0\t\t-2\n", Swap(1000 * KIB, 0, "partition")),
        ("/dev/zram0  partition\t4000\t\t40\t\t100\n", Swap(4000 * KIB, 40 * KIB, "zram")),
        (
            "/dev/zram0 partition 4000 40 100\n/my\\040swap file 1000 2 -2\n",
            Swap(5000 * KIB, 42 * KIB, "mixed"),
        ),
    ],
)
def test_swap(rows: str, swap: Swap) -> None:
    found, observations = read_swap(TreeHost({"/proc/swaps": HEADING + rows}))
    assert found == swap
    assert all(row.reason is None for row in observations)


def test_hidden_swap_is_unknown_and_not_absent() -> None:
    found, observations = read_swap(TreeHost({}))
    assert found == Swap(None, None, None)
    assert {row.reason for row in observations} == {"/proc/swaps does not exist"}
