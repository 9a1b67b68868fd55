"""The command line on a substituted machine: no test here touches the real one."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from click.testing import CliRunner

from llmops.cli import hosts
from llmops.cli.application import application


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

    def refuse(*_: object) -> None:
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
