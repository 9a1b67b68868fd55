"""A machine whose Ollama was installed as its installer does it: user, program, official unit, models in its store."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Sequence
from pathlib import Path

from tests.doubles.ollama.stand_in.store import register
from tests.systemd.machine import Machine
from tests.systemd.root import REPOSITORY

UNIT = "ollama.service"
UNIT_PATH = f"/etc/systemd/system/{UNIT}"
DROP_IN = f"{UNIT_PATH}.d/zz-llmops.conf"
PORT = 11434
MODEL = "gemma3"
STAND_IN = REPOSITORY / "tests" / "doubles" / "ollama"
LIBRARY = "/usr/local/lib/ollama"  # where the installer puts llama-server
HOME = "usr/share/ollama"
USER_ID = 990
# The schedulers: llama-server for each model, and Ollama's own runner, whose log alone says how it was started.
NEW, OLD = "0.32.15", "0.24.0"
_LOADED = re.compile(r"msg=load request=.*?Parallel:(\d+).*?KvSize:(\d+)")
_USER = f"ollama:x:{USER_ID}:{USER_ID}::/{HOME}:/bin/false\n"
_GROUP = f"ollama:x:{USER_ID}:\n"


def ollama_layer(base: Path, model: Path, directory: Path) -> Path:
    """A layer for the disk: the stand-in as /usr/local/bin/ollama, its unit, its user and one model."""
    layer = directory / "ollama-layer"
    program = layer / "usr/local/lib/ollama-stand-in"
    shutil.copytree(STAND_IN, program, ignore=shutil.ignore_patterns("__pycache__", "conformance"))
    command = layer / "usr/local/bin/ollama"
    command.parent.mkdir(parents=True)
    command.symlink_to(f"/{program.relative_to(layer)}/ollama")
    unit = layer / UNIT_PATH.lstrip("/")
    unit.parent.mkdir(parents=True)
    shutil.copyfile(STAND_IN / UNIT, unit)
    for name, line in (("passwd", _USER), ("group", _GROUP)):
        known = (base / "etc" / name).read_text(encoding="utf-8")
        (layer / "etc" / name).write_text(known + line, encoding="utf-8")
    register(layer / HOME / ".ollama/models", MODEL, model)
    for parent in (layer / HOME, layer / HOME / ".ollama", layer / HOME / ".ollama/models"):
        os.chown(parent, USER_ID, USER_ID)
    return layer


def serving(machine: Machine) -> bool:
    """Whether Ollama answers."""
    address = f"http://127.0.0.1:{PORT}/api/version"
    script = "import sys,urllib.request as u; u.urlopen(sys.argv[1],timeout=60)"
    return machine.run("python3", "-c", script, address).exit_code == 0


def load(machine: Machine) -> None:
    """Load the model, where it is not loaded."""
    request = f'{{"model":"{MODEL}","stream":false}}'
    script = f"import urllib.request as u; u.urlopen('http://127.0.0.1:{PORT}/api/generate',data={request!r}.encode())"
    assert machine.run("python3", "-c", script).exit_code == 0


def loaded_with(machine: Machine, version: str) -> tuple[int, int]:
    """Slots and all their tokens together with which the model was really loaded."""
    if version == NEW:
        words = child_words(machine)
        return value_of(words, "-np"), value_of(words, "-c")
    load(machine)
    said = _LOADED.findall(machine.run("journalctl", "--unit", UNIT, "--no-pager", "--output=cat").stdout)
    return int(said[-1][0]), int(said[-1][1])


def child_words(machine: Machine) -> list[str]:
    """The command line of the llama-server below Ollama, by /proc; a model that is not loaded is loaded first."""
    load(machine)
    parent = machine.show(UNIT, "MainPID")
    child = machine.run("pgrep", "--parent", parent, "--full", "llama-server")
    assert child.exit_code == 0, child
    numbers = child.stdout.split()
    assert len(numbers) == 1, numbers
    return machine.run("cat", f"/proc/{numbers[0]}/cmdline").stdout.strip("\n").strip("\0").split("\0")


def value_of(words: Sequence[str], flag: str) -> int:
    """The number after a flag."""
    return int(words[words.index(flag) + 1])


def environment_of(machine: Machine) -> dict[str, str]:
    """The variables with which Ollama really runs."""
    text = machine.run("cat", f"/proc/{machine.show(UNIT, 'MainPID')}/environ").stdout
    return dict(pair.partition("=")[::2] for pair in text.strip("\n").split("\0") if "=" in pair)
