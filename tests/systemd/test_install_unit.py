"""A machine without a unit: the complete one that llmops installs, as systemd itself judges it."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from tests.systemd.machine import ENGINE_DIRECTORY, PROGRAM, Machine
from tests.systemd.observe import UNIT, configuration, slots

pytestmark = [pytest.mark.systemd, pytest.mark.timeout(1800)]

NewMachine = Callable[..., Machine]
OURS = (f"/etc/systemd/system/{UNIT}", "/etc/systemd/system/llmops-recover.service")


def test_a_hardened_unit_is_installed_serves_and_goes_again(new_machine: NewMachine) -> None:
    machine = new_machine()
    machine.run("ln", "-s", PROGRAM, "/usr/local/bin/llama-server")
    before = configuration(machine)
    wanted = ("--model", machine.model, "--users", "5", "--slots", "2")
    refused = machine.llmops("tune", "--apply", *wanted)
    assert refused.exit_code == 7, refused
    assert "--install-unit" in refused.envelope["errors"][0]["hint"]
    assert configuration(machine) == before

    installed = machine.llmops("tune", "--apply", "--install-unit", *wanted)
    assert installed.exit_code == 0, installed
    assert slots(machine) == 2
    assert machine.show(UNIT, "UnitFileState") == "enabled"
    assert machine.show(UNIT, "DynamicUser") == "yes"
    owner = machine.run("stat", "--format=%u", f"/proc/{machine.show(UNIT, 'MainPID')}").stdout.strip()
    assert int(owner) >= 61184, "an account that systemd made for this service alone (systemd.exec(5), DynamicUser=)"

    judged = machine.run("systemd-analyze", "security", "--no-pager", UNIT).stdout
    (score,) = re.findall(r"Overall exposure level for \S+: ([\d.]+)", judged)
    print(f"systemd-analyze security: {score}")
    assert float(score) <= 2.5, judged
    complaints = machine.run("systemd-analyze", "verify", *OURS)
    assert [line for line in complaints.stderr.splitlines() if any(path in line for path in (*OURS, UNIT))] == []

    again = machine.llmops("tune", "--apply", *wanted)
    assert (again.exit_code, again.envelope["status"]) == (0, "ok"), again

    machine.shut_down()
    machine.boot()
    assert slots(machine) == 2

    back = machine.llmops("rollback")
    assert back.exit_code == 0, back
    assert configuration(machine) == before
    assert machine.show(UNIT, "ActiveState") == "inactive"
    assert ENGINE_DIRECTORY not in machine.run("sh", "-c", "cat /proc/[0-9]*/cmdline | tr '\\0' '\\n'").stdout
