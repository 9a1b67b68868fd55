"""Real systemd for the tests: what it needs, and one machine for each test."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from tests.systemd.machine import MODEL_DIRECTORY, PROGRAM, Machine, new_name
from tests.systemd.root import CACHE, REPOSITORY, base_root, wheel_layer

NewMachine = Callable[..., Machine]
UNIT = "llama-server.service"
UNIT_PATH = f"/etc/systemd/system/{UNIT}"


def absent(what: str) -> None:
    """Skip where a person runs the tests by hand; fail where every layer must run."""
    message = f"{what}: `make test` says how to get it"
    if os.environ.get("LLMOPS_REQUIRE_LAYERS"):
        pytest.fail(message)
    pytest.skip(message)


@pytest.fixture(scope="session")
def tools() -> None:
    """Root, and the programs that make and boot a container."""
    if os.geteuid() != 0:
        absent("booting systemd in a container needs root")
    for program in ("systemd-nspawn", "debootstrap", "nsenter"):
        if shutil.which(program) is None:
            absent(f"{program} is not installed")


@pytest.fixture(scope="session")
def engine(tools: None) -> Path:
    """The directory of the real llama-server."""
    named = os.environ.get("LLMOPS_TEST_LLAMA_SERVER")
    program = Path(named) if named else REPOSITORY / ".cache/llama.cpp/bin/llama-server"
    if not program.is_file():
        absent("the llama-server binary is not built")
    return program.resolve().parent


@pytest.fixture(scope="session")
def model(tools: None) -> Path:
    """The small real model."""
    named = os.environ.get("LLMOPS_TEST_MODEL")
    candidates = [Path(named)] if named else sorted((REPOSITORY / ".cache/models").glob("*.gguf"))
    found = [candidate for candidate in candidates if candidate.is_file()]
    if not found:
        absent("the test model is not here")
    return found[0].resolve()


@pytest.fixture(scope="session")
def layers(tools: None) -> Iterator[Sequence[Path]]:
    """This checkout's wheel over the cached Debian."""
    base = base_root()
    with tempfile.TemporaryDirectory(dir=CACHE, prefix="session-") as directory:
        yield (wheel_layer(base, Path(directory)), base)


@pytest.fixture
def new_machine(layers: Sequence[Path], engine: Path, model: Path) -> Iterator[NewMachine]:
    """`new_machine({path: text})` boots a machine with these files on its disk."""
    made: list[Machine] = []

    def make(files: dict[str, str] | None = None, modes: dict[str, int] | None = None) -> Machine:
        name = new_name()
        machine = Machine(name, CACHE / name, layers, engine, model.parent, f"{MODEL_DIRECTORY}/{model.name}")
        made.append(machine)
        machine.make_disk()
        for path, text in {**PATIENT, **(files or {})}.items():
            machine.write(path, text.replace("@MODEL@", machine.model), (modes or {}).get(path, 0o644))
        machine.boot()
        return machine

    yield make
    for machine in made:
        machine.close()


# Threads that wait must not spin: on a machine that is busy with something else, they would keep each other from work.
PATIENT = {f"{UNIT_PATH}.d/05-patient.conf": "[Service]\nEnvironment=OMP_WAIT_POLICY=passive\n"}


def unit_text(arguments: str = "-np 1 -c 4096", program: str = PROGRAM) -> str:
    """A unit as a person writes it: one slot, too little context."""
    return (
        "[Unit]\nDescription=llama.cpp\nAfter=network.target\n\n"
        f"[Service]\nExecStart={program} --model @MODEL@ --host 127.0.0.1 --port 8080 {arguments}\n"
        "Restart=on-failure\nRestartSec=1\n\n[Install]\nWantedBy=multi-user.target\n"
    )


@pytest.fixture
def served(new_machine: NewMachine) -> Callable[..., Machine]:
    """`served({path: text})` boots a machine whose llama-server already serves from a unit of its own."""

    def make(files: dict[str, str] | None = None, modes: dict[str, int] | None = None) -> Machine:
        machine = new_machine({UNIT_PATH: unit_text(), **(files or {})}, modes)
        assert machine.run("systemctl", "enable", "--now", UNIT).exit_code == 0
        machine.wait_until_serving()
        return machine

    return make
