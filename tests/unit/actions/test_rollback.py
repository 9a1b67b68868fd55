"""Going back, and the history of it."""

from __future__ import annotations

import copy

import pytest

from llmops import checkpoint
from llmops.actions.history import history
from llmops.actions.recovery import UNIT as BOOT_UNIT
from llmops.actions.rollback import WentBack, rollback
from llmops.core.errors import NoPermission, RollbackFailed, RolledBack, UsageError
from tests.unit.actions.serving_machine import DROP_IN, FRAGMENT, UNIT, ServingMachine, a_plan, installation, machine
from tests.unit.actions.test_apply import Apply, bare_machine
from tests.unit.fake_machine import FakeFile, Killed


def go_back(host: ServingMachine, to: int | None = None) -> WentBack:
    return rollback(host, (), to=to, progress=lambda _line: None)


def slots(host: ServingMachine) -> str | None:
    words = host.running[UNIT]
    return words[words.index("--parallel") + 1] if "--parallel" in words else None


def test_the_only_change_is_taken_back_without_a_trace() -> None:
    host = machine()
    old = host.world()
    Apply(host).run()
    went = go_back(host)
    assert (went.reverted, went.restarted, went.unit) == ((1,), True, UNIT)
    assert host.world() == old


def test_changes_are_taken_back_one_by_one() -> None:
    host = machine()
    for number in (5, 4, 3):
        Apply(host).run(plan=a_plan(slots=number))
    assert slots(host) == "3"
    assert go_back(host).reverted == (3,)
    assert slots(host) == "4"
    assert go_back(host).reverted == (2,)
    assert slots(host) == "5"
    assert BOOT_UNIT in host.enabled
    go_back(host)
    assert slots(host) is None
    assert BOOT_UNIT not in host.enabled
    with pytest.raises(UsageError, match="nothing to take back"):
        go_back(host)


def test_several_changes_are_taken_back_at_once() -> None:
    host = machine()
    old = host.world()
    for number in (5, 4, 3):
        Apply(host).run(plan=a_plan(slots=number))
    assert go_back(host, to=1).reverted == (2, 3)
    assert slots(host) == "5"
    assert go_back(host, to=0).reverted == (1,)
    assert host.world() == old
    with pytest.raises(UsageError, match="no change 7"):
        go_back(host, to=7)


def test_a_new_change_after_going_back_is_the_next_to_be_taken_back() -> None:
    host = machine()
    Apply(host).run(plan=a_plan(slots=5))
    Apply(host).run(plan=a_plan(slots=4))
    go_back(host)
    Apply(host).run(plan=a_plan(slots=2))
    assert go_back(host).reverted == (4,)
    assert slots(host) == "5"


def test_history_tells_what_is_in_effect() -> None:
    host = machine()
    assert history(host) == ()
    Apply(host).run(plan=a_plan(slots=5))
    Apply(host).run(plan=a_plan(slots=4))
    go_back(host)
    rows = [(entry.identifier, entry.kind, entry.in_effect, entry.reverts) for entry in history(host)]
    assert rows == [(1, "apply", True, ()), (2, "apply", False, ()), (3, "rollback", False, (2,))]
    assert history(host)[0].summary == "5 slots x 8192 tokens"
    assert DROP_IN in history(host)[0].paths


def test_an_edited_file_is_not_overwritten() -> None:
    host = machine()
    Apply(host).run()
    host.files[DROP_IN] = FakeFile("[Service]\n# mine\n")
    host.log.clear()
    with pytest.raises(RollbackFailed, match=r"zz-llmops\.conf was edited"):
        go_back(host)
    assert host.log == []


def test_an_old_state_that_does_not_come_up_brings_the_newer_one_back() -> None:
    host = machine()
    Apply(host).run()
    newer = host.world()
    host.comes_up = lambda words: "--parallel" in words
    with pytest.raises(RolledBack, match="runs as before"):
        go_back(host)
    assert host.world() == newer
    assert [entry.in_effect for entry in history(host)] == [True]


def test_a_unit_that_llmops_installed_is_stopped_and_removed() -> None:
    host = bare_machine()
    old = host.world()
    Apply(host).run(found=installation(managed_by="binary", unit=None), install_unit=True)
    assert UNIT in host.running
    went = go_back(host)
    assert not went.restarted
    assert FRAGMENT not in host.files
    assert host.world() == old


def test_a_killed_apply_is_what_a_rollback_takes_back() -> None:
    host = machine()
    Apply(host).run(plan=a_plan(slots=5))
    applied = host.world()
    host.stop_at, host.failure = host.changes_made + 4, Killed()
    with pytest.raises(Killed):
        Apply(host).run(plan=a_plan(slots=3))
    host.revive()
    went = go_back(host)
    assert (went.reverted, went.checkpoint) == ((2,), None)
    assert host.world() == applied


def test_a_rollback_killed_at_any_step_is_recovered() -> None:
    def applied() -> ServingMachine:
        made = machine()
        Apply(made).run()
        return made

    counted = applied()
    newer, first = counted.world(), counted.changes_made
    go_back(counted)
    older, last = counted.world(), counted.changes_made
    for step in range(first, last):
        host = applied()
        host.stop_at, host.failure = step, Killed()
        with pytest.raises(Killed):
            go_back(host)
        host.revive()
        again = copy.deepcopy(host)
        if len(checkpoint.read_checkpoints(again)) == 1:
            go_back(again)
            assert again.world() == older, "it is still what is wanted"
        checkpoint.recover(host)
        assert host.world() == (newer if len(checkpoint.read_checkpoints(host)) == 1 else older), step


def test_only_root_may_go_back() -> None:
    host = machine()
    Apply(host).run()
    host.uid = 1000
    with pytest.raises(NoPermission):
        go_back(host)
