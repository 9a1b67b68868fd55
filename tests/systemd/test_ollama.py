"""The main job for Ollama on real systemd: its official unit, the stand-in as its program, a real engine below."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from tests.systemd.machine import MODEL_DIRECTORY, SERVING_SECONDS, Machine, Ran, new_name, wait_for
from tests.systemd.observe import configuration, times_of
from tests.systemd.ollama_machine import (
    DROP_IN,
    LIBRARY,
    NEW,
    OLD,
    UNIT,
    UNIT_PATH,
    environment_of,
    loaded_with,
    ollama_layer,
    serving,
)
from tests.systemd.root import CACHE

pytestmark = [pytest.mark.systemd, pytest.mark.timeout(1800)]

NewOllama = Callable[..., Machine]
WANTED = ("--users", "4", "--slots", "2")
OVERRIDE = f"{UNIT_PATH}.d/override.conf"
CONTRADICTION = "[Service]\nEnvironment=OLLAMA_NUM_PARALLEL=6 OLLAMA_CONTEXT_LENGTH=2048\nEnvironment=OLLAMA_DEBUG=0\n"
# Threads that wait must not spin on a machine that is busy with something else.
PATIENT = f"{UNIT_PATH}.d/05-patient.conf"
# Where it is set, what the commands print is kept there: docs/how-to/ollama.md shows it.
TRANSCRIPTS = os.environ.get("LLMOPS_TEST_TRANSCRIPTS", "")


@pytest.fixture(scope="module")
def ollama_layers(layers: Sequence[Path], model: Path) -> Iterator[Sequence[Path]]:
    """The disk of every test machine with Ollama over it."""
    with tempfile.TemporaryDirectory(dir=CACHE, prefix="ollama-") as directory:
        yield (ollama_layer(layers[-1], model, Path(directory)), *layers)


@pytest.fixture
def new_ollama(ollama_layers: Sequence[Path], engine: Path, model: Path) -> Iterator[NewOllama]:
    """`new_ollama(version, {path: text})` boots a machine whose Ollama already serves."""
    made: list[Machine] = []

    def make(version: str = NEW, files: dict[str, str] | None = None) -> Machine:
        name = new_name()
        path = f"{MODEL_DIRECTORY}/{model.name}"
        machine = Machine(name, CACHE / name, ollama_layers, engine, model.parent, path, LIBRARY)
        made.append(machine)
        machine.make_disk()
        own = f"[Service]\nEnvironment=OMP_WAIT_POLICY=passive OLLAMA_STAND_IN_VERSION={version}\n"
        for inside, text in {PATIENT: own, **(files or {})}.items():
            machine.write(inside, text)
        machine.boot()
        assert machine.run("systemctl", "enable", "--now", UNIT).exit_code == 0
        wait_until_serving(machine)
        return machine

    yield make
    for machine in made:
        machine.close()


def wait_until_serving(machine: Machine) -> None:
    wait_for(lambda: serving(machine), SERVING_SECONDS, "Ollama to serve", lambda: machine.log(UNIT))


def start(machine: Machine) -> str:
    return machine.show(UNIT, "InvocationID")


def keep(directory: str, name: str, machine: Machine, *words: str) -> None:
    """Write down what a person sees."""
    answer = machine.run("env", "COLUMNS=120", "llmops", *words)
    text = f"$ sudo llmops {' '.join(words)}\n{answer.stdout}{answer.stderr}(exit code {answer.exit_code})\n"
    (Path(directory) / f"{name}.txt").write_text(text, encoding="utf-8")


def assert_in_force(machine: Machine, applied: Ran, version: str) -> None:
    """What was planned is what the process has and what its model was loaded with."""
    plan = applied.envelope["data"]["plan"]
    assert (plan["slots"], applied.envelope["data"]["installation"]["version"]) == (2, version)
    variables = environment_of(machine)
    assert variables["OLLAMA_NUM_PARALLEL"] == "2"
    assert loaded_with(machine, version) == (2, 2 * int(variables["OLLAMA_CONTEXT_LENGTH"]))
    assert ("LLAMA_ARG_CACHE_RAM" in variables) == (version == NEW), "its own runner knows no such variable"
    assert not [check for check in applied.envelope["data"]["checks"] if check["status"] == "fail"]
    assert machine.show(UNIT, "NeedDaemonReload") == "no"
    assert DROP_IN in machine.show(UNIT, "DropInPaths")


@pytest.mark.parametrize("version", [NEW, OLD])
def test_applied_then_left_alone_then_rebooted_then_taken_back(new_ollama: NewOllama, version: str) -> None:
    machine = new_ollama(version)
    before = configuration(machine)
    assert loaded_with(machine, version)[0] == 1

    applied = machine.llmops("tune", "--apply", *WANTED)
    assert (applied.exit_code, applied.envelope["status"]) == (0, "changed"), applied
    assert_in_force(machine, applied, version)
    changed = {path for path, what in configuration(machine).items() if before.get(path) != what}
    assert {path for path in changed if "ollama" in path} == {DROP_IN}

    times, running = times_of(machine), start(machine)
    again = machine.llmops("tune", "--apply", *WANTED)
    assert (again.exit_code, again.envelope["status"]) == (0, "ok"), again
    assert times_of(machine) == times
    assert start(machine) == running

    after = configuration(machine)
    machine.shut_down()
    machine.boot()
    wait_until_serving(machine)
    assert configuration(machine) == after
    assert loaded_with(machine, version)[0] == 2

    back = machine.llmops("rollback")
    assert (back.exit_code, back.envelope["status"]) == (0, "changed"), back
    assert configuration(machine) == before
    wait_until_serving(machine)
    assert loaded_with(machine, version)[0] == 1


def test_a_drop_in_that_contradicts_stops_the_apply_unless_it_may_take_over(new_ollama: NewOllama) -> None:
    machine = new_ollama(files={OVERRIDE: CONTRADICTION})
    before, running = configuration(machine), start(machine)
    refused = machine.llmops("tune", "--apply", *WANTED)
    assert refused.exit_code == 3, refused
    (error,) = refused.envelope["errors"]
    assert error["code"] == "conflicting_setting"
    assert OVERRIDE in error["message"]
    assert "OLLAMA_NUM_PARALLEL" in error["message"]
    assert configuration(machine) == before
    assert start(machine) == running

    taken = machine.llmops("tune", "--apply", "--take-over", *WANTED)
    assert taken.exit_code == 0, taken
    assert_in_force(machine, taken, NEW)
    assert configuration(machine)[OVERRIDE] == before[OVERRIDE]
    assert environment_of(machine)["OLLAMA_DEBUG"] == "0"
    running = start(machine)
    again = machine.llmops("tune", "--apply", "--take-over", *WANTED)
    assert (again.exit_code, again.envelope["status"]) == (0, "ok"), again
    assert start(machine) == running


if TRANSCRIPTS:

    def test_transcripts_of_what_a_person_sees(new_ollama: NewOllama) -> None:
        machine = new_ollama()
        keep(TRANSCRIPTS, "1-fresh", machine, "tune", "--apply", *WANTED)
        keep(TRANSCRIPTS, "2-second", machine, "tune", "--apply", *WANTED)
        keep(TRANSCRIPTS, "3-rollback", machine, "rollback")
        machine.write(OVERRIDE, CONTRADICTION)
        machine.run("systemctl", "daemon-reload")
        machine.run("systemctl", "restart", UNIT)
        wait_until_serving(machine)
        keep(TRANSCRIPTS, "4-contradicted", machine, "tune", "--apply", *WANTED)
        keep(TRANSCRIPTS, "5-taken-over", machine, "tune", "--apply", "--take-over", *WANTED)
        keep(TRANSCRIPTS, "6-rollback", machine, "rollback")
