"""What `tune` says without --apply of a model that the service could not read, and of a port that is taken."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from llmops.host import Completed, FileStatus, ListeningSocket, ProcessInfo
from tests.unit.cli.conftest import Run
from tests.unit.cli.machine import Machine

WORDS = ("tune", "--install-unit", "--output", "json", "--model")


@pytest.fixture
def installed(machine: Machine) -> Machine:
    """With a llama-server, `id` and `ls`."""
    machine.installed = True
    machine.__post_init__()
    machine.answers[("id", "llama-server")] = Completed((), 1, "", "id: no such user")
    return machine


def test_a_model_that_the_service_may_not_read(
    run: Run, installed: Machine, model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    look = installed.status

    def closed(path: object) -> FileStatus:
        found = look(str(path))
        return replace(found, mode=0o600) if str(path) == model else replace(found, mode=0o755)

    monkeypatch.setattr(installed, "status", closed)
    installed.answers[("ls", "-ld", "--", model)] = Completed((), 0, f"-rw------- 1 root root 7 Nov 30 {model}\n", "")
    refused = run(*WORDS, model).envelope["data"]["apply_refused"]
    assert refused["code"] == "misconfigured"
    assert f"runs as an account of its own, which may not read {model} (mode 0600)" in refused["message"]
    assert f"chmod a+r {model}" in refused["hint"]


def test_a_port_that_another_program_has(
    run: Run, installed: Machine, model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    look = installed.status
    monkeypatch.setattr(installed, "status", lambda path: replace(look(path), mode=0o755))
    nginx = ProcessInfo(9, 1, "/usr/sbin/nginx", ("nginx: master",), (), 0, "/system.slice/nginx.service")
    monkeypatch.setattr(installed, "listening_sockets", lambda: (ListeningSocket("0.0.0.0", 8080, 9),))
    monkeypatch.setattr(installed, "processes", lambda: (nginx,))
    refused = run(*WORDS, model).envelope["data"]["apply_refused"]
    assert "nginx (process 9 of nginx.service) listens at 127.0.0.1:8080" in refused["message"]
    assert "systemctl stop nginx.service" in refused["hint"]


def test_nothing_is_said_where_all_is_well(
    run: Run, installed: Machine, model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    look = installed.status
    monkeypatch.setattr(installed, "status", lambda path: replace(look(path), mode=0o755))
    envelope = run(*WORDS, model).envelope
    assert envelope["data"]["apply_refused"] is None
    assert Path(model).exists()
    assert envelope["status"] == "changed"
