"""A machine on which one command is struck again and again, each time from the same beginning."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tests.faults.subjects import DRIVER, Engine, Subject
from tests.systemd.machine import SERVING_SECONDS, Machine, Ran, wait_for
from tests.systemd.observe import JOURNAL, STATE, files_of

PYTHON = "/opt/llmops/bin/python3"
RECORD = "/run/llmops-steps"
BEGINNING = "/srv/beginning"
# What systemd itself writes there while it boots.
NOT_OURS = frozenset({"/etc/machine-id", "/etc/.updated", "/etc/hostname", "/etc/resolv.conf"})
_KEEP = """
rm -rf {kept} && mkdir -p {kept} && cp -a /etc/systemd {kept}/systemd
if test -e /etc/llmops; then cp -a /etc/llmops {kept}/llmops; fi
if test -e {state}; then cp -a {state} {kept}/state; else mkdir {kept}/state && touch {kept}/no-state; fi
"""
_RESTORE = """
find /etc/systemd -mindepth 1 -delete && cp -a {kept}/systemd/. /etc/systemd/
rm -rf /etc/llmops && if test -e {kept}/llmops; then cp -a {kept}/llmops /etc/llmops; fi
mkdir -p {state} && find {state} -mindepth 1 -delete && cp -a {kept}/state/. {state}/
if test -e {kept}/no-state && ! mountpoint -q {state}; then rmdir {state}; fi
"""
_RUNS = "pid=$(systemctl show {unit} --property=MainPID --value); {settings}"


@dataclass(frozen=True)
class World:
    """All that must be of one piece: every file below /etc, how the engine runs, the plan that everybody reads."""

    files: tuple[tuple[str, str], ...]
    command_line: tuple[str, ...]
    published: tuple[int, ...] | None

    def differences(self, other: World) -> list[str]:
        """What differs, for a person to read."""
        mine, theirs = dict(self.files), dict(other.files)
        found = [path for path in sorted({*mine, *theirs}) if mine.get(path) != theirs.get(path)]
        if self.command_line != other.command_line:
            found.append(f"runs as {shlex.join(self.command_line)}")
        return found + ([] if self.published == other.published else [f"published plan {self.published}"])


@dataclass(frozen=True)
class Struck:
    """A run that was struck: how it ended, the steps that it began, and a fingerprint of the disk before each."""

    ran: Ran
    steps: tuple[str, ...]
    disks: tuple[str, ...]

    def finds_change(self, number: int) -> bool:
        """Whether this step finds disk, systemd or engine other than the step before it did."""
        if number == 0:
            return True
        commands = ("run ", "during ", "send ")
        return self.disks[number] != self.disks[number - 1] or self.steps[number - 1].startswith(commands)


class Bench:
    """One booted machine with an engine that serves."""

    def __init__(self, machine: Machine, engine: Engine) -> None:
        self.machine = machine
        self.engine = engine

    def inside(self, script: str) -> str:
        """What a shell script prints inside; it must succeed."""
        return self.machine.inside(script)

    def serves(self) -> bool:
        """Whether the engine answers, and what stands before it."""
        ask = f"import urllib.request as u; u.urlopen({self.engine.url!r}, timeout=30)"
        try:
            self.inside(f"/usr/bin/python3 -SE -c {shlex.quote(ask)} 2>&1")
            self.inside(self.engine.settled)
        except AssertionError:
            return False
        return True

    def wait_until_serving(self) -> None:
        """Return once it answers."""
        wait_for(self.serves, SERVING_SECONDS, "the engine to serve", lambda: self.machine.log(self.engine.unit))

    def world(self) -> World:
        """What is on the disk and what runs, now."""
        command_line = self.inside(_RUNS.format(unit=self.engine.unit, settings=self.engine.settings)).split("\n")[:-1]
        return World(self.files(), tuple(command_line), self.published())

    def files(self) -> tuple[tuple[str, str], ...]:
        """Every file below /etc with what it is."""
        return tuple((path, what) for path, what in files_of(self.machine, "/etc").items() if path not in NOT_OURS)

    def published(self) -> tuple[int, ...] | None:
        """The numbers of the plan that everybody reads."""
        path = self.machine.path(f"{STATE}/applied-{self.engine.plan}.json")
        if not path.exists():
            return None
        part, *names = self.engine.plan_numbers
        plan = json.loads(path.read_text(encoding="utf-8"))["data"][part]
        return tuple(int(plan[name]) for name in names)

    def unfinished(self) -> bool:
        """Whether the journal of a change is there."""
        return self.machine.path(JOURNAL).exists()

    def keep(self, where: str = BEGINNING) -> None:
        """Keep the disk as it is now; from now on `restore` comes back to the beginning."""
        self.inside(_KEEP.format(state=STATE, kept=where))

    def restore_disk(self, where: str = BEGINNING) -> None:
        """The disk as it was kept."""
        self.inside(_RESTORE.format(state=STATE, kept=where))

    def restore(self) -> None:
        """Files, systemd and engine as they were at the beginning."""
        self.restore_disk()
        unit = self.engine.unit
        self.inside(f"systemctl daemon-reload && systemctl reset-failed {unit} && systemctl restart {unit}")
        self.inside(self.engine.restart)
        self.wait_until_serving()

    def llmops(self, *words: str, **specification: Any) -> Ran:
        """The command with a fast clock."""
        return self.strike(words, **specification).ran

    def strike(self, words: Sequence[str], **specification: Any) -> Struck:
        """Run the command under the driver."""
        ran = self.machine.run(*self.words(words, **specification))
        lines = [line.split("\t") for line in self.inside(f"cat {RECORD}").splitlines()]
        return Struck(ran, tuple(line[0] for line in lines), tuple(line[1] for line in lines))

    def words(self, command: Sequence[str], **specification: Any) -> tuple[str, ...]:
        """What runs the command under the driver."""
        given = json.dumps({"record": RECORD, "hurry": True, **specification})
        return (PYTHON, DRIVER, given, *command, "--output", "json")

    def prepare(self, subject: Subject) -> World:
        """Bring the machine to the beginning of a subject; how it is there."""
        for words in subject.before:
            ran = self.llmops(*words)
            assert ran.exit_code == 0, ran
        self.wait_until_serving()
        self.keep()
        return self.world()
