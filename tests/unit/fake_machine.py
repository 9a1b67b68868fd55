"""A machine in memory with a systemd that behaves: files must be read again, starts can fail, runs can be killed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any

from llmops import systemd
from llmops.core.errors import Locked
from llmops.core.hardware import GpuReading
from llmops.host import ChildProcess, Completed, FileStatus, ListeningSocket, ProcessInfo, Response, StreamTimings
from llmops.systemd import UnitFile

UNIT_DIRECTORY = "/etc/systemd/system"


class Killed(BaseException):
    """The process died here: nothing after it runs on this machine until somebody revives it."""


@dataclass(frozen=True)
class FakeFile:
    text: str
    mode: int = 0o644
    uid: int = 0
    gid: int = 0


@dataclass
class FakeLock:
    machine: FakeMachine

    def release(self) -> None:
        self.machine.is_locked = False


class Unused:
    """The questions that nothing under test asks."""

    def read_bytes(self, path: PurePosixPath | str, offset: int, length: int) -> bytes:
        raise AssertionError(path)

    def get(self, url: str, *, timeout_seconds: float = 5.0) -> Response:
        raise AssertionError(url)

    def stream_completion(
        self, url: str, payload: Mapping[str, object], *, timeout_seconds: float = 300.0
    ) -> StreamTimings:
        raise AssertionError(url)

    def post(self, url: str, payload: Mapping[str, object], *, timeout_seconds: float = 300.0) -> Response:
        raise AssertionError(url)

    def gpus(self) -> GpuReading:
        raise AssertionError

    def affinity_cpus(self) -> int | None:
        raise AssertionError

    def processes(self) -> tuple[ProcessInfo, ...]:
        raise AssertionError

    def listening_sockets(self) -> tuple[ListeningSocket, ...]:
        raise AssertionError

    def memory_read_seconds(self, buffer_bytes: int, threads: int, passes: int) -> tuple[float, ...]:
        raise AssertionError

    def environment(self) -> Mapping[str, str]:
        raise AssertionError

    def together(self, jobs: Sequence[Callable[[], StreamTimings]]) -> tuple[StreamTimings, ...]:
        raise AssertionError

    def spawn(self, argv: Sequence[str], environment: Mapping[str, str]) -> ChildProcess:
        raise AssertionError(argv)


@dataclass
class FakeMachine(Unused):
    """A MutableHost.

    `comes_up` decides whether a unit with these words starts. `stop_at` counts changes (writes, removals, commands):
    at that one `failure` is raised, after the change when `after` is set; Killed also ends all later ones.
    `booting` are the units that a boot starts; `said` is what `id`, `getent` and `ls` print, by their words,
    `modes` those of directories that are not 0755.
    """

    files: dict[str, FakeFile] = field(default_factory=dict)
    directories: set[str] = field(
        default_factory=lambda: {"/", "/etc", UNIT_DIRECTORY, "/etc/systemd", "/run/systemd/system"}
    )
    comes_up: Callable[[tuple[str, ...]], bool] = lambda _words: True
    uid: int = 0
    programs: set[str] = field(default_factory=lambda: {"systemctl", "journalctl"})
    booting: set[str] = field(default_factory=set)
    stop_at: int | None = None
    failure: BaseException | None = None
    after: bool = False
    is_locked: bool = False
    changes_made: int = 0
    seconds: float = 1000.0
    journal: dict[str, list[str]] = field(default_factory=dict)
    loaded: dict[str, tuple[UnitFile, ...]] = field(default_factory=dict)
    running: dict[str, tuple[str, ...]] = field(default_factory=dict)
    failed: set[str] = field(default_factory=set)
    invocations: dict[str, int] = field(default_factory=dict)
    enabled: set[str] = field(default_factory=set)
    log: list[str] = field(default_factory=list)
    said: dict[str, str] = field(default_factory=dict)
    modes: dict[str, int] = field(default_factory=dict)
    dead: bool = False

    # reading

    def read_text(self, path: PurePosixPath | str) -> str:
        if str(path) not in self.files:
            raise FileNotFoundError(str(path))
        return self.files[str(path)].text

    def status(self, path: PurePosixPath | str) -> FileStatus:
        name = str(path)
        if name in self.files:
            file = self.files[name]
            return FileStatus("file", len(file.text), file.mode, file.uid, file.gid, 0.0, 1, 1)
        if name in self.directories or any(other.startswith(f"{name}/") for other in self.files):
            return FileStatus("directory", 0, self.modes.get(name, 0o755), 0, 0, 0.0, 1, 1)
        raise FileNotFoundError(name)

    def list_directory(self, path: PurePosixPath | str) -> tuple[str, ...]:
        prefix = f"{path}/"
        names = {name[len(prefix) :].split("/")[0] for name in self.files if name.startswith(prefix)}
        if not names and str(path) not in self.directories:
            raise FileNotFoundError(str(path))
        return tuple(sorted(names))

    def resolve(self, path: PurePosixPath | str) -> str:
        return str(path)

    def which(self, program: str) -> str | None:
        return f"/usr/bin/{program}" if program in self.programs else None

    def effective_uid(self) -> int:
        return self.uid

    def now(self) -> float:
        return self.seconds

    def monotonic(self) -> float:
        return self.seconds

    def sleep(self, seconds: float) -> None:
        self.seconds += seconds

    def query(self, argv: Sequence[str], *, timeout_seconds: float = 20.0) -> Completed:
        words = tuple(argv)
        if words[:2] == ("systemctl", "show"):
            names = [word.partition("=")[2] for word in words if word.startswith("--property=")]
            shown = self._properties(words[2])
            return Completed(words, 0, "".join(f"{name}={shown[name]}\n" for name in names), "")
        if words[0] == "journalctl":
            return Completed(words, 0, "\n".join(self.journal.get(words[2], [])), "")
        if words[0] in {"id", "getent", "ls"}:
            said = self.said.get(" ".join(words), "")
            return Completed(words, 0 if said else 1, said, "")
        raise AssertionError(f"a question that nobody expected: {words}")

    # changing

    def write_text(
        self, path: PurePosixPath | str, text: str, *, mode: int, uid: int | None = None, gid: int | None = None
    ) -> None:
        with _Step(self, f"write {path}"):
            for parent in PurePosixPath(path).parents:
                self.directories.add(str(parent))
            self.files[str(path)] = FakeFile(text, mode, uid or 0, gid or 0)

    def remove(self, path: PurePosixPath | str) -> None:
        if str(path) in self.files:
            with _Step(self, f"remove {path}"):
                del self.files[str(path)]

    def remove_directory_if_empty(self, path: PurePosixPath | str) -> None:
        if str(path) in self.directories and not any(name.startswith(f"{path}/") for name in self.files):
            with _Step(self, f"rmdir {path}"):
                self.directories.discard(str(path))

    def execute(self, argv: Sequence[str], *, timeout_seconds: float = 120.0) -> Completed:
        words = tuple(argv)
        with _Step(self, " ".join(words)):
            code = self._systemctl(words)
        return Completed(words, code, "", "" if code == 0 else "it failed")

    def lock(self, path: PurePosixPath | str) -> FakeLock:
        if self.is_locked:
            raise Locked("another llmops works")
        self.is_locked = True
        return FakeLock(self)

    # systemd

    def _properties(self, unit: str) -> Mapping[str, str]:
        files = self.loaded.get(unit, ())
        active = "active" if unit in self.running else ("failed" if unit in self.failed else "inactive")
        stale = bool(files) and files != self._disk(unit)
        return {
            "LoadState": "loaded" if files else "not-found",
            "ActiveState": active,
            "SubState": "running" if active == "active" else ("auto-restart" if active == "failed" else "dead"),
            "UnitFileState": "enabled" if unit in self.enabled else ("disabled" if files else ""),
            "InvocationID": str(self.invocations.get(unit, 0)),
            "NRestarts": "0",
            "MainPID": "100" if active == "active" else "0",
            "NeedDaemonReload": "yes" if stale else "no",
            "Result": "success" if active == "active" else "exit-code",
            "ExecMainStatus": "1" if active == "failed" else "0",
            "FragmentPath": files[0].path if files else "",
            "DropInPaths": " ".join(file.path for file in files[1:]),
        }

    def _disk(self, unit: str) -> tuple[UnitFile, ...]:
        fragment = f"{UNIT_DIRECTORY}/{unit}"
        if fragment not in self.files:
            return ()
        prefix = f"{fragment}.d/"
        drop_ins = sorted(name for name in self.files if name.startswith(prefix) and name.endswith(".conf"))
        return tuple(UnitFile(path, self.files[path].text) for path in [fragment, *drop_ins])

    def _systemctl(self, words: tuple[str, ...]) -> int:
        verb, unit = words[1], words[-1]
        if verb == "daemon-reload":
            self.reload()
        elif verb == "restart" or (verb == "reload-or-restart" and unit not in self.running):
            return self.start(unit)
        elif verb == "stop":
            self.running.pop(unit, None)
            self.failed.discard(unit)
        elif verb == "enable":
            if f"{UNIT_DIRECTORY}/{unit}" not in self.files:
                return 1
            self.enabled.add(unit)
        elif words[1:3] == ("start", "--no-block"):
            self.booting.add(unit)
        elif verb == "disable":
            self.enabled.discard(unit)
        elif verb not in {"reset-failed", "reload-or-restart"}:
            raise AssertionError(f"a command that nobody expected: {words}")
        return 0

    def reload(self) -> None:
        names = {PurePosixPath(name).name for name in self.files if name.endswith(".service")}
        self.loaded = {name: self._disk(name) for name in names}

    def start(self, unit: str) -> int:
        self.running.pop(unit, None)
        self.failed.discard(unit)
        if not self.loaded.get(unit):
            return 5
        words = self.words_on_disk(unit, self.loaded[unit])
        self.invocations[unit] = self.invocations.get(unit, 0) + 1
        if self.comes_up(words):
            self.running[unit] = words
        else:
            self.failed.add(unit)
            self.journal[unit] = ["error: invalid argument: --new"]
        return 0

    def words_on_disk(self, unit: str, files: tuple[UnitFile, ...] | None = None) -> tuple[str, ...]:
        said = systemd.values(files or self._disk(unit), "Service", "ExecStart")
        return systemd.command(said[-1][1], unit).words if said else ()

    # for tests

    def revive(self) -> None:
        """A new process on the same disk; the old one's lock is gone with it."""
        self.dead, self.stop_at, self.failure, self.is_locked = False, None, None, False

    def boot(self) -> None:
        """Everything that runs is gone, systemd reads the disk, enabled units are not started yet."""
        self.revive()
        self.running, self.failed = {}, set()
        self.booting = set(self.enabled)
        self.reload()

    def world(self) -> tuple[Any, ...]:
        """What counts for a user: configuration files, what starts at boot, what runs with which words."""
        configuration = {name: file for name, file in self.files.items() if name.startswith("/etc/")}
        made = {name for name in self.directories if name.startswith("/etc/")}
        return configuration, made, set(self.enabled), dict(self.running)


class _Step:
    def __init__(self, machine: FakeMachine, what: str) -> None:
        self.machine, self.what = machine, what

    def __enter__(self) -> None:
        if self.machine.dead:
            raise Killed
        self.machine.log.append(self.what)
        if not self.machine.after:
            self._strike()

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            return
        if self.machine.after:
            self._strike()
        self.machine.changes_made += 1

    def _strike(self) -> None:
        machine = self.machine
        if machine.stop_at is None or machine.changes_made != machine.stop_at or machine.failure is None:
            return
        machine.changes_made += 1
        failure, machine.failure = machine.failure, None
        machine.dead = isinstance(failure, Killed)
        raise failure
