"""rollback and history on a machine where one plan was made live."""

from __future__ import annotations

import pytest

from llmops import checkpoint
from llmops.checkpoint import Checkpoint, UnitBefore
from llmops.core.documents import plan_document
from llmops.core.files import Change
from llmops.state import read_applied_plan, write_applied_plan
from tests.unit.cli.conftest import Run
from tests.unit.cli.machine import Machine
from tests.unit.cli.samples import PLAN
from tests.unit.fake_machine import UNIT_DIRECTORY, FakeFile

UNIT = "llama-server.service"
FRAGMENT = f"{UNIT_DIRECTORY}/{UNIT}"
DROP_IN = f"{FRAGMENT}.d/zz-llmops.conf"
OLD = "[Service]\nExecStart=/usr/bin/llama-server --old\n"
NEW = "[Service]\nExecStart=\nExecStart=/usr/bin/llama-server --new\n"


@pytest.fixture
def applied(machine: Machine) -> Machine:
    """The drop-in is in force and in the history as number 1."""
    machine.files[FRAGMENT] = FakeFile(OLD)
    machine.files[DROP_IN] = FakeFile(NEW)
    machine.reload()
    machine.start(UNIT)
    record = Checkpoint(
        1, "apply", "llama-server", UnitBefore(UNIT, True, "active", True), 0.0, (Change(DROP_IN, None, NEW),),
        summary="4 slots x 8192 tokens",
    )  # fmt: skip
    checkpoint.store.write_checkpoint(machine, record, plan_document(PLAN))
    write_applied_plan(machine, PLAN)
    machine.log.clear()
    return machine


def test_history_lists_what_was_applied(run: Run, applied: Machine) -> None:
    (row,) = run("history", "--output", "json").envelope["data"]["history"]
    assert (row["identifier"], row["kind"], row["unit"], row["in_effect"]) == (1, "apply", UNIT, True)
    assert row["paths"] == [DROP_IN]
    text = run("history").stdout
    assert "4 slots x" in text
    assert max(len(line) for line in text.splitlines()) <= 80
    assert "llmops rollback" in text
    assert applied.log == []


def test_rollback_brings_the_files_and_the_engine_back(run: Run, applied: Machine) -> None:
    ran = run("rollback", "--output", "json")
    assert (ran.exit_code, ran.envelope["status"]) == (0, "changed")
    data = ran.envelope["data"]
    assert data["rolled_back"] == [1]
    assert [(file["path"], file["before"], file["after"]) for file in data["files"]] == [(DROP_IN, NEW, None)]
    assert DROP_IN not in applied.files
    assert applied.running[UNIT] == ("/usr/bin/llama-server", "--old")
    assert [row["in_effect"] for row in run("history", "--output", "json").envelope["data"]["history"]] == [
        False,
        False,
    ]


def test_after_a_rollback_no_plan_is_remembered(run: Run, applied: Machine) -> None:
    before = read_applied_plan(applied, "llama-server").plan
    assert before is not None
    assert before.slots == PLAN.slots
    run("rollback")
    assert read_applied_plan(applied, "llama-server").plan is None
    assert run("verify").exit_code == 2


def test_rollback_says_what_it_did(run: Run, applied: Machine) -> None:
    ran = run("rollback")
    assert ran.exit_code == 0
    assert f"removed {DROP_IN}" in ran.stdout
    assert "restarting" in ran.stderr


def test_rollback_to_zero_takes_everything_back(run: Run, applied: Machine) -> None:
    assert run("rollback", "--to", "0", "--output", "json").envelope["data"]["rolled_back"] == [1]


def test_rollback_to_an_unknown_number_is_2(run: Run, applied: Machine) -> None:
    assert run("rollback", "--to", "9").exit_code == 2
    assert applied.log == []


def test_rollback_over_a_later_edit_is_6_and_changes_nothing(run: Run, applied: Machine) -> None:
    applied.files[DROP_IN] = FakeFile(NEW + "# mine\n")
    ran = run("rollback", "--output", "json")
    assert (ran.exit_code, ran.envelope["status"]) == (6, "error")
    assert ran.envelope["errors"][0]["code"] == "rollback_failed"
    assert applied.log == []


def test_verify_of_a_plan_whose_engine_is_gone_is_7(
    run: Run, applied: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("llmops.engines.llama_server.programs.EMBEDDED_LIBRARY", "no_such_library")
    applied.files.pop(FRAGMENT)
    applied.files.pop(DROP_IN)
    applied.running.clear()
    applied.reload()
    ran = run("verify")
    assert ran.exit_code == 7
    assert "not installed" in ran.stderr


def test_an_apply_takes_back_what_was_cut_short_before_it_plans(run: Run, applied: Machine) -> None:
    newer = "[Service]\nExecStart=\nExecStart=/usr/bin/llama-server --newer\n"
    unfinished = Checkpoint(
        2, "apply", "llama-server", UnitBefore(UNIT, True, "active", True), 0.0, (Change(DROP_IN, NEW, newer),)
    )
    checkpoint.store.write_journal(applied, unfinished)
    applied.files[DROP_IN] = FakeFile(newer)
    run("tune", "--apply", "--output", "json")
    assert applied.files[DROP_IN].text == NEW
    assert checkpoint.JOURNAL_PATH not in applied.files
