"""A port that another program has, told before anything is changed."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from llmops.actions.port import name_of, require_port
from llmops.core.errors import Misconfigured
from llmops.engines.found import InForce
from llmops.host import ListeningSocket, ProcessInfo
from tests.unit.actions.serving_machine import UNIT, a_plan, installation, machine
from tests.unit.actions.test_apply import Apply
from tests.unit.fake_machine import FakeMachine

URL = "http://127.0.0.1:8000"


def process(pid: int, *argv: str, unit: str = "") -> ProcessInfo:
    return ProcessInfo(pid, 1, None, argv, (), 0, f"/system.slice/{unit}" if unit else "/user.slice")


@dataclass
class Listening(FakeMachine):
    listeners: tuple[ListeningSocket, ...] = ()
    running_now: tuple[ProcessInfo, ...] = ()

    def listening_sockets(self) -> tuple[ListeningSocket, ...]:
        return self.listeners

    def processes(self) -> tuple[ProcessInfo, ...]:
        return self.running_now


def host(address: str, pid: int | None, *processes: ProcessInfo, port: int = 8000) -> Listening:
    return Listening(listeners=(ListeningSocket(address, port, pid),), running_now=processes)


@pytest.mark.parametrize("address", ["127.0.0.1", "0.0.0.0", "::"])
def test_a_foreign_program_is_named_with_its_unit(address: str) -> None:
    found = host(address, 9, process(9, "/usr/bin/python3", "-m", "http.server", unit="files.service"))
    with pytest.raises(Misconfigured, match=r"python3 \(process 9 of files.service\) listens at 127.0.0.1:8000") as why:
        require_port(found, UNIT, InForce(url=URL, pid=7))
    assert "systemctl stop files.service" in (why.value.hint or "")


@pytest.mark.parametrize("address", ["127.0.0.1", "::1"])
def test_localhost_is_a_name_for_two_addresses(address: str) -> None:
    taken = host(address, 9, process(9, "other"))
    with pytest.raises(Misconfigured, match=r"other \(process 9\) listens at localhost:8000"):
        require_port(taken, UNIT, InForce(url="http://localhost:8000", pid=7))


def test_what_belongs_to_the_server_or_is_elsewhere_is_none_of_it() -> None:
    ours = InForce(url=URL, pid=7, worker_pids=(8,))
    for pid in (7, 8, 1, None):
        require_port(host("127.0.0.1", pid, process(pid or 5, "vllm")), UNIT, ours)
    require_port(host("127.0.0.1", 9, process(9, "sh", unit=UNIT)), UNIT, ours)
    require_port(host("10.0.0.1", 9, process(9, "other")), UNIT, ours)
    require_port(host("127.0.0.1", 9, process(9, "other"), port=8001), UNIT, ours)
    require_port(host("127.0.0.1", 9, process(9, "other")), UNIT, InForce())


def test_an_apply_changes_nothing_where_the_port_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    taken = machine()
    taken.running.clear()
    nginx = process(9, "nginx: master process /usr/sbin/nginx")
    monkeypatch.setattr(taken, "listening_sockets", lambda: (ListeningSocket("127.0.0.1", 8080, 9),))
    monkeypatch.setattr(taken, "processes", lambda: (nginx,))
    before = dict(taken.files)
    with pytest.raises(Misconfigured, match=r"nginx \(process 9\) listens at 127.0.0.1:8080"):
        Apply(taken).run(a_plan(), installation())
    assert taken.files == before
    assert taken.running == {}


def test_a_program_is_called_by_its_file() -> None:
    assert name_of(process(1, "/opt/vllm/bin/python3", "-m", "x")) == "python3"
    assert name_of(process(1)) == "a program"
