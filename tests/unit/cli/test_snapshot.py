"""A recording of a machine answers every read-only command as the machine itself does."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from llmops.cli import hosts
from llmops.core.serialization import encode
from llmops.front import CONFIGURATION_PATH, Address, FrontServer, FrontSpec, configuration_file
from llmops.host import ProcessInfo, Response
from llmops.host.recorded import RecordedHost
from tests.unit.cli.conftest import Run
from tests.unit.cli.machine import PROGRAM, Machine
from tests.unit.fake_machine import FakeFile


@pytest.fixture
def recorded(run: Run, machine: Machine, model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The directory of a recording of the machine with a llama-server on its disk."""
    machine.installed = True
    machine.__post_init__()
    directory = str(tmp_path / "recording")
    assert run("snapshot", directory, "--model", model).exit_code == 0

    def build(snapshot: str | None = None, **_: object) -> object:
        return machine if snapshot is None else RecordedHost.load(Path(snapshot))

    monkeypatch.setattr(hosts, "build_host", build)
    return directory


@pytest.mark.parametrize(
    "words",
    [
        ("probe",),
        ("plan", "--users", "12"),
        ("plan", "--engine-version", "9000"),
        ("size", "--slots", "3"),
        ("render",),
        ("tune", "--bandwidth", "20GB/s"),
        ("tune", "--bandwidth", "20GB/s", "--install-unit"),
        ("history",),
    ],
    ids=" ".join,
)
def test_a_recording_answers_as_the_machine_does(run: Run, recorded: str, model: str, words: tuple[str, ...]) -> None:
    planning = ("--model", model) if words[0] not in {"probe", "history"} else ()
    live = run(*words, *planning, "--output", "json")
    replayed = run(*words, *planning, "--output", "json", "--snapshot", recorded)
    assert replayed.exit_code == live.exit_code == 0, replayed
    assert replayed.envelope == live.envelope


def test_what_was_applied_is_recorded_too(run: Run, recorded: str) -> None:
    for place in ((), ("--snapshot", recorded)):
        ran = run("verify", *place)
        assert ran.exit_code == 2
        assert "has applied no plan" in ran.stderr


def test_a_recording_is_verified_against_a_saved_plan(
    run: Run, machine: Machine, model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """llmops has applied nothing; a server runs that does not answer yet."""
    machine.installed = True
    machine.__post_init__()
    server = ProcessInfo(7, 1, PROGRAM, (PROGRAM, "-m", model, "--port", "8081"), (), 0, None)
    monkeypatch.setattr(machine, "processes", lambda: (server,))

    def get(url: str, *, timeout_seconds: float = 5.0) -> Response:
        raise ConnectionRefusedError(f"{url}: refused")

    monkeypatch.setattr(machine, "get", get)
    directory, plan = str(tmp_path / "recording"), tmp_path / "plan.json"
    plan.write_text(run("plan", "--model", model, "--output", "json").stdout)
    assert run("snapshot", directory, "--model", model).exit_code == 0
    for host in (machine, RecordedHost.load(Path(directory))):
        monkeypatch.setattr(hosts, "build_host", lambda snapshot=None, host=host: host)
        ran = run("verify", "--plan", str(plan), "--snapshot", directory)
        assert (ran.exit_code, "nothing answers at http://127.0.0.1:8081" in ran.stderr) == (11, True), ran


def test_what_is_seen_of_a_front_is_recorded(
    run: Run, machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.installed = True
    machine.__post_init__()
    servers = (FrontServer(Address("127.0.0.1", 8080), 2),)
    spec = FrontSpec("llama-server", servers, Address("192.168.1.5", 8000), 3, 60.0)
    applied = json.dumps({"schema": 1, "data": {"front": encode(spec)}})
    machine.files["/var/lib/llmops/applied-haproxy.json"] = FakeFile(applied)
    machine.files[CONFIGURATION_PATH] = FakeFile(configuration_file(spec).content)

    def get(url: str, *, timeout_seconds: float = 5.0) -> Response:
        raise ConnectionRefusedError(f"{url}: refused")

    monkeypatch.setattr(machine, "get", get)
    directory, said = str(tmp_path / "recording"), []
    assert run("snapshot", directory).exit_code == 0
    for host in (machine, RecordedHost.load(Path(directory))):
        monkeypatch.setattr(hosts, "build_host", lambda snapshot=None, host=host: host)
        ran = run("verify", "--snapshot", directory, "--output", "json")
        assert ran.exit_code == 3, ran
        said.append([(check["name"], check["status"]) for check in ran.envelope["data"]["checks"]])
    assert said[0] == said[1]
    assert ("front_file", "pass") in said[0]


def test_a_damaged_recording_says_what_to_do(run: Run, recorded: str) -> None:
    index = Path(recorded) / "recording.json"
    index.write_text(index.read_text()[:1000])
    ran: Any = run("probe", "--snapshot", recorded)
    assert ran.exit_code == 9
    assert "hint: copy the whole directory again, or record the machine again" in ran.stderr
