"""An apply that is stopped half way by a signal, by SIGKILL, by a power cut: the old state is back."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.systemd.machine import Machine
from tests.systemd.observe import JOURNAL, UNIT, configuration, slots

pytestmark = [pytest.mark.systemd, pytest.mark.timeout(1800)]

Served = Callable[..., Machine]
APPLY = ("llmops", "tune", "--apply", "--users", "5", "--slots", "2", "--output", "json")


# One script waits and strikes, so that on a busy machine the apply does not go on in between.
HALF_WAY = f"""
for attempt in $(seq 6000); do
    process=$(systemctl show {UNIT} --property=MainPID --value)
    if test -e {JOURNAL} && tr '\\0' ' ' < /proc/$process/cmdline 2>/dev/null | grep -q -e --parallel; then
        @THEN@
        exit
    fi
    sleep 0.05
done
exit 1
"""


def half_way(machine: Machine, then: str = "true") -> None:
    """Once the new configuration is on the disk and in the process, and nothing is confirmed yet, do this."""
    machine.inside(HALF_WAY.replace("@THEN@", then))


def send(machine: Machine, signal: str) -> None:
    half_way(machine, f"kill -{signal} $(pgrep --oldest --full '^/opt/llmops/bin/python3 .*tune --apply')")


@pytest.mark.parametrize(("signal", "code"), [("TERM", 143), ("HUP", 129)])
def test_a_signal_half_way_leaves_the_old_state(served: Served, signal: str, code: int) -> None:
    machine = served()
    before, command = configuration(machine), machine.command_line()
    with machine.running(*APPLY, unit="apply-test") as end:
        send(machine, signal)
        ended = end()
    assert ended.exit_code == code, ended
    assert configuration(machine) == before
    assert slots(machine) == 1
    assert machine.command_line() == command
    assert not machine.path(JOURNAL).exists()


def test_a_killed_apply_is_taken_back_by_the_next_run(served: Served) -> None:
    machine = served()
    before, command = configuration(machine), machine.command_line()
    with machine.running(*APPLY, unit="apply-test") as end:
        send(machine, "KILL")
        assert end().exit_code == 137
    assert machine.path(JOURNAL).exists()
    assert configuration(machine) != before
    recovered = machine.llmops("rollback", "--recover")
    assert recovered.exit_code == 0, recovered
    assert configuration(machine) == before
    assert slots(machine) == 1
    assert machine.command_line() == command
    assert not machine.path(JOURNAL).exists()


def test_a_power_cut_half_way_is_taken_back_at_boot(served: Served) -> None:
    machine = served()
    before, command = configuration(machine), machine.command_line()
    with machine.running(*APPLY, unit="apply-test"):
        half_way(machine)
        machine.pull_the_plug()
    assert machine.path(JOURNAL).exists()
    machine.boot()
    assert configuration(machine) == before
    assert not machine.path(JOURNAL).exists()
    assert slots(machine) == 1
    assert machine.command_line() == command
    assert machine.show(UNIT, "NRestarts") == "0"
    assert machine.run("systemctl", "--failed", "--no-legend").stdout.strip() == ""
