"""Which of several installed engines a plan is for: what runs first, then by the form of the model, with reasons."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import PurePosixPath

import pytest

from llmops.actions.choosing import Choice, choose
from llmops.engines.llama_server import programs
from llmops.host import FileStatus
from llmops.models import form_of
from tests.unit.engines.llama_host import SERVER, process
from tests.unit.engines.vllm_host import SCRIPT, VllmHost

OLLAMA = "/usr/local/bin/ollama"
GGUF, CHECKPOINT = "/srv/models/model.gguf", "/srv/models/checkpoint"
STORE = "/usr/share/ollama/.ollama/models"
MANIFEST = f"{STORE}/manifests/registry.ollama.ai/library/qwen3/8b"


@dataclass
class Several(VllmHost):
    """A machine with some engines; their programs are there, and what is in `running` runs."""

    folders: set[str] = field(default_factory=lambda: {CHECKPOINT})

    def status(self, path: PurePosixPath | str) -> FileStatus:
        if str(path) in self.folders:
            return FileStatus("directory", 0, 0o755, 0, 0, 0.0, 0, 0)
        return super().status(path)


def host(*engines: str, running: str = "") -> Several:
    made = Several()
    made.files |= {GGUF: "GGUF", MANIFEST: "{}"}
    words = {
        "llama-server": (SERVER, "-m", GGUF),
        "ollama": (OLLAMA, "serve"),
        "vllm": ("/opt/vllm/bin/python3", SCRIPT, "serve", CHECKPOINT),
    }
    for engine in engines:
        if engine == "llama-server":
            made.install(SERVER)
        elif engine == "vllm":
            made.environment_of("/opt/vllm", "vllm-0.33.0.dist-info")
        else:
            made.files[OLLAMA], made.programs["ollama"] = "", OLLAMA
            made.says((OLLAMA, "--version"), "ollama version is 0.32.15")
    made.running = tuple(process(7 + place, *words[engine]) for place, engine in enumerate(running.split()))
    return made


@pytest.fixture(autouse=True)
def _without_the_embedded_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs, "EMBEDDED_LIBRARY", "no_such_library_anywhere")


def choice(machine: Several, *references: str) -> Choice:
    found = choose(machine, references)
    assert found is not None
    return found


EVERY = ("llama-server", "ollama", "vllm")


def test_nothing_installed_and_one_installed_are_no_choice() -> None:
    assert choose(host(), ()) is None
    for engine in EVERY:
        found = choice(host(engine), CHECKPOINT if engine != "vllm" else GGUF)
        assert (found.taken.name, found.sentence, found.reasons, found.warnings) == (engine, None, (), ())
        assert found.refusal is None


@pytest.mark.parametrize(
    ("reference", "engine"),
    [(GGUF, "llama-server"), (CHECKPOINT, "vllm"), ("qwen3:8b", "ollama"), ("qwen9:1b", "ollama")],
)
def test_the_form_of_the_model_decides_where_none_runs(reference: str, engine: str) -> None:
    found = choice(host(*EVERY), reference)
    assert found.taken.name == engine
    assert found.refusal is None, "nobody is served: an apply may set it up"
    refused = {other.name for other in found.others if other.refusal is not None}
    assert refused == {"vllm"} if reference == GGUF else set(EVERY) - {engine}


@pytest.mark.parametrize("engine", ["llama-server", "ollama"])
def test_what_runs_stays(engine: str) -> None:
    found = choice(host(*EVERY, running=engine), GGUF)
    assert found.taken.name == engine
    assert found.refusal is None
    assert found.alike == ()
    assert found.sentence is not None
    assert "which runs now" in found.sentence
    assert "which does not run now and cannot serve a GGUF file" in found.sentence


def test_another_than_the_one_that_runs_is_planned_for_and_not_configured() -> None:
    found = choice(host(*EVERY, running="ollama"), CHECKPOINT)
    assert found.taken.name == "vllm"
    assert found.refusal is not None
    assert found.refusal.exit_code == 7
    assert found.refusal.message.startswith(
        "ollama (process 7, in no unit of systemd) runs here, and this plan is for vllm"
    )
    assert "--engine vllm" in str(found.refusal.hint)
    assert found.warnings == (f"{found.refusal.message}; an apply wants it named with --engine",)


def test_where_several_run_an_apply_wants_the_name() -> None:
    found = choice(host(*EVERY, running="llama-server ollama"), GGUF)
    assert found.taken.name == "llama-server"
    assert [other.name for other in found.alike] == ["ollama"]
    assert found.refusal is not None
    assert "nobody said which is to be configured" in found.refusal.message


def test_one_that_runs_and_cannot_serve_the_model_is_no_rival() -> None:
    found = choice(host(*EVERY, running="llama-server vllm"), GGUF)
    assert (found.taken.name, found.refusal, found.warnings) == ("llama-server", None, ())
    assert choice(host(*EVERY, running="ollama vllm"), CHECKPOINT).refusal is None


def test_where_none_can_serve_it_as_it_is_what_runs_stays() -> None:
    found = choice(host("llama-server", "ollama", running="ollama"), CHECKPOINT)
    assert (found.taken.name, found.refusal) == ("ollama", None)
    assert "cannot serve a Hugging Face checkpoint as it is" in str(found.sentence)


def test_without_a_name_an_engine_without_a_model_comes_last() -> None:
    found = choice(host(*EVERY))
    assert found.taken.name == "ollama", "it has a store of models"
    assert {other.refusal for other in found.others} == {"has no model, and none is named"}
    assert choice(host(*EVERY, running="vllm")).taken.name == "vllm"


def test_what_cannot_be_used_is_no_choice_unless_it_runs() -> None:
    broken = host("ollama", "vllm")
    broken.files[SERVER], broken.programs["llama-server"] = "", SERVER  # it cannot be started
    assert [choice(broken, GGUF).taken.name, *(other.name for other in choice(broken, GGUF).others)] == [
        "ollama",
        "vllm",
    ]
    broken.running = (process(7, SERVER, "-m", GGUF),)
    assert choice(broken, GGUF).taken.name == "llama-server"


def test_the_reason_names_every_engine() -> None:
    (reason,) = choice(host(*EVERY, running="llama-server"), GGUF).reasons
    assert (reason.quantity, reason.value) == ("engine", "llama-server")
    assert [name for name, _ in reason.inputs] == list(EVERY)
    assert dict(reason.inputs)["vllm"].startswith("does not run now and cannot serve a GGUF file (/opt/vllm")


def test_one_that_suits_the_load_takes_its_place() -> None:
    found = choice(host(*EVERY), GGUF).instead("ollama")
    assert found.taken.name == "ollama"
    assert "which suits this load" in str(found.sentence)
    assert "by the load" in found.reasons[0].formula


@pytest.mark.parametrize(
    ("reference", "form"),
    [
        (GGUF, "gguf"),
        (f"{STORE}/blobs/sha256-1", None),
        (CHECKPOINT, "checkpoint"),
        ("qwen3:8b", "stored"),
        ("never-pulled", "stored"),
        ("somebody/unknown", None),
        ("a b", None),
    ],
)
def test_forms_of_models(reference: str, form: str | None) -> None:
    assert form_of(host(), reference) == form
