"""Configuration and state on one disk that has a few pages left: an apply is whole, or nothing is changed."""

from __future__ import annotations

import pytest

from tests.faults.bench import Bench, World
from tests.faults.conftest import SHARED, NewBench
from tests.faults.subjects import INSTANT_SERVER, NEXT
from tests.systemd.observe import STATE

pytestmark = [pytest.mark.faults, pytest.mark.timeout(3600)]

ROLLED_BACK, ROLLBACK_FAILED = 5, 6
PAGE_BYTES = 4096
FILLER = f"{SHARED}/filler"
FILL = f"head -c 10M /dev/zero > {FILLER} 2>/dev/null; true"
SUBJECT = NEXT


@pytest.fixture(scope="module")
def bench(new_bench: NewBench) -> Bench:
    return new_bench(INSTANT_SERVER, shared=(("/etc/systemd", STATE), "1m"))


@pytest.fixture(scope="module")
def worlds(bench: Bench) -> tuple[World, World, tuple[str, ...]]:
    """The old world, the new one, and the steps between."""
    old = bench.prepare(SUBJECT)
    whole = bench.strike(SUBJECT.command)
    assert whole.ran.exit_code == 0, whole.ran
    new = bench.world()
    bench.restore()
    return old, new, whole.steps


def kept(bench: Bench, new: World) -> bool:
    """The change is there; whether all of it already, or what everybody reads only after the next run."""
    whole = not bench.unfinished()
    if not whole:
        assert bench.llmops(*SUBJECT.command).exit_code == 0
    assert bench.world().differences(new) == []
    assert not bench.unfinished()
    return whole


def test_every_number_of_free_pages(bench: Bench, worlds: tuple[World, World, tuple[str, ...]]) -> None:
    old, new, _ = worlds
    outcomes: list[int] = []
    whole = False
    while not whole:
        assert len(outcomes) < 40, outcomes
        bench.inside(f"{FILL}; truncate --size=-{PAGE_BYTES * len(outcomes)} {FILLER}")
        ran = bench.llmops(*SUBJECT.command)
        bench.inside(f"rm {FILLER}")
        outcomes.append(ran.exit_code)
        bench.wait_until_serving()
        if ran.exit_code == 0:
            whole = kept(bench, new)
        else:
            assert ran.exit_code == ROLLED_BACK, (len(outcomes), ran)
            assert "No space left on device" in ran.envelope["errors"][0]["message"]
            assert ran.envelope["errors"][0]["hint"]
            assert bench.world().differences(old) == [], len(outcomes)
            assert not bench.unfinished()
        bench.restore()
    print(f"exit codes with 0, 1, 2, ... free pages: {outcomes}")
    assert ROLLED_BACK in outcomes


def test_a_disk_that_somebody_fills_meanwhile(bench: Bench, worlds: tuple[World, World, tuple[str, ...]]) -> None:
    """Once the new files are there, going back needs a page again: without one it waits until there is."""
    old, new, steps = worlds
    codes: list[int] = []
    for number, step in enumerate(steps):
        if not step.startswith(("create /etc", "create /var", "run ")):
            continue
        struck = bench.strike(SUBJECT.command, at=number, shell=FILL)
        bench.inside(f"rm {FILLER}")
        bench.wait_until_serving()
        codes.append(struck.ran.exit_code)
        if struck.ran.exit_code == 0:
            kept(bench, new)
        elif struck.ran.exit_code == ROLLED_BACK:
            assert bench.world().differences(old) == [], step
        else:
            assert struck.ran.exit_code == ROLLBACK_FAILED, (step, struck.ran)
            assert "llmops rollback --recover" in struck.ran.stdout
            assert bench.unfinished()
            assert bench.files() == new.files, "the new files or the old ones"
            assert bench.llmops("rollback", "--recover").exit_code == 0
            bench.wait_until_serving()
            assert bench.world().differences(old) == [], step
        assert not bench.unfinished()
        bench.restore()
    print(f"exit codes: {codes}")
    assert {0, ROLLED_BACK, ROLLBACK_FAILED} == set(codes)
