"""What is struck: for each engine a machine on which it serves, and the commands that change it. One line for each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from tests.systemd import ollama_machine
from tests.systemd.machine import ENGINE_DIRECTORY

INSIDE = Path(__file__).parent / "inside"
DRIVER = "/opt/faults/driver.py"
INSTANT = "/opt/instant/llama-server"
REAL = "/opt/llama.cpp/llama-server"
FASTER = ("--bandwidth", "20GB/s")  # given, so that no run has to measure it
UNIT = "llama-server.service"


@dataclass(frozen=True)
class Engine:
    """An engine that serves from a unit of its own; `files` and `modes` are on the disk before the first boot.

    `layer` makes a layer of the disk that holds it, `programs` is where the real llama-server lies inside, `settings`
    is the shell command that prints with what $pid runs, one setting in a line.
    """

    name: str
    unit: str
    files: dict[str, str]
    modes: dict[str, int] = field(default_factory=dict)
    url: str = "http://127.0.0.1:8080/health"
    layer: Callable[[Path, Path, Path], Path] | None = None
    programs: str = ENGINE_DIRECTORY
    settings: str = "tr '\\0' '\\n' < /proc/$pid/cmdline"


@dataclass(frozen=True)
class Subject:
    """One command that changes a machine, and those that must have succeeded before it."""

    name: str
    engine: Engine
    command: tuple[str, ...]
    before: tuple[tuple[str, ...], ...] = ()


def unit_text(program: str) -> str:
    """A unit as a person writes it."""
    return (
        f"[Unit]\nDescription=llama.cpp\n\n[Service]\nEnvironment=OMP_WAIT_POLICY=passive\n"
        f"ExecStart={program} --model @MODEL@ --host 127.0.0.1 --port 8080 -np 1 -c 4096\n"
        "Restart=on-failure\nRestartSec=1\nKillMode=mixed\n\n[Install]\nWantedBy=multi-user.target\n"
    )


def tune(slots: int) -> tuple[str, ...]:
    """The main job."""
    return ("tune", "--apply", "--users", "5", "--slots", str(slots), *FASTER)


UNIT_PATH = f"/etc/systemd/system/{UNIT}"
INSTANT_SERVER = Engine(
    "llama-server",
    UNIT,
    {UNIT_PATH: unit_text(INSTANT), INSTANT: (INSIDE / "instant_server.py").read_text(encoding="utf-8")},
    {INSTANT: 0o755},
)
REAL_SERVER = Engine("llama-server", UNIT, {UNIT_PATH: unit_text(REAL)})

FIRST = Subject("first apply", INSTANT_SERVER, tune(2))
NEXT = Subject("next apply", INSTANT_SERVER, tune(3), before=(tune(2),))
BACK = Subject("rollback", INSTANT_SERVER, ("rollback",), before=(tune(2),))
REAL_FIRST = Subject("first apply, real llama-server", REAL_SERVER, tune(2))
OLLAMA = Engine(
    "ollama",
    ollama_machine.UNIT,
    {f"{ollama_machine.UNIT_PATH}.d/05-patient.conf": "[Service]\nEnvironment=OMP_WAIT_POLICY=passive\n"},
    url=f"http://127.0.0.1:{ollama_machine.PORT}/api/version",
    layer=ollama_machine.ollama_layer,
    programs=ollama_machine.LIBRARY,
    settings="tr '\\0' '\\n' < /proc/$pid/environ | grep -E '^(OLLAMA|LLAMA)_' | sort; true",
)
OLLAMA_FIRST = Subject("first apply, Ollama stand-in over a real llama-server", OLLAMA, tune(2))
IN_PHASES = (REAL_FIRST, OLLAMA_FIRST)
MATRIX = (FIRST, NEXT, BACK)
