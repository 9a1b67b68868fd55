"""What is told about machines, and what a plan says of it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from llmops.core.hardware import Cpu, Gpu, Hardware, Memory
from llmops.core.notices import Notice, hardware_notices
from llmops.core.units import GIB

CARD = Gpu(0, "GPU-0", "card", 24 * GIB, 23 * GIB, bandwidth_bytes_per_second=936 * 10**9)
CPU = Cpu(architecture="x86_64", flags=("sse4_2", "avx2"), logical_cpus=8, affinity_cpus=8, usable_threads=8)
PLAIN = Hardware(cpu=CPU, memory=Memory(total_bytes=32 * GIB, available_bytes=30 * GIB), gpus=(CARD,), gpu_outcome="ok")


def notices(hardware: Hardware) -> dict[str, Notice]:
    return {notice.code: notice for notice in hardware_notices(hardware)}


def of_card(**changes: object) -> dict[str, Notice]:
    return notices(replace(PLAIN, gpus=(replace(CARD, **changes),)))  # type: ignore[arg-type]


def of_cpu(**changes: object) -> dict[str, Notice]:
    return notices(replace(PLAIN, cpu=replace(CPU, **changes)))  # type: ignore[arg-type]


def test_an_ordinary_machine_needs_no_word() -> None:
    assert notices(PLAIN) == {}
    assert notices(Hardware()) == {}


def test_shared_memory_is_told_with_its_figures() -> None:
    notice = of_card(unified=True, total_bytes=121 * GIB, free_bytes=110 * GIB)["unified-memory"]
    assert dict(notice.values) == {
        "gpus": 1,
        "unified": True,
        "total_bytes": 121 * GIB,
        "available_bytes": 110 * GIB,
    }
    assert "121.00 GiB" in notice.message


def test_an_instance_and_a_lent_share() -> None:
    assert dict(of_card(kind="instance")["mig-detected"].values) == {"vram_total_bytes": 24 * GIB}
    unlicensed = of_card(kind="virtual", licensed=False)
    assert unlicensed["vgpu-unlicensed"].severity == "critical"
    assert set(of_card(kind="virtual", licensed=True)) == {"vgpu-detected"}
    assert set(of_card(kind="virtual", licensed=None)) == {"vgpu-detected"}


@pytest.mark.parametrize(
    ("reasons", "told"),
    [
        (("thermal",), True),
        (("hardware_slowdown", "power_cap"), True),
        (("power_brake",), True),
        (("power_cap",), False),
        ((), False),
    ],
)
def test_heat_is_told_and_a_reached_power_cap_is_not(reasons: tuple[str, ...], told: bool) -> None:
    assert ("gpu-thermal-throttle" in of_card(throttle_reasons=reasons, temperature_celsius=90)) is told


@pytest.mark.parametrize(
    ("limit", "told"), [(200.0, True), (345.0, False), (350.0, False), (400.0, False), (None, False)]
)
def test_a_lowered_power_limit_is_told(limit: float | None, told: bool) -> None:
    assert ("gpu-power-limited" in of_card(power_limit_watts=limit, power_default_watts=350.0)) is told


def test_unequal_cards_are_told_when_the_difference_is_felt() -> None:
    def pair(rate: int | None) -> dict[str, Notice]:
        return notices(replace(PLAIN, gpus=(CARD, replace(CARD, index=1, bandwidth_bytes_per_second=rate))))

    assert "gpus-unequal" in pair(360 * 10**9)
    assert pair(800 * 10**9) == {}
    assert pair(None) == {}


def test_integrated_graphics_are_mentioned_only_where_there_is_nothing_else() -> None:
    small = replace(CARD, kind="integrated", unified=True)
    assert notices(replace(PLAIN, other_gpus=(small,))) == {}
    assert set(notices(replace(PLAIN, gpus=(), other_gpus=(small,)))) == {"igpu-not-worth-it"}


def test_a_driver_that_was_upgraded_without_a_reboot() -> None:
    assert set(notices(Hardware(gpu_outcome="version_mismatch"))) == {"gpu-driver-mismatch"}


def test_missing_vectors_and_where_to_set_them() -> None:
    assert dict(of_cpu(flags=("sse4_2",), hypervisor="kvm")["cpu-no-avx2"].values)["fix"] == "cpu-type-host"
    assert of_cpu(flags=("sse4_2",))["cpu-no-avx2"].values == ()
    assert of_cpu(flags=()) == {}
    assert of_cpu(architecture="aarch64", flags=("asimd",)) == {}


def test_a_quota_below_the_processors_that_an_engine_counts() -> None:
    quota = of_cpu(quota_cores=4.0, usable_threads=4)["threads-over-quota"]
    assert (quota.severity, dict(quota.values)["threads"]) == ("warning", 4)
    throttled = of_cpu(quota_cores=4.0, usable_threads=4, throttled_ratio=0.68)["threads-over-quota"]
    assert throttled.severity == "critical"
    assert "68%" in throttled.message
    assert of_cpu(quota_cores=8.0) == {}


def test_page_cache_that_looks_like_use() -> None:
    def container(used: int, limit: int | None = None) -> dict[str, Notice]:
        memory = replace(PLAIN.memory, group_used_bytes=used, limit_bytes=limit)
        return notices(replace(PLAIN, memory=memory))

    assert dict(container(28 * GIB)["cgroup-memory-pagecache"].values)["engine_sees_bytes"] == 4 * GIB
    assert container(2 * GIB) == {}
    assert container(28 * GIB, limit=30 * GIB) == {}, "a limit has figures of its own"
