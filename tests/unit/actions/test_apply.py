"""Applying a plan: what is refused, what is written, what a second run does."""

from __future__ import annotations

from typing import Any

import pytest

from llmops import checkpoint
from llmops.actions.apply import Applied, ApplyOptions, apply
from llmops.actions.recovery import UNIT as BOOT_UNIT
from llmops.actions.recovery import UNIT_PATH, recover
from llmops.core.errors import (
    ConflictingSetting,
    Locked,
    Misconfigured,
    NoPermission,
    NotInstalled,
    RolledBack,
    UnreadableInput,
    Unsupported,
)
from llmops.core.plan import Plan
from llmops.core.verification import Check, CheckStatus, VerificationReport
from llmops.engines.found import Installation
from tests.unit.actions.serving_machine import (
    DROP_IN,
    ENGINE,
    FRAGMENT,
    INTERPRETER,
    MODEL,
    PROGRAM,
    UNIT,
    ServingMachine,
    a_plan,
    installation,
    machine,
)
from tests.unit.fake_machine import FakeFile, Killed

GOOD = VerificationReport((Check("slots", "5", "5", CheckStatus.PASS),))
PLAN = a_plan()


class Apply:
    """One apply and what it said on the way."""

    def __init__(self, host: ServingMachine) -> None:
        self.host = host
        self.said: list[str] = []
        self.verified = 0

    def run(
        self,
        plan: Plan = PLAN,
        found: Installation | None = None,
        report: VerificationReport = GOOD,
        **options: Any,
    ) -> Applied:
        def verify(live: Installation) -> VerificationReport:
            assert live.unit == UNIT
            self.verified += 1
            return report

        return apply(
            self.host,
            ENGINE,
            found or installation(),
            plan,
            options=ApplyOptions(executable=(INTERPRETER, "-m", "llmops"), **options),
            verify=verify,
            progress=self.said.append,
        )


def test_a_first_apply_is_live_verified_and_remembered() -> None:
    host = machine()
    applied = Apply(host).run()
    assert applied.changed
    assert applied.restarted
    assert applied.report == GOOD
    assert [change.path for change in applied.changes] == [UNIT_PATH, DROP_IN]
    words = host.running[UNIT]
    assert words[:3] == (PROGRAM, "--model", MODEL)
    assert words[words.index("--parallel") + 1] == "5"
    assert words[words.index("--ctx-size") + 1] == str(5 * 8192)
    assert BOOT_UNIT in host.enabled
    document = checkpoint.read_plan(host, applied.checkpoint or 0)
    assert document is not None
    assert document["plan"]["slots"] == 5
    assert "--parallel" in document["plan"]["arguments"]


def test_a_second_apply_does_nothing_at_all() -> None:
    host = machine()
    Apply(host).run()
    host.log.clear()
    host.busy, host.stays_busy = [5], True
    second = Apply(host)
    applied = second.run()
    assert (applied.changed, applied.restarted, applied.changes) == (False, False, ())
    assert host.log == []
    assert second.verified == 0
    assert second.said == []


def test_another_llmops_on_the_machine_keeps_the_boot_unit() -> None:
    host = machine()
    Apply(host).run()
    host.log.clear()
    other = apply(
        host,
        ENGINE,
        installation(),
        PLAN,
        options=ApplyOptions(executable=("/opt/other/python3", "-m", "llmops")),
        verify=lambda _live: GOOD,
        progress=lambda _line: None,
    )
    assert not other.changed
    assert host.log == []


def test_a_boot_unit_whose_llmops_is_gone_is_written_anew_without_a_restart() -> None:
    host = machine()
    Apply(host).run()
    before = host.invocations[UNIT]
    del host.files[INTERPRETER]
    host.files["/opt/new/python3"] = FakeFile("", 0o755)
    applied = apply(
        host,
        ENGINE,
        installation(),
        PLAN,
        options=ApplyOptions(executable=("/opt/new/python3", "-m", "llmops")),
        verify=lambda _live: GOOD,
        progress=lambda _line: None,
    )
    assert [change.path for change in applied.changes] == [UNIT_PATH]
    assert not applied.restarted
    assert host.invocations[UNIT] == before


def test_a_unit_that_stands_still_is_started_even_when_its_files_are_in_place() -> None:
    host = machine()
    Apply(host).run()
    host.running.clear()
    applied = Apply(host).run()
    assert applied.changed
    assert applied.restarted
    assert applied.changes == ()
    assert UNIT in host.running


def test_files_that_systemd_has_not_read_are_made_live() -> None:
    host = machine()
    Apply(host).run()
    host.files[f"{FRAGMENT}.d/20-user.conf"] = FakeFile("[Service]\nNice=5\n")
    applied = Apply(host).run()
    assert applied.restarted
    assert all(files == host._disk(unit) for unit, files in host.loaded.items())


def test_a_process_with_older_arguments_is_restarted() -> None:
    host = machine()
    old = host.running[UNIT]
    Apply(host).run()
    host.running[UNIT] = old
    assert Apply(host).run().restarted
    assert "--parallel" in host.running[UNIT]


def test_verification_that_fails_brings_the_old_state_back_and_names_the_checks() -> None:
    host = machine()
    old = host.world()
    report = VerificationReport(
        (Check("slots", "5", "4", CheckStatus.FAIL), Check("swap", "none", "none", CheckStatus.PASS))
    )
    with pytest.raises(RolledBack, match=r"slots: expected 5, found 4.*runs as before") as caught:
        Apply(host).run(report=report)
    assert "swap" not in caught.value.message
    assert host.world() == old


def test_verification_that_sees_nothing_is_no_success() -> None:
    report = VerificationReport((Check("slots", "5", None, CheckStatus.NOT_EVALUATED, "nobody answers"),))
    with pytest.raises(RolledBack, match="could not see anything"):
        Apply(machine()).run(report=report)


def test_an_engine_that_refuses_the_settings_is_rolled_back() -> None:
    host = machine()
    old = host.running[UNIT]
    host.comes_up = lambda words: "--parallel" not in words
    with pytest.raises(RolledBack, match="invalid argument"):
        Apply(host).run()
    assert host.running[UNIT] == old
    assert DROP_IN not in host.files


def test_requests_in_flight_are_awaited() -> None:
    host = machine()
    host.busy = [0, 2, 1]
    run = Apply(host)
    run.run(drain_seconds=60)
    assert "waiting for 2 requests" in run.said[0]
    assert "waiting for 1 requests" in run.said[1]


def test_the_wait_for_requests_has_an_end() -> None:
    host = machine()
    host.busy, host.stays_busy = [3], True
    run = Apply(host)
    started = host.seconds
    run.run(drain_seconds=7)
    assert 7 <= host.seconds - started < 30
    assert any("still being served after 7 s" in line for line in run.said)


@pytest.mark.parametrize("managed_by", ["docker", "podman", "snap", "process"])
def test_what_no_unit_starts_is_left_alone_with_the_lines_to_use(managed_by: str) -> None:
    host = machine()
    with pytest.raises(Unsupported) as caught:
        Apply(host).run(found=installation(managed_by=managed_by, unit=None, detail="container llm", pid=7))
    assert caught.value.exit_code == 7
    assert "--parallel 5" in (caught.value.hint or "")
    assert host.log == []


def test_no_engine_names_the_steps_to_install_one() -> None:
    with pytest.raises(NotInstalled) as caught:
        Apply(machine()).run(found=installation(managed_by="absent", unit=None))
    assert "llama.cpp" in (caught.value.hint or "")


def test_without_systemd_nothing_happens() -> None:
    host = machine()
    host.directories.discard("/run/systemd/system")
    with pytest.raises(NotInstalled, match="systemd"):
        Apply(host).run()
    assert host.log == []


def test_only_root_may_apply() -> None:
    host = machine()
    host.uid = 1000
    with pytest.raises(NoPermission) as caught:
        Apply(host).run()
    assert caught.value.exit_code == 10
    assert host.log == []


def test_two_applies_exclude_each_other() -> None:
    host = machine()
    with checkpoint.locked(host), pytest.raises(Locked):
        Apply(host).run()


def test_a_killed_apply_is_taken_back_by_the_next_one() -> None:
    host = machine()
    host.stop_at, host.failure = 6, Killed()
    with pytest.raises(Killed):
        Apply(host).run()
    host.revive()
    run = Apply(host)
    applied = run.run(plan=a_plan(slots=3))
    assert applied.recovered == 1
    assert "cut short (number 1)" in run.said[0]
    words = host.running[UNIT]
    assert words[words.index("--parallel") + 1] == "3"


def test_recovery_needs_root_and_says_what_it_took_back() -> None:
    host = machine()
    old = host.world()
    host.stop_at, host.failure = 6, Killed()
    with pytest.raises(Killed):
        Apply(host).run()
    host.revive()
    host.uid = 1000
    with pytest.raises(NoPermission):
        recover(host, at_boot=False)
    host.uid = 0
    undone = recover(host, at_boot=False)
    assert undone is not None
    assert undone.identifier == 1
    assert host.world() == old
    assert recover(host, at_boot=False) is None


CONTRADICTION = f"[Service]\nExecStart=\nExecStart={PROGRAM} --model {MODEL} --port 8080 -np 1\n"


def test_a_drop_in_that_contradicts_is_shown_and_nothing_is_written() -> None:
    host = machine(override=CONTRADICTION)
    with pytest.raises(
        ConflictingSetting, match=r"override\.conf sets --parallel to '-np 1'.*'--parallel 5'"
    ) as caught:
        Apply(host).run()
    assert caught.value.exit_code == 3
    assert "--take-over" in (caught.value.hint or "")
    assert host.log == []


def test_a_taken_over_drop_in_stays_untouched_and_is_not_asked_about_again() -> None:
    host = machine(override=CONTRADICTION)
    assert Apply(host).run(take_over=True).changed
    assert host.files[f"{FRAGMENT}.d/override.conf"].text == CONTRADICTION
    words = host.running[UNIT]
    assert "-np" not in words
    assert words[words.index("--parallel") + 1] == "5"
    host.log.clear()
    assert not Apply(host).run().changed
    assert host.log == []
    host.files[f"{FRAGMENT}.d/override.conf"] = FakeFile(CONTRADICTION.replace("-np 1", "-np 2"))
    with pytest.raises(ConflictingSetting, match="-np 2"):
        Apply(host).run()


def test_a_drop_in_that_agrees_is_no_conflict() -> None:
    agreeing = CONTRADICTION.replace("-np 1", "-np 5 --alias mine")
    host = machine(override=agreeing)
    assert Apply(host).run().changed
    assert "--alias" in host.running[UNIT]


def test_a_drop_in_with_our_own_command_line_is_no_conflict() -> None:
    first = machine()
    Apply(first).run()
    host = machine(override=first.files[DROP_IN].text.replace("# Managed by llmops.", "# Mine."))
    assert Apply(host).run().changed
    assert host.running[UNIT] == first.running[UNIT]


def test_a_drop_in_that_is_read_after_ours_cannot_be_taken_over() -> None:
    host = machine(zzz=CONTRADICTION)
    with pytest.raises(ConflictingSetting) as caught:
        Apply(host).run(take_over=True)
    assert "read after zz-llmops.conf" in (caught.value.hint or "")
    assert host.log == []


def test_an_environment_file_that_contradicts_is_overridden_by_a_later_one_of_ours() -> None:
    host = machine(env="[Service]\nEnvironmentFile=/etc/default/llama\n")
    theirs = FakeFile("LLAMA_ARG_CTX_SIZE=2048\nLLAMA_API_KEY=secret\n", 0o600)
    host.files["/etc/default/llama"] = theirs
    with pytest.raises(ConflictingSetting, match=r"/etc/default/llama sets LLAMA_ARG_CTX_SIZE to '2048'") as caught:
        Apply(host).run()
    assert "secret" not in caught.value.message
    applied = Apply(host).run(take_over=True)
    ours = "/etc/llmops/llama-server.env"
    assert ours in [change.path for change in applied.changes]
    assert host.files[ours].text.endswith("LLAMA_ARG_CTX_SIZE=40960\n")
    assert host.files[DROP_IN].text.endswith(f"EnvironmentFile={ours}\n")
    assert host.files["/etc/default/llama"] == theirs
    host.log.clear()
    assert not Apply(host).run().changed
    assert host.log == []


def test_a_masked_unit_is_not_touched() -> None:
    host = machine()
    shown = host._properties

    def masked(unit: str) -> dict[str, str]:
        return {**shown(unit), "LoadState": "masked"}

    host._properties = masked  # type: ignore[method-assign]
    with pytest.raises(Misconfigured, match="masked"):
        Apply(host).run()
    assert host.log == []


BINARY = installation(managed_by="binary", unit=None)


def bare_machine() -> ServingMachine:
    host = machine()
    del host.files[FRAGMENT]
    host.running.clear()
    host.reload()
    return host


def test_without_a_unit_one_is_installed_only_when_asked_for() -> None:
    host = bare_machine()
    with pytest.raises(NotInstalled, match="no systemd unit") as caught:
        Apply(host).run(found=BINARY)
    assert "--install-unit" in (caught.value.hint or "")
    assert host.log == []


def test_a_unit_is_installed_enabled_and_started() -> None:
    host = bare_machine()
    applied = Apply(host).run(found=BINARY, install_unit=True)
    assert [change.path for change in applied.changes] == [UNIT_PATH, FRAGMENT]
    assert UNIT in host.enabled
    assert "--parallel" in host.running[UNIT]


def test_an_installed_unit_that_does_not_come_up_leaves_nothing_behind() -> None:
    host = bare_machine()
    old = host.world()
    host.comes_up = lambda _words: False
    with pytest.raises(RolledBack, match="nothing was running before"):
        Apply(host).run(found=BINARY, install_unit=True)
    assert host.world() == old


@pytest.mark.parametrize(("path", "mode", "hint"), [(MODEL, 0o600, "a+r"), (PROGRAM, 0o700, "a+rx")])
def test_a_service_that_could_not_read_its_files_is_not_installed(path: str, mode: int, hint: str) -> None:
    host = bare_machine()
    host.files[path] = FakeFile("", mode)
    with pytest.raises(Misconfigured, match=path) as caught:
        Apply(host).run(found=BINARY, install_unit=True)
    assert hint in (caught.value.hint or "")
    assert host.log == []


def test_a_plan_for_a_model_that_is_not_here_changes_nothing() -> None:
    host = machine()
    del host.files[MODEL]
    before = host.world()
    with pytest.raises(UnreadableInput, match="the model of this plan is not on this machine"):
        Apply(host).run()
    assert host.world() == before
