"""SIGTERM and SIGHUP in turns before every step that finds something changed: it is undone before the process ends."""

from __future__ import annotations

import signal

import pytest

from tests.faults.conftest import NewBench
from tests.faults.subjects import FIRST

pytestmark = [pytest.mark.faults, pytest.mark.timeout(3600)]

SIGNALS = (signal.SIGTERM, signal.SIGHUP)


def test_a_signal_before_any_step_leaves_the_old_world_or_the_new_one(new_bench: NewBench) -> None:
    bench = new_bench(FIRST.engine)
    old = bench.prepare(FIRST)
    whole = bench.strike(FIRST.command)
    assert whole.ran.exit_code == 0, whole.ran
    new = bench.world()
    bench.restore()
    outcomes: list[int] = []
    for number, step in enumerate(whole.steps):
        if not whole.finds_change(number):
            continue
        sent = SIGNALS[len(outcomes) % 2]
        struck = bench.strike(FIRST.command, at=number, signal=sent)
        bench.wait_until_serving()
        found = bench.world()
        assert not bench.unfinished(), step
        if struck.ran.exit_code == 0:  # it came when the change was whole and kept
            assert found.differences(new) == [], step
        else:
            assert struck.ran.exit_code == 128 + sent, (step, struck.ran)
            assert found.differences(old) == [], step
        outcomes.append(struck.ran.exit_code)
        if found != old:
            bench.restore()
    kept = outcomes.index(0) if 0 in outcomes else len(outcomes)
    assert all(code == 0 for code in outcomes[kept:]), "once it is kept it stays kept"
    assert kept > len(outcomes) // 2
