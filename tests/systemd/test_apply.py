"""The main job on real systemd with a real llama-server: applied, left alone, rebooted, taken back."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.systemd.machine import PROGRAM, Machine
from tests.systemd.observe import DROP_IN, JOURNAL, UNIT, configuration, invocation, slots, times_of

pytestmark = [pytest.mark.systemd, pytest.mark.timeout(1800)]

Served = Callable[..., Machine]
WANTED = ("--users", "5", "--slots", "2")


def test_applied_then_left_alone_then_rebooted_then_taken_back(served: Served) -> None:
    machine = served()
    before, old_command = configuration(machine), machine.command_line()

    applied = machine.llmops("tune", "--apply", *WANTED)
    assert applied.exit_code == 0, applied
    assert applied.envelope["status"] == "changed"
    assert not [check for check in applied.envelope["data"]["checks"] if check["status"] == "fail"]
    assert slots(machine) == 2
    assert "--parallel" in machine.command_line()
    assert machine.show(UNIT, "NeedDaemonReload") == "no"
    assert DROP_IN in machine.show(UNIT, "DropInPaths")
    assert machine.show("llmops-recover.service", "UnitFileState") == "enabled"
    assert not machine.path(JOURNAL).exists()

    times, start, command = times_of(machine), invocation(machine), machine.command_line()
    again = machine.llmops("tune", "--apply", *WANTED)
    assert (again.exit_code, again.envelope["status"]) == (0, "ok"), again
    assert times_of(machine) == times
    assert invocation(machine) == start

    after = configuration(machine)
    machine.shut_down()
    machine.boot()
    assert slots(machine) == 2
    assert machine.command_line() == command
    assert configuration(machine) == after
    assert machine.show("llmops-recover.service", "ConditionResult") == "no"
    assert machine.llmops("tune", *WANTED).envelope["status"] == "ok"

    back = machine.llmops("rollback")
    assert (back.exit_code, back.envelope["status"]) == (0, "changed"), back
    assert slots(machine) == 1
    assert machine.command_line() == old_command
    assert configuration(machine) == before
    rows = machine.llmops("history").envelope["data"]["history"]
    assert [(row["kind"], row["in_effect"]) for row in rows] == [("apply", False), ("rollback", False)]


USER_DROP_IN = f"/etc/systemd/system/{UNIT}.d/override.conf"
CONTRADICTION = f"[Service]\nExecStart=\nExecStart={PROGRAM} --model @MODEL@ --port 8080 -np 3 -c 6144\n"


def test_a_drop_in_that_contradicts_stops_the_apply_unless_it_may_take_over(served: Served) -> None:
    machine = served({USER_DROP_IN: CONTRADICTION})
    before, start = configuration(machine), invocation(machine)
    refused = machine.llmops("tune", "--apply", *WANTED)
    assert refused.exit_code == 3, refused
    (error,) = refused.envelope["errors"]
    assert error["code"] == "conflicting_setting"
    assert USER_DROP_IN in error["message"]
    assert "-np 3" in error["message"]
    assert "--parallel 2" in error["message"]
    assert configuration(machine) == before
    assert invocation(machine) == start
    assert slots(machine) == 3

    taken = machine.llmops("tune", "--apply", "--take-over", *WANTED)
    assert taken.exit_code == 0, taken
    assert slots(machine) == 2
    assert configuration(machine)[USER_DROP_IN] == before[USER_DROP_IN]
    start = invocation(machine)
    again = machine.llmops("tune", "--apply", *WANTED)
    assert (again.exit_code, again.envelope["status"]) == (0, "ok"), again
    assert invocation(machine) == start


def test_an_environment_file_that_contradicts_is_overridden_by_a_later_one(served: Served) -> None:
    theirs = "/etc/default/llama-server"
    drop_in = f"/etc/systemd/system/{UNIT}.d/10-environment.conf"
    machine = served(
        {theirs: "LLAMA_ARG_THREADS=1\n", drop_in: f"[Service]\nEnvironmentFile={theirs}\n"}, {theirs: 0o600}
    )
    before = configuration(machine)
    refused = machine.llmops("tune", "--apply", *WANTED)
    assert refused.exit_code == 3, refused
    assert theirs in refused.envelope["errors"][0]["message"]
    assert "LLAMA_ARG_THREADS" in refused.envelope["errors"][0]["message"]
    assert configuration(machine) == before

    taken = machine.llmops("tune", "--apply", "--take-over", *WANTED)
    assert taken.exit_code == 0, taken
    process = machine.show(UNIT, "MainPID")
    variables = machine.run("cat", f"/proc/{process}/environ").stdout
    threads = taken.envelope["data"]["plan"]["threads"]
    assert f"LLAMA_ARG_THREADS={threads}\0" in variables
    assert configuration(machine)[theirs] == before[theirs]
    again = machine.llmops("tune", "--apply", *WANTED)
    assert (again.exit_code, again.envelope["status"]) == (0, "ok"), again


ODD = f"""[Service]
EnvironmentFile=-/etc/default/%p
ExecStartPre=/bin/true
ExecStartPre=-/bin/false
ExecStart=-{PROGRAM} \\
  # between continued lines
  --model @MODEL@ --host 127.0.0.1 --port 8080 --alias "100%% ${{NAME}}" $EXTRA $NONE -np ${{SLOTS}} -c 4096
"""


def test_what_a_person_wrote_with_variables_and_prefixes_stays_his(served: Served) -> None:
    """As systemd.service(5) allows it: variables and specifiers are systemd's to replace, at every start anew."""
    theirs = "/etc/default/llama-server"
    variables = "NAME=mine\nEXTRA=--no-webui --threads-http 3\nSLOTS=1\n"
    machine = served({f"/etc/systemd/system/{UNIT}": ODD, theirs: variables}, {theirs: 0o600})
    applied = machine.llmops("tune", "--apply", *WANTED)
    assert applied.exit_code == 0, applied
    drop_in = machine.path(DROP_IN).read_text()
    assert f"ExecStart=-{PROGRAM} " in drop_in
    assert '--alias "100%% ${NAME}" $EXTRA $NONE' in drop_in
    words = machine.command_line()
    assert words[words.index("--alias") + 1 : words.index("--host")] == [
        "100% mine",
        "--no-webui",
        "--threads-http",
        "3",
    ]
    assert slots(machine) == 2
    start = invocation(machine)
    again = machine.llmops("tune", "--apply", *WANTED)
    assert (again.exit_code, again.envelope["status"]) == (0, "ok"), again
    assert invocation(machine) == start

    machine.write(theirs, variables.replace("mine", "yours"), 0o600)
    assert machine.run("systemctl", "restart", UNIT).exit_code == 0
    machine.wait_until_serving()
    assert "100% yours" in machine.command_line()
    assert machine.llmops("rollback").exit_code == 0


REFUSING = f"""#!/bin/sh
case "$*" in
*--help*) ;;
*--parallel*) echo "error: invalid argument: --parallel" >&2; exit 1 ;;
esac
exec {PROGRAM} "$@"
"""


def test_an_engine_that_does_not_come_up_is_rolled_back_and_serves_again(new_machine: Served) -> None:
    program = "/opt/refusing/llama-server"
    unit = f"[Service]\nExecStart={program} --model @MODEL@ --port 8080 -np 1 -c 4096\nRestart=always\nRestartSec=1\n"
    machine = new_machine({f"/etc/systemd/system/{UNIT}": unit, program: REFUSING}, {program: 0o755})
    machine.run("systemctl", "start", UNIT)
    machine.wait_until_serving()
    before, command = configuration(machine), machine.command_line()
    failed = machine.llmops("tune", "--apply", *WANTED)
    assert failed.exit_code == 5, failed
    assert "invalid argument: --parallel" in failed.envelope["errors"][0]["message"]
    assert configuration(machine) == before
    assert slots(machine) == 1
    assert machine.command_line() == command
    assert not machine.path(JOURNAL).exists()
    assert machine.llmops("history").envelope["data"]["history"] == []
