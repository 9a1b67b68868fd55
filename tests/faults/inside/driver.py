"""Runs the real llmops and strikes at one step of its change: a signal to itself, or a command that changes the world.

`python3 driver.py SPECIFICATION WORDS...`, where the specification is JSON with these keys, all optional:
`record` a file that gets the name of every step; `at` the number of the step before which it strikes, from 0;
`signal` the number that it sends to itself; `shell` what it lets the shell do; `hurry` true to sleep on fast clocks;
`clock` seconds by which the clock of the day is wrong.

A step is everything that changes the machine: a file made, given its mode, synchronised, renamed or removed, a
directory made or removed, a command begun, a command under way, and the first request of the verification. Python
itself reports most of them (PEP 578), so nothing of llmops is replaced; fsync, which is not reported, the commands and
the requests are wrapped.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from llmops.host import Completed, Lock, StreamTimings
from llmops.host.local import LocalHost

WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT
INTO_A_COMMAND_SECONDS = 0.03
SLEEP_SECONDS = 0.05
TEST_REQUEST = "send a test request"


class Steps:
    """Counts the steps from the moment that the lock is asked for, and strikes once."""

    def __init__(self, specification: dict[str, Any]) -> None:
        self.specification = specification
        self.armed = False
        self.count = 0
        self.after_rates = self.asked = False
        record = specification.get("record")
        self.record = os.open(record, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600) if record else None

    def step(self, name: str) -> bool:
        """True where this is the step to strike at; it is written down before anything happens."""
        if not self.armed or self._is_of_rates(name) or self._is_asked_again(name):
            return False
        if self.record is not None:
            self.armed = False
            os.write(self.record, f"{name}\t{fingerprint()}\n".encode())
            self.armed = True
        self.count += 1
        return self.count - 1 == self.specification.get("at")

    def _is_of_rates(self, name: str) -> bool:
        """Rates are remembered after the change, and only where the machine was quiet: no step to count on.

        The directory is synchronised right after their file was renamed.
        """
        follows, self.after_rates = self.after_rates, "rates.json" in name and name.startswith("rename")
        return follows or "rates.json" in name

    def _is_asked_again(self, name: str) -> bool:
        """How often a verification asks depends on how busy the machine is; nothing changes in between."""
        asks = name == TEST_REQUEST
        again, self.asked = asks and self.asked, asks
        return again

    def strike(self) -> None:
        """Do what is asked for; a SIGKILL never comes back from here."""
        self.armed = False
        if "shell" in self.specification:
            subprocess.run(["/bin/sh", "-c", self.specification["shell"]], check=False)
        if "signal" in self.specification:
            os.kill(os.getpid(), self.specification["signal"])


def fingerprint() -> str:
    """What is on the disk now; of journals and checkpoints, which carry times, only that they are there."""
    seen = []
    for directory in ("/etc", "/var/lib/llmops"):
        for path in sorted(Path(directory).rglob("*")):
            if path.is_symlink():
                seen.append((str(path), str(path.readlink())))
            elif path.name != "rates.json":
                known = path.is_file() and directory == "/etc"
                seen.append((str(path), hashlib.sha256(path.read_bytes()).hexdigest() if known else "there"))
    return hashlib.sha256(repr(seen).encode()).hexdigest()[:12]


def path_of(value: object) -> str:
    """The path behind a descriptor or a path."""
    if isinstance(value, int):
        return str(Path(f"/proc/self/fd/{value}").readlink())
    return os.fsdecode(value) if isinstance(value, (str, bytes, os.PathLike)) else str(value)


def opened(arguments: Sequence[Any]) -> str | None:
    """A file opened for writing; descriptors that are only wrapped are no step."""
    path, _, flags = arguments
    if isinstance(path, int) or not flags & WRITING or path_of(path).startswith("/dev/"):
        return None
    return f"create {path_of(path)}"


def made(arguments: Sequence[Any]) -> str | None:
    """A directory that was not there."""
    path = path_of(arguments[0])
    return None if os.path.lexists(path) else f"make directory {path}"


def on_existing(verb: str) -> Callable[[Sequence[Any]], str | None]:
    """A change of something that exists; what is not there is not changed."""

    def name(arguments: Sequence[Any]) -> str | None:
        path = path_of(arguments[0])
        return f"{verb} {path}" if os.path.lexists(path) else None

    return name


EVENTS: dict[str, Callable[[Sequence[Any]], str | None]] = {
    "open": opened,
    "os.rename": lambda arguments: f"rename to {path_of(arguments[1])}",
    "os.remove": on_existing("remove"),
    "os.mkdir": made,
    "os.rmdir": on_existing("remove directory"),
    "os.chmod": on_existing("set mode of"),
    "os.chown": on_existing("set owner of"),
    "os.truncate": on_existing("empty"),
}


def watch(steps: Steps) -> None:
    """Let Python report every change."""

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if event not in EVENTS or not steps.armed:
            return
        name = EVENTS[event](arguments)
        if name is not None and "__pycache__" not in name and steps.step(name):
            steps.strike()

    sys.addaudithook(hook)
    really_fsync = os.fsync

    def fsync(descriptor: Any) -> None:
        if steps.step(f"fsync {path_of(descriptor)}"):
            steps.strike()
        really_fsync(descriptor)

    os.fsync = fsync  # type: ignore[assignment]


def wrap(steps: Steps) -> None:
    """Count from the lock on, and commands twice: before they begin and while they run."""
    really_lock, really_execute, really_stream = LocalHost.lock, LocalHost.execute, LocalHost.stream_completion

    def lock(self: LocalHost, path: str) -> Lock:
        steps.armed = True
        return really_lock(self, path)

    def execute(self: LocalHost, argv: Sequence[str], *, timeout_seconds: float = 120.0) -> Completed:
        if steps.step(f"run {' '.join(argv)}"):
            steps.strike()
        if not steps.step(f"during {' '.join(argv)}"):
            return really_execute(self, argv, timeout_seconds=timeout_seconds)
        timer = threading.Timer(INTO_A_COMMAND_SECONDS, steps.strike)
        timer.start()
        done = really_execute(self, argv, timeout_seconds=timeout_seconds)
        timer.join()
        return done

    def stream(self: LocalHost, url: str, payload: Mapping[str, object], **rest: Any) -> StreamTimings:
        if threading.current_thread() is threading.main_thread() and steps.step(TEST_REQUEST):
            steps.strike()
        return really_stream(self, url, payload, **rest)

    LocalHost.stream_completion = stream  # type: ignore[method-assign]
    LocalHost.lock = lock  # type: ignore[method-assign,assignment]
    LocalHost.execute = execute  # type: ignore[method-assign]


def change_clocks(specification: dict[str, Any]) -> None:
    """Sleeping that takes no time and moves the clock on; a clock of the day that is wrong."""
    if "clock" in specification:
        LocalHost.now = lambda self: time.time() + specification["clock"]  # type: ignore[method-assign]
    if not specification.get("hurry"):
        return
    ahead = 0.0

    def sleep(self: LocalHost, seconds: float) -> None:
        nonlocal ahead
        really = min(seconds, SLEEP_SECONDS)
        ahead += seconds - really
        time.sleep(really)

    LocalHost.sleep = sleep  # type: ignore[method-assign]
    LocalHost.monotonic = lambda self: time.monotonic() + ahead  # type: ignore[method-assign]


def main() -> int:
    """llmops with what is left of the command line."""
    from llmops.cli import main as command_line

    specification = json.loads(sys.argv[1])
    sys.argv = ["llmops", *sys.argv[2:]]
    steps = Steps(specification)
    wrap(steps)
    change_clocks(specification)
    watch(steps)
    return int(command_line() or 0)


if __name__ == "__main__":
    sys.exit(main())
