"""A front before the vLLM of a test machine: applied, verified, taken back, while the server stays as it is."""

from __future__ import annotations

from collections.abc import Sequence

from tests.systemd.haproxy import install_haproxy
from tests.systemd.machine import Machine
from tests.systemd.observe import configuration

UNIT, LISTEN = "llmops-front.service", "127.0.0.1:8001"
_ASK = """
import json, sys, urllib.error, urllib.request as u

for path, body in (("/metrics", None), ("/v1/models", None), ("/v1/completions", {"prompt": "w1", "max_tokens": 4})):
    data = None if body is None else json.dumps({**body, "model": sys.argv[2]}).encode()
    try:
        with u.urlopen(u.Request(f"http://{sys.argv[1]}{path}", data, {"Content-Type": "application/json"})) as answer:
            print(answer.status)
    except urllib.error.HTTPError as error:
        print(error.code)
"""


def front_comes_and_goes(machine: Machine, wanted: Sequence[str], model: str) -> None:
    """With the plan that is live; the server is not touched."""
    install_haproxy(machine)
    before, pid = configuration(machine), machine.show("vllm.service", "MainPID")
    applied = machine.llmops("apply", "--front", "haproxy", "--listen", LISTEN, *wanted)
    assert (applied.exit_code, applied.envelope["status"]) == (0, "changed"), (applied, machine.log(UNIT))
    checks = {check["name"]: check["status"] for check in applied.envelope["data"]["checks"]}
    assert set(checks.values()) == {"pass"}, checks
    machine.write("/opt/inside/ask.py", _ASK)
    asked = machine.run("python3", "/opt/inside/ask.py", LISTEN, model)
    assert asked.stdout.split() == ["403", "200", "200"], (asked, machine.log(UNIT))

    verified = machine.llmops("verify")
    assert verified.exit_code == 0, verified
    seen = {check["name"]: check["status"] for check in verified.envelope["data"]["checks"]}
    assert checks.items() <= seen.items()
    again = machine.llmops("apply", "--front", "haproxy", "--listen", LISTEN, *wanted)
    assert (again.exit_code, again.envelope["status"]) == (0, "ok")

    assert machine.llmops("rollback").exit_code == 0
    assert configuration(machine) == before
    assert machine.show(UNIT, "ActiveState") == "inactive"
    assert machine.show("vllm.service", "MainPID") == pid
