"""Engines that really load a model, killed in each phase of an apply: the same worlds as with the stand-in."""

from __future__ import annotations

import signal

import pytest

from tests.faults.conftest import NewBench
from tests.faults.subjects import IN_PHASES, Subject

pytestmark = [pytest.mark.faults, pytest.mark.timeout(3600)]

RECOVERY_UNIT = "/etc/systemd/system/llmops-recover.service"
ENABLE = "run systemctl enable llmops-recover.service"
PHASES = (
    ENABLE,
    "run systemctl daemon-reload",
    "during systemctl restart",
    "rename to /var/lib/llmops/checkpoints/",
    "remove /var/lib/llmops/journal.json",
)


@pytest.mark.parametrize("subject", IN_PHASES, ids=lambda subject: subject.engine.name)
def test_killed_in_each_phase_then_rebooted_then_run_again(subject: Subject, new_bench: NewBench) -> None:
    bench = new_bench(subject.engine)
    old = bench.prepare(subject)
    whole = bench.strike(subject.command)
    assert whole.ran.exit_code == 0, whole.ran
    new = bench.world()
    assert new.command_line != old.command_line
    for phase in PHASES:
        bench.restore()
        (number,) = [place for place, step in enumerate(whole.steps) if step.startswith(phase)][:1]
        struck = bench.strike(subject.command, at=number, signal=signal.SIGKILL)
        assert struck.ran.exit_code == 128 + signal.SIGKILL
        bench.machine.pull_the_plug()
        bench.machine.boot()
        bench.wait_until_serving()
        found = bench.world()
        if found != new:
            left = {path for path, _ in set(found.files) ^ set(old.files)}
            assert left == ({RECOVERY_UNIT} if phase == ENABLE else set()), found.differences(old)
            assert (found.command_line, found.published) == (old.command_line, old.published)
        again = bench.llmops(*subject.command)
        assert again.exit_code == 0, again
        bench.wait_until_serving()
        assert bench.world().differences(new) == []
        assert not bench.unfinished()
