"""Others meanwhile: a second llmops, an edit, an installer, a refusing systemd, a late death, a wrong clock."""

from __future__ import annotations

import pytest

from tests.faults.bench import Bench
from tests.faults.conftest import NewBench
from tests.faults.subjects import FIRST, INSTANT, INSTANT_SERVER, UNIT, UNIT_PATH, tune
from tests.systemd.machine import SERVING_SECONDS, wait_for
from tests.systemd.observe import DROP_IN

pytestmark = [pytest.mark.faults, pytest.mark.timeout(3600)]

ROLLED_BACK, ROLLBACK_FAILED, LOCKED = 5, 6, 8
REFUSING = "/usr/local/bin/systemctl"


@pytest.fixture(scope="module")
def bench(new_bench: NewBench) -> Bench:
    """One machine for all of them."""
    made = new_bench(INSTANT_SERVER)
    made.prepare(FIRST)
    return made


@pytest.fixture(autouse=True)
def restored(bench: Bench) -> None:
    """Every test begins at the beginning."""
    bench.restore()


def test_a_second_apply_is_refused_while_one_works(bench: Bench) -> None:
    waiting = "touch /run/waiting; while test -e /run/waiting; do sleep 0.1; done"
    whole = bench.strike(FIRST.command)
    new = bench.world()
    bench.restore()
    verifying = whole.steps.index("send a test request")
    words = bench.words(FIRST.command, at=verifying, shell=waiting)
    with bench.machine.running(*words, unit="first-apply") as end:
        wait_for(
            lambda: "yes" in bench.inside("test -e /run/waiting && echo yes; true"),
            SERVING_SECONDS,
            "the first",
            lambda: "",
        )
        second = bench.machine.llmops(*FIRST.command)
        rollback = bench.machine.llmops("rollback")
        bench.inside("rm /run/waiting")
        first = end()
    assert second.exit_code == LOCKED, second
    assert rollback.exit_code == LOCKED, rollback
    assert second.envelope["errors"][0]["code"] == "locked"
    assert first.exit_code == 0, first
    assert bench.world().differences(new) == []


def test_an_edit_between_apply_and_rollback_is_kept(bench: Bench) -> None:
    assert bench.llmops(*FIRST.command).exit_code == 0
    bench.inside(f"echo '# mine' >> {DROP_IN}")
    before = bench.world()
    refused = bench.llmops("rollback")
    assert refused.exit_code == ROLLBACK_FAILED, refused
    assert DROP_IN in refused.envelope["errors"][0]["message"]
    assert bench.world().differences(before) == []
    bench.inside(f"sed -i '$d' {DROP_IN}")
    assert bench.llmops("rollback").exit_code == 0


def test_an_installer_that_overwrites_the_unit_is_followed(bench: Bench) -> None:
    old = bench.world()
    assert bench.llmops(*FIRST.command).exit_code == 0
    theirs = bench.machine.path(UNIT_PATH).read_text(encoding="utf-8").replace("-c 4096", "-c 2048 --alias theirs")
    bench.machine.write(UNIT_PATH, theirs)
    again = bench.llmops(*FIRST.command)
    assert again.exit_code == 0, again
    bench.wait_until_serving()
    world = bench.world()
    assert bench.machine.path(UNIT_PATH).read_text(encoding="utf-8") == theirs
    assert world.command_line[world.command_line.index("--parallel") + 1] == "2"
    assert "--alias" in world.command_line, "what the new unit says besides is kept"
    assert bench.llmops(*FIRST.command).envelope["status"] == "ok"
    assert bench.llmops("rollback", "--to", "0").exit_code == 0
    bench.wait_until_serving()
    assert {path for path, _ in set(bench.world().files) ^ set(old.files)} == {UNIT_PATH}
    assert "theirs" in bench.world().command_line


def refuse_reload(bench: Bench, times: int) -> None:
    """A systemctl in front that refuses to let systemd read its files again."""
    script = (
        '#!/bin/sh\nif test "$1" = daemon-reload && test "$(cat /run/refusals)" -gt 0; then\n'
        'echo $(($(cat /run/refusals) - 1)) > /run/refusals\necho "Failed to reload daemon: Refusing to reload" >&2\n'
        'exit 1\nfi\nexec /usr/bin/systemctl "$@"\n'
    )
    bench.inside(f"echo {times} > /run/refusals")
    bench.machine.write(REFUSING, script, 0o755)


@pytest.mark.parametrize("times", [1, 99])
def test_a_systemd_that_refuses_to_reload(bench: Bench, times: int) -> None:
    old = bench.world()
    refuse_reload(bench, times)
    try:
        refused = bench.llmops(*FIRST.command)
    finally:
        bench.machine.path(REFUSING).unlink()
    assert refused.exit_code == ROLLED_BACK, refused
    assert "Refusing to reload" in refused.envelope["errors"][0]["message"]
    assert bench.world().differences(old) == []
    assert not bench.unfinished()


def test_a_broken_unit_of_somebody_else_is_no_obstacle(bench: Bench) -> None:
    bench.machine.write("/etc/systemd/system/broken.service", "[Service]\nExecStart=relative\nno line at all\n")
    applied = bench.llmops(*FIRST.command)
    assert applied.exit_code == 0, applied


def test_an_engine_that_dies_five_seconds_after_it_was_ready(bench: Bench) -> None:
    old = bench.world()
    bench.inside("mkdir -p /run/instant && echo 5 > /run/instant/dies-after")
    try:
        failed = bench.llmops(*FIRST.command, hurry=False)
    finally:
        bench.inside("rm /run/instant/dies-after")
    assert failed.exit_code == ROLLED_BACK, failed
    bench.wait_until_serving()
    assert bench.world().differences(old) == []
    assert not bench.unfinished()
    assert failed.envelope["data"]["plan"]["slots"] == 2
    assert UNIT in failed.envelope["errors"][0]["message"]


def test_a_clock_that_steps_back_changes_no_order(bench: Bench) -> None:
    assert bench.llmops(*tune(2)).exit_code == 0
    first = bench.world()
    assert bench.llmops(*tune(3), clock=-400 * 86400).exit_code == 0
    back = bench.llmops("rollback", clock=-800 * 86400)
    assert back.exit_code == 0, back
    assert back.envelope["data"]["rolled_back"] == [2]
    bench.wait_until_serving()
    assert bench.world().differences(first) == []
    rows = bench.machine.llmops("history").envelope["data"]["history"]
    assert [row["identifier"] for row in rows] == [1, 2, 3]
    assert rows[0]["started_at_seconds"] > rows[1]["started_at_seconds"] > rows[2]["started_at_seconds"]
    assert [row["in_effect"] for row in rows] == [True, False, False]


def test_the_program_is_the_stand_in(bench: Bench) -> None:
    assert INSTANT in bench.world().command_line
