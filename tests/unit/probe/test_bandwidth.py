"""The size of the buffers, and when a measurement is not to be trusted."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from llmops.core.hardware import Bandwidth, Cpu, Memory
from llmops.core.units import GIB, MIB
from llmops.probe.bandwidth import PASSES, read_bandwidth
from tests.unit.probe.machines import TreeHost

IDLE = {"/proc/stat": "cpu  100 0 50 9000 10 0 5 0 0 0\n", "/proc/loadavg": "0.05 0.10 0.20 1/120 999\n"}
ROOMY = Memory(total_bytes=64 * GIB, available_bytes=60 * GIB)
EIGHT = Cpu(logical_cpus=8, usable_threads=8, last_level_cache_bytes=32 * MIB)
STEADY = (0.05, 0.051, 0.049)


def steady(_buffer_bytes: int, _threads: int, _passes: int) -> tuple[float, ...]:
    return STEADY


def measure(
    cpu: Cpu = EIGHT,
    memory: Memory = ROOMY,
    files: dict[str, str] = IDLE,
    seconds: Callable[[int, int, int], tuple[float, ...]] = steady,
) -> tuple[Bandwidth, TreeHost]:
    host = TreeHost(files, read_seconds=seconds)
    return read_bandwidth(host, cpu, memory)[0], host


def test_the_median_pass_of_a_quiet_machine() -> None:
    bandwidth, host = measure()
    assert host.reads == [(1 * GIB, 8, PASSES)]
    assert bandwidth == Bandwidth(
        read_bytes_per_second=round(GIB / 0.05),
        spread=(0.051 - 0.049) / 0.05,
        buffer_bytes=1 * GIB,
        threads=8,
        passes=3,
        reliable=True,
        reason=None,
    )


@pytest.mark.parametrize(
    ("cache", "wanted"),
    [(16 * MIB, 1 * GIB), (480 * MIB, 1920 * MIB), (2304 * MIB, 9 * GIB), (None, 1 * GIB)],
)
def test_the_buffers_are_four_times_the_cache_and_at_least_a_gibibyte(cache: int | None, wanted: int) -> None:
    bandwidth, _ = measure(Cpu(usable_threads=4, last_level_cache_bytes=cache))
    assert (bandwidth.buffer_bytes, bandwidth.reliable) == (wanted, True)


def test_a_cap_is_said_and_harmless_while_the_cache_is_still_exceeded() -> None:
    bandwidth, _ = measure(memory=Memory(available_bytes=2 * GIB))
    assert bandwidth.buffer_bytes == 512 * MIB
    assert bandwidth.reason == "capped at a quarter of the available memory: 512.00 MiB of 1.00 GiB wanted"
    assert bandwidth.reliable


def test_a_cap_below_four_times_the_cache_makes_the_figure_unreliable() -> None:
    bandwidth, _ = measure(Cpu(usable_threads=2, last_level_cache_bytes=480 * MIB), Memory(available_bytes=2 * GIB))
    assert (bandwidth.buffer_bytes, bandwidth.reliable) == (512 * MIB, False)
    assert "of 1.88 GiB wanted; the buffers are too small for this cache" in (bandwidth.reason or "")


def test_a_control_group_caps_too() -> None:
    bandwidth, _ = measure(memory=Memory(available_bytes=60 * GIB, limit_available_bytes=2 * GIB))
    assert bandwidth.buffer_bytes == 512 * MIB


def test_passes_that_differ_are_unreliable() -> None:
    bandwidth, _ = measure(seconds=lambda *_: (0.05, 0.05, 0.07))
    assert (bandwidth.reliable, bandwidth.reason) == (False, "the passes differ by 40%")


def test_a_single_pass_is_unreliable() -> None:
    bandwidth, _ = measure(seconds=lambda *_: (1.0,))
    assert (bandwidth.reliable, bandwidth.reason) == (False, "there was time for one pass only")


@pytest.mark.parametrize(
    ("files", "reason"),
    [
        ({"/proc/loadavg": "6.50 1.0 1.0 9/200 1\n"}, "the machine is busy: load average 6.50 on 8 processors"),
        (
            {"/proc/pressure/cpu": "some avg10=35.00 avg60=0.00 avg300=0.00 total=1\n"},
            "the machine is busy: tasks waited for a processor 35 % of the last 10 s",
        ),
    ],
)
def test_a_busy_machine_is_unreliable(files: dict[str, str], reason: str) -> None:
    bandwidth, _ = measure(files=files)
    assert (bandwidth.reliable, bandwidth.reason) == (False, reason)


class Ticking(TreeHost):
    """A machine whose processors do something while llmops sleeps."""

    def sleep(self, seconds: float) -> None:
        super().sleep(seconds)
        self.files["/proc/stat"] = "cpu  130 0 50 9010 10 0 5 0 0 0\n"


def test_processor_time_taken_right_now_counts_and_not_an_old_load_average() -> None:
    busy = Ticking(IDLE, read_seconds=steady)
    bandwidth, _ = read_bandwidth(busy, EIGHT, ROOMY)
    assert bandwidth.reason == "the machine is busy: 75% of the processor time is taken"
    quiet = Ticking(IDLE | {"/proc/loadavg": "7.9 5.0 5.0 1/120 1\n"}, read_seconds=steady)
    quiet.files["/proc/stat"] = "cpu  129 0 50 8000 10 0 5 0 0 0\n"
    assert read_bandwidth(quiet, EIGHT, ROOMY)[0].reliable


def test_memory_that_is_given_out_slowly_is_measured_with_less_of_it() -> None:
    def slow(buffer_bytes: int, _threads: int, _passes: int) -> tuple[float, ...]:
        if buffer_bytes > 512 * MIB:
            raise TimeoutError("only some of it could be written in 1.2 s")
        return STEADY

    bandwidth, host = measure(seconds=slow)
    assert [row[0] for row in host.reads] == [1 * GIB, 256 * MIB]
    assert bandwidth.buffer_bytes == 256 * MIB
    assert (bandwidth.reliable, bandwidth.reason) == (True, "cut to 256.00 MiB: 1.00 GiB could not be written in time")


@pytest.mark.parametrize(
    ("failure", "reason"),
    [
        (TimeoutError("only 1 of 2 bytes"), "memory is given out too slowly: only 1 of 2 bytes"),
        (OSError("cannot start 8 threads"), "the buffers were refused: cannot start 8 threads"),
    ],
)
def test_a_refused_measurement_is_none_with_the_reason(failure: OSError, reason: str) -> None:
    def refuse(*_: int) -> tuple[float, ...]:
        raise failure

    host = TreeHost(IDLE, read_seconds=refuse)
    bandwidth, observations = read_bandwidth(host, EIGHT, ROOMY)
    assert (bandwidth.read_bytes_per_second, bandwidth.reliable, bandwidth.reason) == (None, False, reason)
    assert {row.reason for row in observations} == {reason}


def test_nothing_is_allocated_when_the_available_memory_is_unknown() -> None:
    bandwidth, host = measure(memory=Memory())
    assert (bandwidth.read_bytes_per_second, host.reads) == (None, [])
    assert bandwidth.reason == "the available memory is unknown, so no buffer is safe"
