"""The command line on a substituted machine: no test here touches the real one."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from llmops.cli import hosts
from llmops.cli.application import application
from tests.unit.cli.machine import Machine, model_file


@dataclass(frozen=True)
class Ran:
    """What one run of the command line left behind."""

    exit_code: int
    stdout: str
    stderr: str

    @property
    def envelope(self) -> Any:
        return json.loads(self.stdout)


Run = Callable[..., Ran]


@pytest.fixture(autouse=True)
def nothing_real(monkeypatch: pytest.MonkeyPatch) -> None:
    """No configuration file of this machine, no colour setting, and no host unless the test gives one."""

    def refuse(*_: object, **__: object) -> None:
        pytest.fail("this test reached for the machine")

    monkeypatch.setattr(hosts, "build_host", refuse)
    monkeypatch.setattr(hosts, "build_mutable_host", refuse)
    monkeypatch.setattr("llmops.cli.settings.configuration_places", tuple)
    monkeypatch.delenv("NO_COLOR", raising=False)


@pytest.fixture
def run() -> Run:
    """Run the application with these words."""

    def invoke(*words: str, **keywords: Any) -> Ran:
        result = CliRunner().invoke(application, list(words), **keywords)
        return Ran(result.exit_code, result.stdout, result.stderr)

    return invoke


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Machine:
    """An 8 GiB machine without an engine, behind every door of the command line."""
    found = Machine(disk=tmp_path)
    monkeypatch.setattr(hosts, "build_host", lambda *_, **__: found)
    monkeypatch.setattr(hosts, "build_mutable_host", lambda **__: found)
    return found


@pytest.fixture
def model(tmp_path: Path) -> str:
    """The path of a small model."""
    return str(model_file(tmp_path))
