"""A change killed with SIGKILL before each of its steps, then run again, then rebooted: the old world or the new one.

What becomes of a killed change depends on the disk, and on what systemd and the engine have of it. So it is killed
before every step that finds one of these changed: a command has gone by, or the disk is another. The steps between find
the state of the row above. LLMOPS_EVERY_STEP=1 kills before every single one.
"""

from __future__ import annotations

import os
import re
import signal
from dataclasses import replace

import pytest

from tests.faults.bench import Bench, World
from tests.faults.conftest import NewBench
from tests.faults.subjects import MATRIX, Engine, Subject
from tests.faults.table import Row, table, write

pytestmark = [pytest.mark.faults, pytest.mark.timeout(3600)]

# Files of the recovery unit: until it is enabled nothing of the engine has been touched, and the boot knows nothing of
# the change. They do nothing, and the next run takes them away.
INERT = frozenset(
    f"/etc/systemd/system/{name}" for name in ("llmops-recover.service", ".llmops-recover.service.llmops-new")
)
KILLED = 128 + signal.SIGKILL
NOTHING_TO_TAKE_BACK = 2
KILLED_DISK = "/srv/killed"


@pytest.fixture(scope="module")
def benches(new_bench: NewBench) -> dict[str, Bench]:
    """One machine for each engine, booted when it is first needed."""
    return {}


def bench_for(engine: Engine, benches: dict[str, Bench], new_bench: NewBench) -> Bench:
    if engine.name not in benches:
        benches[engine.name] = new_bench(engine)
    return benches[engine.name]


class Matrix:
    """One subject on one machine."""

    def __init__(self, bench: Bench, subject: Subject) -> None:
        self.bench, self.subject = bench, subject
        self.old = bench.prepare(subject)
        whole = bench.strike(subject.command)
        assert whole.ran.exit_code == 0, whole.ran
        self.whole, self.steps = whole, whole.steps
        self.new = bench.world()
        assert self.new.files != self.old.files
        assert self.new.command_line != self.old.command_line
        self.again()
        bench.restore()
        assert bench.world() == self.old

    def again(self) -> str:
        """Run the same command once more; it must end in the new world."""
        ran = self.bench.llmops(*self.subject.command)
        fine = (0, NOTHING_TO_TAKE_BACK) if self.subject.command[0] == "rollback" else (0,)
        assert ran.exit_code in fine, ran
        self.bench.wait_until_serving()
        assert not self.bench.unfinished()
        assert self.bench.world().differences(self.new) == []
        return "new"

    def kill(self, number: int) -> None:
        """Run the command and let it kill itself before this step."""
        struck = self.bench.strike(self.subject.command, at=number, signal=signal.SIGKILL)
        assert struck.ran.exit_code == KILLED, struck
        assert struck.steps == self.steps[: number + 1]

    def strike(self, number: int) -> Row:
        """Everything about one step."""
        self.kill(number)
        on_disk, engine = self.files_then(), self.engine_then()
        self.bench.keep(KILLED_DISK)
        again = self.again()
        self.bench.restore_disk(KILLED_DISK)
        rebooted = self.reboot()
        self.bench.restore()
        return Row(short(self.steps[number]), on_disk, engine, again, rebooted)

    def rows(self) -> list[Row]:
        """Every step; those that find nothing changed are like the one above."""
        found: list[Row] = []
        for number, step in enumerate(self.steps):
            if not self.whole.finds_change(number) and os.environ.get("LLMOPS_EVERY_STEP") != "1":
                found.append(replace(found[-1], step=short(step)))
            else:
                found.append(self.strike(number))
        return found

    def files_then(self) -> str:
        """What the killed run left below /etc."""
        files = self.bench.files()
        name = {self.old.files: "old", self.new.files: "new"}.get(files, "between")
        return f"{name}, unfinished" if self.bench.unfinished() else name

    def engine_then(self) -> str:
        """How the engine was left."""
        self.bench.wait_until_serving()
        return {self.old.command_line: "old", self.new.command_line: "new"}[self.bench.world().command_line]

    def reboot(self) -> str:
        """A power cut and a boot; which world is there."""
        self.bench.machine.pull_the_plug()
        self.bench.machine.boot()
        self.bench.wait_until_serving()
        found = self.bench.world()
        return self.named(found)

    def named(self, found: World) -> str:
        """Which world it is; the files of the recovery unit may be there without effect, while the next run knows."""
        for name, world in (("old", self.old), ("new", self.new)):
            left = {path for path, _ in set(found.files) ^ set(world.files)}
            same = (found.command_line, found.published) == (world.command_line, world.published)
            if same and left <= INERT:
                if not left:
                    return name
                assert self.bench.unfinished()
                self.again()
                return f"{name}; the recovery unit is there and not enabled"
        raise AssertionError((found.differences(self.old), found.differences(self.new)))


def short(step: str) -> str:
    """A step in as few words as say it."""
    step = re.sub(r"/etc/systemd/system/", "", step)
    step = re.sub(r"/var/lib/llmops", "state", step)
    step = re.sub(r"(^|[ /])\.([^/ ]+)\.llmops-new", r"\1new \2", step)
    return re.sub(r"llama-server\.service\.d(?=/|$)", "drop-ins", step)


@pytest.mark.parametrize("subject", MATRIX, ids=lambda subject: re.sub(r"\W+", "-", subject.name))
def test_killed_before_every_step(subject: Subject, benches: dict[str, Bench], new_bench: NewBench) -> None:
    bench = bench_for(subject.engine, benches, new_bench)
    matrix = Matrix(bench, subject)
    rows = matrix.rows()
    title = f"{subject.name}: {len(rows)} steps, {len(set(matrix.whole.disks))} states of the disk"
    print(write(subject.name, table(title, rows), [subject.name for subject in MATRIX]))
