"""A disk that is full or read-only from each write of an apply on: nothing half done, and a next run that is whole."""

from __future__ import annotations

import pytest

from tests.faults.bench import Bench, World
from tests.faults.conftest import NewBench
from tests.faults.subjects import INSTANT_SERVER, NEXT
from tests.systemd.observe import STATE

pytestmark = [pytest.mark.faults, pytest.mark.timeout(3600)]

CONFIGURATION = "/etc/systemd"
FILLER = "filler"
ROLLED_BACK, ROLLBACK_FAILED = 5, 6
SUBJECT = NEXT


@pytest.fixture(scope="module")
def bench(new_bench: NewBench) -> Bench:
    """Configuration and state are small disks of their own."""
    return new_bench(INSTANT_SERVER, {CONFIGURATION: "1m", STATE: "1m"})


@pytest.fixture(scope="module")
def worlds(bench: Bench) -> tuple[World, World, tuple[str, ...]]:
    """The old world, the new one, and the steps between."""
    old = bench.prepare(SUBJECT)
    whole = bench.strike(SUBJECT.command)
    assert whole.ran.exit_code == 0, whole.ran
    new = bench.world()
    bench.restore()
    return old, new, whole.steps


def writes(steps: tuple[str, ...], directory: str) -> list[int]:
    """The steps that begin a write there."""
    return [number for number, step in enumerate(steps) if step.startswith(f"create {directory}")]


@pytest.mark.parametrize("directory", [CONFIGURATION, STATE])
def test_a_full_disk(bench: Bench, worlds: tuple[World, World, tuple[str, ...]], directory: str) -> None:
    old, new, steps = worlds
    found = writes(steps, directory)
    assert found
    for number in found:
        fill = f"head -c 10M /dev/zero > {directory}/{FILLER} 2>/dev/null; true"
        struck = bench.strike(SUBJECT.command, at=number, shell=fill)
        bench.inside(f"rm {directory}/{FILLER}")
        bench.wait_until_serving()
        if struck.ran.exit_code == 0:  # the change was whole and kept; the next run finishes what everybody reads
            assert "applied-" in steps[number]
            assert bench.llmops(*SUBJECT.command).exit_code == 0
            assert bench.world().differences(new) == []
        else:
            assert struck.ran.exit_code == ROLLED_BACK, (steps[number], struck.ran)
            assert "No space left on device" in struck.ran.stdout
            assert bench.world().differences(old) == [], steps[number]
        assert not bench.unfinished()
        bench.restore()


def remounted(directory: str, how: str) -> str:
    return f"mount -o remount,{how} {directory}"


def test_a_read_only_configuration(bench: Bench, worlds: tuple[World, World, tuple[str, ...]]) -> None:
    old, new, steps = worlds
    for number in writes(steps, CONFIGURATION):
        struck = bench.strike(SUBJECT.command, at=number, shell=remounted(CONFIGURATION, "ro"))
        try:
            assert struck.ran.exit_code == ROLLED_BACK, (steps[number], struck.ran)
            assert "Read-only file system" in struck.ran.stdout
            assert bench.world().differences(old) == [], steps[number]
            assert not bench.unfinished()
        finally:
            bench.inside(remounted(CONFIGURATION, "rw"))
        assert bench.llmops(*SUBJECT.command).exit_code == 0
        bench.wait_until_serving()
        assert bench.world().differences(new) == []
        bench.restore()


def test_a_configuration_that_becomes_read_only_when_it_is_written(
    bench: Bench, worlds: tuple[World, World, tuple[str, ...]]
) -> None:
    """Nothing can be put back then: it is said, with what to do, and done once the disk can be written again."""
    old, _, steps = worlds
    (reload,) = [number for number, step in enumerate(steps) if step == "run systemctl daemon-reload"]
    failing = f"{remounted(CONFIGURATION, 'ro')}; systemctl stop {SUBJECT.engine.unit}; mv /opt/instant /opt/away"
    struck = bench.strike(SUBJECT.command, at=reload, shell=failing)
    bench.inside(f"{remounted(CONFIGURATION, 'rw')}; mv /opt/away /opt/instant")
    assert struck.ran.exit_code == ROLLBACK_FAILED, struck.ran
    assert "llmops rollback --recover" in struck.ran.stdout
    assert bench.unfinished()
    recovered = bench.llmops("rollback", "--recover")
    assert recovered.exit_code == 0, recovered
    bench.wait_until_serving()
    assert bench.world().differences(old) == []
    assert not bench.unfinished()
    bench.restore()
