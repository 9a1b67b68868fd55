"""`--engine auto` on a machine with several engines: what is planned for, what is said of it, what an apply refuses."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import pytest

from llmops.cli import hosts
from llmops.engines.llama_server import programs
from llmops.engines.unit import UNIT_DIRECTORIES
from llmops.host import Completed, ProcessInfo, Response
from tests.unit.cli.conftest import Run
from tests.unit.cli.machine import PROGRAM, Machine, checkpoint, model_file
from tests.unit.fake_machine import UNIT_DIRECTORY, FakeFile

OLLAMA, VLLM = "/usr/local/bin/ollama", "/opt/vllm/bin/vllm"
CARD = ("--gpu", "RTX 4090:24GiB:24GiB:8.9:1008GB/s")
BUSY = ("--users", "200", "--generation-seconds", "10")
_SEARCHES = {"llama-server.service": "llama-server|llmops.embedded", "vllm.service": "vllm"}


@dataclass
class Shared(Machine):
    """All three engines are installed, and `processes_here` run."""

    processes_here: tuple[ProcessInfo, ...] = ()
    units: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.files |= {OLLAMA: FakeFile("", 0o755), VLLM: FakeFile("", 0o755)}
        self.answers[(OLLAMA, "--version")] = Completed((), 0, "ollama version is 0.32.15", "")
        self.files["/opt/vllm/lib/python3.12/site-packages/vllm-0.33.0.dist-info/METADATA"] = FakeFile("")

    def processes(self) -> tuple[ProcessInfo, ...]:
        return self.processes_here

    def get(self, url: str, *, timeout_seconds: float = 5.0) -> Response:
        raise ConnectionRefusedError(url)

    def runs(self, *words: str) -> None:
        """Somebody started this by hand."""
        self.processes_here = (ProcessInfo(7, 1, words[0], words, (), 0, "/"),)

    def unit(self, name: str, command: str) -> None:
        """A unit that does not run."""
        path = f"{UNIT_DIRECTORY}/{name}"
        self.files[path] = FakeFile(f"[Service]\nExecStart={command}\n")
        argv = ("grep", "-RlsE", "--include=*.service", "--include=*.conf", _SEARCHES[name], *UNIT_DIRECTORIES)
        self.answers[argv] = Completed(argv, 0, f"{path}\n", "")
        self.reload()


@pytest.fixture
def shared(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Shared:
    made = Shared(disk=tmp_path, installed=True)
    monkeypatch.setattr(hosts, "build_host", lambda **__: made)
    monkeypatch.setattr(hosts, "build_mutable_host", lambda **__: made)
    monkeypatch.setattr(programs, "EMBEDDED_LIBRARY", "no_such_library_anywhere")
    return made


def test_a_file_goes_to_the_engine_that_reads_it_and_the_plan_says_so(run: Run, shared: Shared, tmp_path: Path) -> None:
    words = ("plan", "--model", str(model_file(tmp_path)))
    data = run(*words, "--output", "json").envelope["data"]
    reason = data["reasons"][0]
    assert (data["plan"]["engine"], reason["quantity"], reason["value"]) == ("llama-server",) * 1 + (
        "engine",
        "llama-server",
    )
    text = " ".join(run(*words).stdout.split())
    assert f"Planned for llama-server ({PROGRAM}), which does not run now." in text
    assert f"vllm ({VLLM}), which does not run now and cannot serve a GGUF file." in text


def test_an_apply_never_sets_up_another_engine_than_the_one_that_runs(run: Run, shared: Shared, tmp_path: Path) -> None:
    shared.runs(OLLAMA, "serve")
    words = ("--model", str(checkpoint(tmp_path)), "--output", "json", *CARD)
    ran = run("tune", *words)
    assert ran.exit_code == 0, ran.stdout
    shown = ran.envelope
    assert shown["data"]["plan"]["engine"] == "vllm"
    assert shown["data"]["apply_refused"]["code"] == "misconfigured"
    assert any("an apply wants it named with --engine" in line for line in shown["data"]["warnings"])
    for command in (("tune", "--apply"), ("apply",), ("apply", "--front", "haproxy", "--listen", "127.0.0.1:9000")):
        ran = run(*command, *words)
        assert ran.exit_code == 7
        (error,) = ran.envelope["errors"]
        assert "ollama (process 7, in no unit of systemd) runs here, and this plan is for vllm" in error["message"]
        assert "--engine vllm" in error["hint"]
    assert shared.log == []
    named = run("tune", "--apply", "--engine", "vllm", *words).envelope["errors"][0]
    assert "runs here" not in named["message"], "it was named: what else is missing is said"


def test_what_runs_is_planned_for_whatever_suits_better(run: Run, shared: Shared, tmp_path: Path) -> None:
    model = str(model_file(tmp_path))
    shared.runs(PROGRAM, "-m", model)
    ran = run("plan", *CARD, *BUSY, "--output", "json")
    assert ran.exit_code == 0, ran.stdout
    data = ran.envelope["data"]
    assert data["plan"]["engine"] == "llama-server"
    assert data["recommendation"]["engine"] == "vllm"
    assert "it is installed here: --engine vllm plans for it" in data["recommendation"]["message"]


@pytest.mark.parametrize(("load", "engine"), [(("--users", "2"), "llama-server"), (BUSY, "vllm")])
def test_of_two_that_could_serve_the_load_decides(
    run: Run, shared: Shared, tmp_path: Path, load: tuple[str, ...], engine: str
) -> None:
    shared.unit("llama-server.service", f"{PROGRAM} -m {model_file(tmp_path)}")
    shared.unit("vllm.service", f"{VLLM} serve {checkpoint(tmp_path)}")
    ran = run("plan", *CARD, *load, "--output", "json")
    assert ran.exit_code == 0, ran.stdout
    data = ran.envelope["data"]
    assert data["plan"]["engine"] == engine, (data["recommendation"], data["warnings"])
    assert data["reasons"][0]["value"] == engine
    assert set(data["reasons"][0]["inputs"]) == {"llama-server", "ollama", "vllm"}
