"""The front under real systemd: a real HAProxy before a real llama-server, applied, changed, taken back."""

from __future__ import annotations

import re
import time
from collections.abc import Callable

import pytest

from tests.systemd.haproxy import install_haproxy
from tests.systemd.machine import SERVING_SECONDS, Machine, wait_for
from tests.systemd.observe import configuration

pytestmark = [pytest.mark.systemd, pytest.mark.timeout(1800)]

Served = Callable[..., Machine]
UNIT = "llmops-front.service"
LISTEN = "127.0.0.1:8000"
# The engine as the test's own unit starts it: one slot of 4,096 tokens.
PLAN = ("--users", "1", "--slots", "1", "--context", "4096")
STREAM = """
import json, sys, time, urllib.request
body = json.dumps({"messages": [{"role": "user", "content": "Tell me a story."}], "max_tokens": int(sys.argv[1]),
                   "ignore_eos": True, "stream": True}).encode()
url, kind = "http://127.0.0.1:8000/v1/chat/completions", {"Content-Type": "application/json"}
request = urllib.request.Request(url, body, kind)
began = time.monotonic()
with urllib.request.urlopen(request, timeout=600) as answer:
    lines = [line.strip() for line in answer if line.startswith(b"data: ")]
print(len(lines), time.monotonic() - began, lines[-1].decode())
"""


@pytest.fixture
def fronted(served: Served) -> Machine:
    machine = served()
    install_haproxy(machine)
    return machine


def apply_front(machine: Machine, *more: str) -> tuple[int, str]:
    ran = machine.llmops("apply", "--front", "haproxy", "--listen", LISTEN, *PLAN, *more)
    return ran.exit_code, ran.envelope["status"]


def tokens_in(machine: Machine, seconds: float) -> int:
    """As many tokens as the engine writes in about this time, and fit into its context."""
    said = machine.run("python3", "/opt/stream.py", "60").stdout.split()
    return int(min(3_500, max(900, float(said[0]) / float(said[1]) * seconds)))


def limits(machine: Machine) -> str:
    asked = "import sys,urllib.request as u; print(u.urlopen(sys.argv[1],timeout=60).read().decode())"
    return machine.run("python3", "-c", asked, f"http://{LISTEN}/llmops/front").stdout


def test_a_front_is_applied_changed_and_taken_back(fronted: Machine) -> None:
    before = configuration(fronted)
    began = time.monotonic()
    assert apply_front(fronted, "--queue", "3") == (0, "changed"), fronted.log(UNIT)
    apply_seconds = time.monotonic() - began
    assert '"slots":1,"queue":3' in limits(fronted)
    assert apply_front(fronted, "--queue", "3") == (0, "ok")
    assert fronted.llmops("verify").exit_code == 0

    judged = fronted.run("systemd-analyze", "security", "--no-pager", UNIT).stdout
    (score,) = re.findall(r"Overall exposure level for \S+: ([\d.]+)", judged)
    print(f"systemd-analyze security: {score}")
    assert float(score) <= 2.5, judged
    complaints = fronted.run("systemd-analyze", "verify", f"/etc/systemd/system/{UNIT}")
    assert [line for line in complaints.stderr.splitlines() if UNIT in line] == []

    started = fronted.show(UNIT, "InvocationID")
    fronted.write("/opt/stream.py", STREAM)
    tokens = tokens_in(fronted, 3 * apply_seconds)
    with fronted.running("python3", "/opt/stream.py", str(tokens), unit="stream.service") as end:
        wait_for(
            lambda: '"serving":1' in limits(fronted), SERVING_SECONDS, "the stream to begin", lambda: fronted.log(UNIT)
        )
        assert apply_front(fronted, "--queue", "7") == (0, "changed"), fronted.log(UNIT)
        assert '"queue":7' in limits(fronted)
        assert fronted.show(UNIT, "InvocationID") == started, "taken over without a restart"
        assert fronted.show("stream.service", "ActiveState") == "active", "it still runs in the old process"
        assert fronted.run("systemctl", "restart", UNIT).exit_code == 0
        streamed = end()
    assert streamed.exit_code == 0, streamed
    assert streamed.stdout.split(maxsplit=2)[2].strip() == "data: [DONE]", "neither a reload nor a restart cuts it"
    assert int(streamed.stdout.split()[0]) >= tokens

    fronted.shut_down()
    fronted.boot()
    fronted.wait_until_serving()
    assert '"queue":7' in limits(fronted)

    assert fronted.llmops("rollback").exit_code == 0
    assert '"queue":3' in limits(fronted)
    assert fronted.llmops("rollback").exit_code == 0
    assert configuration(fronted) == before
    assert fronted.show(UNIT, "ActiveState") == "inactive"


def test_what_stands_in_the_way_leaves_everything_as_it_is(served: Served) -> None:
    machine = served()
    before = configuration(machine)
    missing = machine.llmops("apply", "--front", "haproxy", "--listen", LISTEN, *PLAN)
    assert missing.exit_code == 7
    assert "apt-get install haproxy" in missing.envelope["errors"][0]["hint"]
    install_haproxy(machine)
    assert machine.llmops("apply", "--front", "haproxy", *PLAN).exit_code == 2
    taken = machine.llmops("apply", "--front", "haproxy", "--listen", "127.0.0.1:8080", *PLAN)
    assert taken.exit_code == 2
    other = machine.llmops("apply", "--front", "haproxy", "--listen", LISTEN, "--users", "2", "--slots", "2")
    assert other.exit_code == 3, other
    assert configuration(machine) == before
