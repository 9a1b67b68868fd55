"""What is struck: for each engine a machine on which it serves, and the commands that change it. One line for each."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from tests.systemd import ollama_machine
from tests.systemd.haproxy import install_haproxy
from tests.systemd.machine import ENGINE_DIRECTORY, Machine

INSIDE = Path(__file__).parent / "inside"
DRIVER = "/opt/faults/driver.py"
INSTANT = "/opt/instant/llama-server"
REAL = "/opt/llama.cpp/llama-server"
FASTER = ("--bandwidth", "20GB/s")  # given, so that no run has to measure it
UNIT = "llama-server.service"


@dataclass(frozen=True)
class Engine:
    """An engine that serves from a unit of its own; `files` and `modes` are on the disk before the first boot.

    `layer` makes a layer of the disk that holds it, `install` adds to the disk, `programs` is where the real
    llama-server lies inside. Three shell commands: `settings` prints with what $pid runs, one setting in a line;
    `settled` succeeds once nothing is between two states; `restart` is what a return to the beginning needs besides
    the unit. `plan` names the published plan, `plan_numbers` the part of it and the numbers there.
    """

    name: str
    unit: str
    files: dict[str, str]
    modes: dict[str, int] = field(default_factory=dict)
    url: str = "http://127.0.0.1:8080/health"
    layer: Callable[[Path, Path, Path], Path] | None = None
    programs: str = ENGINE_DIRECTORY
    settings: str = "tr '\\0' '\\n' < /proc/$pid/cmdline"
    install: Callable[[Machine], None] | None = None
    settled: str = "true"
    restart: str = "true"
    plan: str = "llama-server"
    plan_numbers: tuple[str, ...] = ("plan", "slots", "context_tokens_per_slot")


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

FIRST = Subject("llama-server, first apply", INSTANT_SERVER, tune(2))
NEXT = Subject("llama-server, next apply", INSTANT_SERVER, tune(3), before=(tune(2),))
BACK = Subject("llama-server, rollback", INSTANT_SERVER, ("rollback",), before=(tune(2),))
REAL_FIRST = Subject("first apply, real llama-server", REAL_SERVER, tune(2))
OLLAMA = Engine(
    "ollama",
    ollama_machine.UNIT,
    {f"{ollama_machine.UNIT_PATH}.d/05-patient.conf": "[Service]\nEnvironment=OMP_WAIT_POLICY=passive\n"},
    url=f"http://127.0.0.1:{ollama_machine.PORT}/api/version",
    layer=ollama_machine.ollama_layer,
    programs=ollama_machine.LIBRARY,
    settings="tr '\\0' '\\n' < /proc/$pid/environ | grep -E '^(OLLAMA|LLAMA)_' | sort; true",
    plan="ollama",
)
OLLAMA_FIRST = Subject("first apply, Ollama stand-in over a real llama-server", OLLAMA, tune(2))
IN_PHASES = (REAL_FIRST, OLLAMA_FIRST)

FRONT_UNIT = "llmops-front.service"
LISTEN = "127.0.0.1:8000"
# The limits that the HAProxy which really answers says of itself; nothing where none answers.
_WORD = f"""
import json, urllib.request
with urllib.request.urlopen("http://{LISTEN}/llmops/front", timeout=30) as answer:
    word = json.load(answer)
limits = [word[name] for name in ("slots", "queue", "patience_seconds")]
print(json.dumps(limits + [engine["address"] for engine in word["engines"]]))
"""
# HAProxy hands over to a new process a moment after systemd has told it to: until then its first process works or has
# the signal before it, or there are two that serve.
_AT_REST = """
import glob, sys, time

def at_rest():
    found = []
    for path in glob.glob("/proc/[0-9]*/status"):
        try:
            with open(path) as status:
                found.append(dict(line.rstrip().split(":\\t", 1) for line in status if ":\\t" in line))
        except OSError:
            continue
    ours = [row for row in found if row["Name"] == "haproxy"]
    signals = [int(row[name], 16) for row in ours for name in ("SigPnd", "ShdPnd")]
    return len(ours) in (0, 2) and not any(signals) and all(row["State"].startswith("S") for row in ours)

for _ in range(4):
    if not at_rest():
        sys.exit(1)
    time.sleep(0.1)
"""
_SETTLED = f"""
state=$(systemctl show {FRONT_UNIT} --property=ActiveState --value)
case $state in active|inactive|failed) ;; *) exit 1 ;; esac
/usr/bin/python3 -SE -c {shlex.quote(_AT_REST)}
test $state != active || /usr/bin/python3 -SE -c {shlex.quote(_WORD)}
"""
_RESTART = f"""
if test -e /etc/systemd/system/{FRONT_UNIT}; then systemctl restart {FRONT_UNIT}
else systemctl stop {FRONT_UNIT} 2>/dev/null || true; fi
"""
FRONT = Engine(
    "haproxy",
    UNIT,
    INSTANT_SERVER.files,
    INSTANT_SERVER.modes,
    settings=f"/usr/bin/python3 -SE -c {shlex.quote(_WORD)} 2>/dev/null || true",
    install=install_haproxy,
    settled=_SETTLED,
    restart=_RESTART,
    plan="haproxy",
    plan_numbers=("front", "queue_requests"),
)


def front(queue: int) -> tuple[str, ...]:
    """The front before the engine as its unit starts it: one slot of 4,096 tokens."""
    wanted = ("--users", "1", "--slots", "1", "--context", "4096", "--queue", str(queue))
    return ("apply", "--front", "haproxy", "--listen", LISTEN, *wanted, *FASTER)


FRONT_FIRST = Subject("front, first apply", FRONT, front(3))
FRONT_NEXT = Subject("front, next apply", FRONT, front(7), before=(front(3),))
FRONT_BACK = Subject("front, rollback", FRONT, ("rollback",), before=(front(3),))
MATRIX = (FIRST, NEXT, BACK, FRONT_FIRST, FRONT_NEXT, FRONT_BACK)
