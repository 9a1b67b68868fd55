"""From settings to xllamacpp's parameters, on a stand-in for the library; the real one is asked in tests/engines."""

from __future__ import annotations

import sys
from enum import Enum
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from llmops.embedded import __main__ as command
from llmops.embedded.command_line import read_command_line
from llmops.embedded.server import parameters
from llmops.embedded.version import version_text


class CacheTypes(Enum):
    """Two of ggml's types."""

    GGML_TYPE_F16 = 1
    GGML_TYPE_Q8_0 = 8


class Library(ModuleType):
    """The part of xllamacpp that settings reach."""

    ggml_type = CacheTypes
    ggml_backend_dev_type = SimpleNamespace(GGML_BACKEND_DEVICE_TYPE_CPU=0)
    devices: tuple[dict[str, object], ...] = ()

    @staticmethod
    def CommonParams() -> Any:
        """Parameters with nothing in them but the parts."""
        threads = SimpleNamespace(n_threads=-1), SimpleNamespace(n_threads=-1)
        return SimpleNamespace(model=SimpleNamespace(path=""), cpuparams=threads[0], cpuparams_batch=threads[1])

    def get_device_info(self) -> tuple[dict[str, object], ...]:
        """The devices of this machine."""
        return self.devices


def made(words: str, environment: dict[str, str] | None = None) -> Any:
    return parameters(Library("xllamacpp"), read_command_line(words.split()).settings, environment or {})


def test_defaults_are_those_of_llama_server_not_of_the_library() -> None:
    result = made("-m a.gguf")
    assert (result.model.path, result.port, result.n_parallel, result.no_extra_bufts) == ("a.gguf", 8080, -1, False)


def test_names_become_members_lists_and_sets() -> None:
    result = made("-m a.gguf -ctk q8_0 --host 127.0.0.1,::1 -a small,tiny --no-repack")
    assert result.cache_type_k is CacheTypes.GGML_TYPE_Q8_0
    assert result.hostnames == ["127.0.0.1", "::1"]
    assert result.model_alias == {"small", "tiny"}
    assert result.no_extra_bufts is True


def test_batch_threads_follow_threads_unless_given() -> None:
    assert made("-m a.gguf -t 3").cpuparams_batch.n_threads == 3
    assert made("-m a.gguf -t 3 -tb 6").cpuparams_batch.n_threads == 6


def test_explicit_zero_context_may_not_be_shrunk_to_fit() -> None:
    assert made("-m a.gguf -c 0").fit_params_min_ctx == -1
    assert not hasattr(made("-m a.gguf"), "fit_params_min_ctx")


def test_key_of_the_environment_is_honoured_and_a_file_beats_it() -> None:
    assert made("-m a.gguf", {"LLAMA_API_KEY": "one,two"}).api_keys == ["one", "two"]


def test_model_is_required(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["-np", "2"]) == 1
    assert "--model is required" in capsys.readouterr().err


def test_help_needs_no_library(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "xllamacpp", None)
    assert command.main(["--help"]) == 0
    assert "--parallel N" in capsys.readouterr().out


def test_missing_library_is_one_line_with_the_next_step(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "xllamacpp", None)
    assert command.main(["-m", "a.gguf"]) == 1
    assert capsys.readouterr().err.count("\n") == 1


def test_devices_are_listed_without_the_processor(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    library = Library("xllamacpp")
    processor = {"name": "CPU", "description": "EPYC", "memory_total": 1 << 30, "memory_free": 1 << 30, "type": 0}
    card = {"name": "CUDA0", "description": "L4", "memory_total": 22 << 30, "memory_free": 21 << 30, "type": 1}
    monkeypatch.setitem(sys.modules, "xllamacpp", library)
    library.devices = (processor,)
    command.main(["--list-devices"])
    library.devices = (processor, card)
    command.main(["--list-devices"])
    assert capsys.readouterr().out == (
        "Available devices:\n  (none)\nAvailable devices:\n  CUDA0: L4 (22528 MiB, 21504 MiB free)\n"
    )


@pytest.mark.parametrize(("release", "build"), [("2026.10.11549", "11549"), ("0.2", "0"), ("2026.10.dev1", "0")])
def test_build_is_the_last_part_of_the_release(monkeypatch: pytest.MonkeyPatch, release: str, build: str) -> None:
    monkeypatch.setattr("importlib.metadata.version", lambda _: release)
    assert version_text().splitlines()[0] == f"version: xllamacpp-{release} (build {build}, commit unknown)"
