"""Whatever goes wrong at whatever step, the machine ends in the old world or in the new one, never between."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmops import checkpoint, systemd
from llmops.checkpoint import Checkpoint, UnitBefore
from llmops.checkpoint.store import KEPT_DIRECTORY
from llmops.core.errors import Interrupted, LlmopsError, Locked, RollbackFailed, RolledBack
from llmops.core.files import RenderedFile
from tests.unit.fake_machine import UNIT_DIRECTORY, FakeFile, FakeMachine, Killed

UNIT = "llama-server.service"
FRAGMENT = f"{UNIT_DIRECTORY}/{UNIT}"
DROP_IN = f"{FRAGMENT}.d/zz-llmops.conf"
BOOT_UNIT = "llmops-recover.service"
BOOT_FILE = RenderedFile(f"{UNIT_DIRECTORY}/{BOOT_UNIT}", "[Service]\nExecStart=/usr/bin/llmops rollback --recover\n")
OLD_COMMAND, NEW_COMMAND = ("/usr/bin/llama-server", "--old"), ("/usr/bin/llama-server", "--new")


def drop_in(command: tuple[str, ...]) -> RenderedFile:
    return RenderedFile(DROP_IN, f"[Service]\nExecStart=\nExecStart={' '.join(command)}\n")


def machine(*, with_drop_in: bool = False) -> FakeMachine:
    """A unit that runs with the old command, from its own file or from our drop-in."""
    first = "/usr/bin/llama-server --original" if with_drop_in else " ".join(OLD_COMMAND)
    host = FakeMachine(files={FRAGMENT: FakeFile(f"[Service]\nExecStart={first}\n")})
    if with_drop_in:
        host.files[DROP_IN] = FakeFile(drop_in(OLD_COMMAND).content, mode=0o640, gid=7)
        host.directories.add(f"{FRAGMENT}.d")
    host.reload()
    host.start(UNIT)
    host.enabled.add(UNIT)
    return host


def bare_machine() -> FakeMachine:
    """No unit at all."""
    host = FakeMachine()
    host.reload()
    return host


def a_change(host: FakeMachine, *files: RenderedFile) -> Checkpoint:
    changes = checkpoint.read_changes(host, files)
    state = systemd.state(host, UNIT)
    created = tuple(change.path for change in changes if change.before is None)
    return Checkpoint(
        identifier=checkpoint.next_identifier(host),
        kind="apply",
        engine="llama-server",
        unit=UnitBefore(UNIT, state.exists, state.active_state, UNIT in host.enabled, state.invocation_id),
        started_at_seconds=host.now(),
        changes=changes,
        directories=checkpoint.parents_missing(host, created),
        enable=tuple(path.rpartition("/")[2] for path in created if path.endswith(".service")),
    )


def usual_change(host: FakeMachine) -> Checkpoint:
    return a_change(host, BOOT_FILE, drop_in(NEW_COMMAND))


def install(host: FakeMachine) -> Checkpoint:
    unit_file = RenderedFile(FRAGMENT, f"[Service]\nExecStart={' '.join(NEW_COMMAND)}\n")
    return a_change(host, BOOT_FILE, unit_file)


def bring_up(host: FakeMachine) -> Callable[[], str]:
    def restart_and_look() -> str:
        systemd.restart(host, UNIT)
        systemd.wait_until_ready(host, UNIT, lambda: UNIT in host.running, timeout_seconds=10)
        if host.running[UNIT] != NEW_COMMAND:
            raise LlmopsError("verification failed: --new is not in force")
        return "verified"

    return restart_and_look


def carry_out(host: FakeMachine, change: Checkpoint) -> str:
    with checkpoint.locked(host):
        return checkpoint.carry_out(host, change, {"slots": 5}, bring_up(host))


MACHINES: dict[str, tuple[Callable[[], FakeMachine], Callable[[FakeMachine], Checkpoint]]] = {
    "first drop-in": (machine, usual_change),
    "next drop-in": (lambda: machine(with_drop_in=True), usual_change),
    "new unit": (bare_machine, install),
}


def steps_of(name: str) -> int:
    make, change = MACHINES[name]
    host = make()
    carry_out(host, change(host))
    return host.changes_made


AFTER_KEEPING = 2  # steps: the plan for everybody to read, and the journal's removal
EVERY_STEP = [(name, step) for name in MACHINES for step in range(steps_of(name))]


@pytest.mark.parametrize("name", MACHINES)
def test_a_change_that_works_is_kept(name: str) -> None:
    make, change = MACHINES[name]
    host = make()
    assert carry_out(host, change(host)) == "verified"
    assert host.running[UNIT] == NEW_COMMAND
    assert BOOT_UNIT in host.enabled
    assert checkpoint.JOURNAL_PATH not in host.files
    assert not host.is_locked
    (kept,) = checkpoint.read_checkpoints(host)
    assert kept.identifier == 1
    assert checkpoint.read_plan(host, 1) == {"slots": 5}
    assert host.files["/var/lib/llmops/checkpoints/000001.json"].mode == 0o600


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize(("name", "step"), EVERY_STEP)
def test_a_failure_at_any_step_brings_the_old_world_back(name: str, step: int, after: bool) -> None:
    make, change = MACHINES[name]
    host = make()
    old = host.world()
    host.stop_at, host.failure, host.after = step, OSError(28, "No space left on device"), after
    wanted = change(host)
    if step >= steps_of(name) - AFTER_KEEPING:  # the change is whole and stays
        assert carry_out(host, wanted) == "verified"
        assert host.running[UNIT] == NEW_COMMAND
        return
    with pytest.raises(RolledBack):
        carry_out(host, wanted)
    assert host.world() == old
    assert checkpoint.read_checkpoints(host) == ()
    assert checkpoint.JOURNAL_PATH not in host.files


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize(("name", "step"), EVERY_STEP)
def test_a_signal_at_any_step_is_undone_first(name: str, step: int, after: bool) -> None:
    make, change = MACHINES[name]
    host = make()
    old = host.world()
    host.stop_at, host.failure, host.after = step, Interrupted(15), after
    wanted = change(host)
    if step >= steps_of(name) - AFTER_KEEPING:  # the change is whole and stays
        assert carry_out(host, wanted) == "verified"
        assert host.running[UNIT] == NEW_COMMAND
        assert checkpoint.JOURNAL_PATH not in host.files
        return
    with pytest.raises(Interrupted) as caught:
        carry_out(host, wanted)
    assert caught.value.exit_code == 143
    assert host.world() == old
    assert checkpoint.JOURNAL_PATH not in host.files


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize(("name", "step"), EVERY_STEP)
def test_a_run_killed_at_any_step_is_recovered_by_the_next(name: str, step: int, after: bool) -> None:
    make, change = MACHINES[name]
    host = make()
    old = host.world()
    host.stop_at, host.failure, host.after = step, Killed(), after
    with pytest.raises(Killed):
        carry_out(host, change(host))
    host.revive()
    checkpoint.recover(host)
    new = make()
    carry_out(new, change(new))
    if checkpoint.read_checkpoints(host):
        assert host.world() == new.world()
    else:
        assert host.world() == old
    assert checkpoint.JOURNAL_PATH not in host.files


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize(("name", "step"), EVERY_STEP)
def test_a_run_killed_with_the_machine_is_recovered_at_boot(name: str, step: int, after: bool) -> None:
    make, change = MACHINES[name]
    host = make()
    old_files, old_directories, old_enabled, _ = host.world()
    host.stop_at, host.failure, host.after = step, Killed(), after
    with pytest.raises(Killed):
        carry_out(host, change(host))
    host.boot()
    checkpoint.recover(host, at_boot=True)
    assert host.running == {}, "the boot starts the unit itself, afterwards"
    if not checkpoint.read_checkpoints(host):
        assert host.world()[:3] == (old_files, old_directories, old_enabled)
        assert all(files == host._disk(unit) for unit, files in host.loaded.items())
    assert checkpoint.JOURNAL_PATH not in host.files


def uninstall(host: FakeMachine) -> Checkpoint:
    """The rollback of a change that made the unit itself."""
    state = systemd.state(host, UNIT)
    change = checkpoint.read_change(host, FRAGMENT, None, None)
    assert change is not None
    return Checkpoint(
        identifier=checkpoint.next_identifier(host),
        kind="rollback",
        engine="llama-server",
        unit=UnitBefore(UNIT, state.exists, state.active_state, UNIT in host.enabled, state.invocation_id),
        started_at_seconds=host.now(),
        changes=(change,),
        disable=(UNIT,),
    )


@pytest.mark.parametrize("step", range(6))
def test_a_unit_that_was_switched_off_is_started_by_the_boot_that_takes_this_back(step: int) -> None:
    """What a boot starts is settled before the recovery runs."""
    host = machine()
    host.stop_at, host.failure = step, Killed()
    with pytest.raises(Killed):
        checkpoint.carry_out(host, uninstall(host), None, lambda: systemd.stop(host, UNIT))
    host.boot()
    assert checkpoint.recover(host, at_boot=True) is not None or step == 0
    assert UNIT in host.enabled
    assert UNIT in host.booting


@given(st.sampled_from(EVERY_STEP), st.integers(0, 12), st.booleans())
def test_a_recovery_that_is_killed_is_finished_by_the_next(where: tuple[str, int], second: int, after: bool) -> None:
    name, step = where
    make, change = MACHINES[name]
    host = make()
    old = host.world()
    host.stop_at, host.failure, host.after = step, Killed(), after
    with pytest.raises(Killed):
        carry_out(host, change(host))
    host.revive()
    host.stop_at, host.failure, host.changes_made = second, Killed(), 0
    try:
        checkpoint.recover(host)
    except Killed:
        host.revive()
        checkpoint.recover(host)
    if not checkpoint.read_checkpoints(host):
        assert host.world() == old
    assert checkpoint.JOURNAL_PATH not in host.files


def test_an_engine_that_does_not_come_up_is_put_back_and_quoted() -> None:
    host = machine()
    old_words = host.running[UNIT]
    host.comes_up = lambda words: "--new" not in words
    with pytest.raises(RolledBack, match=r"invalid argument: --new.*old configuration is back") as caught:
        carry_out(host, usual_change(host))
    assert caught.value.exit_code == 5
    assert host.running[UNIT] == old_words
    assert DROP_IN not in host.files


def test_nothing_is_restarted_while_the_old_process_still_runs() -> None:
    host = machine()
    invocation = host.invocations[UNIT]
    host.stop_at, host.failure = 2, OSError("disk full")
    with pytest.raises(RolledBack):
        carry_out(host, usual_change(host))
    assert host.invocations[UNIT] == invocation


def test_mode_and_owner_come_back() -> None:
    host = machine(with_drop_in=True)
    before = host.files[DROP_IN]
    host.comes_up = lambda words: "--new" not in words
    with pytest.raises(RolledBack):
        carry_out(host, usual_change(host))
    assert host.files[DROP_IN] == before
    assert (before.mode, before.gid) == (0o640, 7)


def test_an_edit_made_meanwhile_is_never_overwritten() -> None:
    host = machine(with_drop_in=True)
    old_text = host.files[DROP_IN].text
    host.comes_up = lambda words: "--new" not in words

    def edit_then_fail() -> str:
        host.files[DROP_IN] = FakeFile("[Service]\n# mine\n")
        raise LlmopsError("verification failed")

    change = usual_change(host)
    with pytest.raises(RollbackFailed, match="edited since") as caught:
        checkpoint.carry_out(host, change, None, edit_then_fail)
    assert host.files[DROP_IN].text == "[Service]\n# mine\n"
    kept = f"{KEPT_DIRECTORY}/000001.json"
    assert kept in (caught.value.hint or "")
    assert old_text.split("\n")[0] in host.files[kept].text
    assert checkpoint.JOURNAL_PATH not in host.files, "it must not stand in the way of the next run"
    assert checkpoint.next_identifier(host) == 2


def test_an_old_state_that_does_not_come_up_is_said() -> None:
    host = machine()

    def break_everything() -> str:
        host.comes_up = lambda _words: False
        systemd.restart(host, UNIT)
        raise LlmopsError("verification failed")

    with pytest.raises(RollbackFailed, match=r"old files are back, but llama-server\.service does not come up"):
        checkpoint.carry_out(host, usual_change(host), None, break_everything)
    assert DROP_IN not in host.files


def test_numbers_count_up_whatever_the_clock_says() -> None:
    host = machine()
    carry_out(host, usual_change(host))
    host.seconds -= 1_000_000.0
    carry_out(host, a_change(host, RenderedFile(DROP_IN, drop_in(NEW_COMMAND).content + "# more\n")))
    assert [kept.identifier for kept in checkpoint.read_checkpoints(host)] == [1, 2]


PLAN_FOR_EVERYBODY = "/var/lib/llmops/applied-llama-server.json"


@pytest.mark.parametrize("step", range(AFTER_KEEPING))
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_the_plan_that_everybody_reads_is_the_one_in_effect(step: int, after: bool) -> None:
    host = machine()
    host.stop_at, host.failure, host.after = steps_of("first drop-in") - AFTER_KEEPING + step, Killed(), after
    with pytest.raises(Killed):
        carry_out(host, usual_change(host))
    host.revive()
    assert checkpoint.recover(host) is None
    assert json.loads(host.files[PLAN_FOR_EVERYBODY].text)["data"] == {"slots": 5}
    assert host.files[PLAN_FOR_EVERYBODY].mode == 0o644
    assert checkpoint.JOURNAL_PATH not in host.files


def test_two_runs_exclude_each_other() -> None:
    host = machine()
    with checkpoint.locked(host), pytest.raises(Locked), checkpoint.locked(host):
        pytest.fail("two runs at once")
    with checkpoint.locked(host):
        assert host.is_locked


class Refusing(FakeMachine):
    """A systemd that does not read its files again."""

    def _systemctl(self, words: tuple[str, ...]) -> int:
        return 1 if words[1] == "daemon-reload" else super()._systemctl(words)


def test_a_systemd_that_refuses_to_reload_still_has_the_old_files() -> None:
    host = machine()
    old = host.world()
    host.__class__ = Refusing
    with pytest.raises(RolledBack, match="daemon-reload"):
        carry_out(host, usual_change(host))
    assert host.world() == old
    assert checkpoint.JOURNAL_PATH not in host.files
