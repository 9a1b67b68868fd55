"""One test machine: real systemd booted in a container, driven from outside, believed only by its own word."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.systemd.root import run

ENGINE_DIRECTORY = "/opt/llama.cpp"
MODEL_DIRECTORY = "/srv/models"
PROGRAM = f"{ENGINE_DIRECTORY}/llama-server"
# For what never comes: a machine that is busy with other things takes many times as long as a quiet one.
BOOT_SECONDS = SERVING_SECONDS = 300.0
# Said by the container itself after the command, with its own boot number: nothing outside can say it by accident.
_TOKEN = re.compile(r"^inside ([0-9a-f-]{36}) code (\d+)$", re.MULTILINE)
_SAY = 'code=$?; echo; echo "inside $(cat /proc/sys/kernel/random/boot_id) code $code"'


@dataclass(frozen=True)
class Ran:
    """A command that ended inside, with the container's word for its exit code."""

    exit_code: int
    stdout: str
    stderr: str

    @property
    def envelope(self) -> Any:
        return json.loads(self.stdout)


@dataclass
class Machine:
    """A container with its own copy of the disk; `model` is the model's path inside, `shown` are at the same path."""

    name: str
    directory: Path
    lower: Sequence[Path]
    engine: Path
    models: Path
    model: str
    engine_directory: str = ENGINE_DIRECTORY
    shown: Sequence[Path] = ()
    process: subprocess.Popen[bytes] | None = None
    leader: int = 0
    groups: list[Path] = field(default_factory=list)

    @property
    def root(self) -> Path:
        """The disk, seen from outside."""
        return self.directory / "root"

    def path(self, inside: str) -> Path:
        """A path inside, seen from outside."""
        return self.root / inside.lstrip("/")

    def write(self, inside: str, text: str, mode: int = 0o644) -> None:
        """Put a file on the disk."""
        target = self.path(inside)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
        target.chmod(mode)

    def make_disk(self) -> None:
        """The layers below stay as they are: what this machine writes lies in a directory of its own."""
        for part in ("upper", "work", "root"):
            (self.directory / part).mkdir(parents=True)
        lower = ":".join(str(layer) for layer in self.lower)
        options = f"lowerdir={lower},upperdir={self.directory / 'upper'},workdir={self.directory / 'work'}"
        run("mount", "-t", "overlay", "overlay", "-o", options, self.root)

    def boot(self) -> None:
        """Start systemd and wait until it has finished booting."""
        words = [
            "systemd-nspawn", "--quiet", f"--directory={self.root}", "--boot", f"--machine={self.name}",
            "--register=no", "--private-network", "--console=pipe", "--link-journal=no", "--resolv-conf=off",
            "--timezone=off", f"--bind-ro={self.engine}:{self.engine_directory}",
            f"--bind-ro={self.models}:{MODEL_DIRECTORY}", *(f"--bind-ro={path}" for path in self.shown),
        ]  # fmt: skip
        if not Path("/run/systemd/system").is_dir():
            words.append("--keep-unit")  # no systemd outside that could give the container a unit of its own
        self.groups = own_groups(self.name)
        joining = "".join(f"echo $$ > {shlex.quote(str(group / 'cgroup.procs'))}; " for group in self.groups)
        console = (self.directory / "console").open("ab")
        self.process = subprocess.Popen(
            ["/bin/sh", "-c", f'{joining}exec "$@"', "sh", *words],
            stdin=subprocess.DEVNULL,
            stdout=console,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        console.close()
        wait_for(self._find_leader, BOOT_SECONDS, f"{self.name} to boot", self.console)
        wait_for(self._is_up, BOOT_SECONDS, f"{self.name} to finish booting", self.console)

    def console(self) -> str:
        """What the container printed."""
        return (self.directory / "console").read_text(encoding="utf-8", errors="replace")[-3000:]

    def shut_down(self) -> None:
        """An orderly power off."""
        assert self.process is not None
        os.kill(self.leader, signal.SIGRTMIN + 4)  # systemd(1): the signal that powers off
        self._wait_for_end()

    def pull_the_plug(self) -> None:
        """Every process of the container dies at once, as in a power cut."""
        assert self.process is not None
        os.kill(self.leader, signal.SIGKILL)
        self._wait_for_end()

    def _wait_for_end(self) -> None:
        assert self.process is not None
        try:
            self.process.wait(300)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise
        finally:
            self.process, self.leader = None, 0
            for group in self.groups:
                remove_group(group)

    def close(self) -> None:
        """Leave nothing behind."""
        with contextlib.suppress(ProcessLookupError, subprocess.TimeoutExpired):
            if self.process is not None:
                self.pull_the_plug()
        subprocess.run(["umount", str(self.root)], check=False)
        shutil.rmtree(self.directory, ignore_errors=True)

    def run(self, *words: str, unit: str | None = None, timeout_seconds: float = 900.0) -> Ran:
        """Run a command under the container's systemd; fail unless the container itself says that it ended."""
        result = subprocess.run(
            self._client(words, unit), stdin=subprocess.DEVNULL, capture_output=True, text=True,
            timeout=timeout_seconds, check=False,
        )  # fmt: skip
        return self._believed(words, result.stdout, result.stderr)

    def inside(self, script: str, timeout_seconds: float = 600.0) -> str:
        """What a shell script prints inside, without a unit of its own; it must succeed."""
        words = ["nsenter", f"--target={self.leader}", "--all", "--wd=/", "/bin/sh", "-c", script]
        done = subprocess.run(
            words, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=timeout_seconds
        )
        assert done.returncode == 0, (script, done.stdout, done.stderr)
        return done.stdout

    @contextlib.contextmanager
    def running(self, *words: str, unit: str) -> Iterator[Callable[[], Ran]]:
        """Run a command as this unit; the function waits for its end."""
        process = subprocess.Popen(
            self._client(words, unit), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            text=True,
        )  # fmt: skip

        def end() -> Ran:
            stdout, stderr = process.communicate(timeout=900)
            return self._believed(words, stdout, stderr)

        try:
            yield end
        finally:
            process.kill()
            process.wait()

    def _client(self, words: Sequence[str], unit: str | None) -> list[str]:
        named = [f"--unit={unit}"] if unit else []
        # In a file: when systemd reloads while a transient unit starts, it reads that unit's quotes back wrongly.
        script = f"/opt/inside/{uuid.uuid4().hex}"
        self.write(script, f"{shlex.join(words)}\n{_SAY}\n")
        return [
            "nsenter", f"--target={self.leader}", "--all", "--wd=/",
            "systemd-run", "--quiet", "--pipe", "--wait", "--collect", "--service-type=exec", *named,
            "--setenv=PATH=/usr/local/bin:/usr/bin:/usr/sbin:/bin", "--setenv=HOME=/root",
            "/bin/sh", script,
        ]  # fmt: skip

    def _believed(self, words: Sequence[str], stdout: str, stderr: str) -> Ran:
        said = _TOKEN.search(stdout)
        assert said is not None, f"no word from inside for {words}:\n{stdout}\n{stderr}\n{self.console()}"
        return Ran(int(said.group(2)), stdout[: said.start()].rstrip("\n") + "\n", stderr)

    def llmops(self, *words: str, **keywords: Any) -> Ran:
        """Run llmops as root inside."""
        return self.run("llmops", *words, "--output", "json", **keywords)

    def show(self, unit: str, name: str) -> str:
        """One property of a unit."""
        return self.run("systemctl", "show", unit, f"--property={name}", "--value").stdout.strip()

    def command_line(self, unit: str = "llama-server.service") -> list[str]:
        """The words with which the unit's main process really runs."""
        answer = self.run("cat", f"/proc/{self.show(unit, 'MainPID')}/cmdline")
        assert answer.exit_code == 0, answer
        return answer.stdout.strip("\n").strip("\0").split("\0")

    def ask(self, path: str) -> Any:
        """The JSON that the engine answers, asked from inside."""
        script = "import sys,urllib.request as u; print(u.urlopen(sys.argv[1],timeout=60).read().decode())"
        answer = self.run("python3", "-c", script, f"http://127.0.0.1:8080{path}")
        return json.loads(answer.stdout) if answer.exit_code == 0 else None

    def wait_until_serving(self) -> Any:
        """/props of the engine, once it answers."""
        wait_for(lambda: self.ask("/health") is not None, SERVING_SECONDS, "the engine to serve", self.log)
        return self.ask("/props")

    def log(self, unit: str = "llama-server.service") -> str:
        """The unit's journal."""
        return self.run("journalctl", "--unit", unit, "--no-pager", "--lines=60").stdout

    def _find_leader(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, f"the container ended:\n{self.console()}"
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit() and _is_leader(entry, self.process.pid):
                self.leader = int(entry.name)
                return True
        return False

    def _is_up(self) -> bool:
        said = subprocess.run(
            ["nsenter", f"--target={self.leader}", "--all", "--wd=/", "timeout", "30",
             "systemctl", "is-system-running"],
            capture_output=True, text=True, check=False,
        ).stdout  # fmt: skip
        return said.strip() in {"running", "degraded"}


def _is_leader(entry: Path, nspawn: int) -> bool:
    try:
        status = dict(line.partition(":\t")[::2] for line in (entry / "status").read_text().splitlines())
        return (
            status.get("NSpid", "").split()[-1:] == ["1"]
            and int(status["PPid"]) == nspawn
            and ((entry / "comm").read_text().strip() == "systemd")
        )
    except (OSError, ValueError, KeyError):
        return False


def wait_for(condition: Callable[[], bool], seconds: float, what: str, explain: Callable[[], str]) -> None:
    """Return once the condition holds."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"waited {seconds:.0f} s for {what}:\n{explain()}"
        time.sleep(0.1)


def own_groups(name: str) -> list[Path]:
    """A control group of its own in every hierarchy that the container's systemd uses, so that it owns only itself.

    Under a systemd outside, that gives the container its group; elsewhere nobody would.
    """
    if Path("/run/systemd/system").is_dir():
        return []
    tree = Path("/sys/fs/cgroup")
    parents = [tree] if (tree / "cgroup.procs").exists() else [tree / "systemd", tree / "unified", tree / "memory"]
    made = []
    for parent in parents:
        if (parent / "cgroup.procs").exists():
            group = parent / name
            group.mkdir(exist_ok=True)
            made.append(group)
    return made


def remove_group(group: Path) -> None:
    """Remove a control group and those that systemd made inside it, once their processes are gone."""
    deadline = time.monotonic() + 60
    while group.exists():
        for directory, _, _ in os.walk(group, topdown=False):
            with contextlib.suppress(OSError):
                Path(directory).rmdir()
        if time.monotonic() > deadline:
            return
        time.sleep(0.05)


def new_name() -> str:
    """A name that no other machine has."""
    return f"llmops-{uuid.uuid4().hex[:8]}"
