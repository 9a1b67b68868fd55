"""What the configuration says, and which HAProxy may run it."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import pytest

from llmops.core.errors import Misconfigured, NotInstalled, TooOld, Unsupported, UsageError
from llmops.front import Address, FrontServer, FrontSpec, configuration_file, front_spec, require_program, unit_file
from llmops.front.haproxy import checked_configuration
from llmops.host import Completed
from tests.unit.actions.serving_machine import a_plan
from tests.unit.fake_machine import FakeFile, FakeMachine

SPEC = FrontSpec("llama-server", (FrontServer(Address("127.0.0.1", 8080), 2),), Address("127.0.0.1", 8000), 3, 60.0)
OLLAMA = replace(SPEC, engine="ollama", servers=(FrontServer(Address("127.0.0.1", 11434), 2),))

VLLM = replace(SPEC, engine="vllm", servers=(FrontServer(Address("127.0.0.1", 8000), 2),))


def lines(spec: FrontSpec) -> list[str]:
    return [line.strip() for line in configuration_file(spec).content.splitlines()]


def starting(spec: FrontSpec, start: str) -> list[str]:
    return [line for line in lines(spec) if line.startswith(start)]


def test_slots_queue_and_patience_become_limits() -> None:
    assert starting(SPEC, "server engine")[0].startswith("server engine 127.0.0.1:8080 maxconn 2 check")
    assert starting(SPEC, "timeout queue") == ["timeout queue 60s"]
    (refusal,) = starting(SPEC, "http-request return status 503")
    assert refusal.endswith("if { var(txn.generation) -m bool } { queue(generation) ge 3 }")
    assert "hdr Retry-After 20" in refusal
    assert "maxqueue" not in " ".join(line for line in lines(SPEC) if not line.startswith("#"))


def test_where_nobody_may_wait_the_slots_alone_decide() -> None:
    (refusal,) = starting(replace(SPEC, queue_requests=0), "http-request return status 503")
    assert refusal.endswith("{ be_conn(generation),sub(txn.slots) ge 0 }")


@pytest.mark.parametrize(
    ("queue", "patience", "retry", "waits"), [(3, 60.0, 20, 60), (40, 60.0, 2, 60), (500, 60.0, 1, 60), (0, 0.4, 1, 1)]
)
def test_retry_after_is_the_time_until_a_place_is_free(queue: int, patience: float, retry: int, waits: int) -> None:
    spec = replace(SPEC, queue_requests=queue, patience_seconds=patience)
    assert (spec.retry_seconds, spec.queue_seconds) == (retry, waits)


def bodies(spec: FrontSpec, name: str) -> list[dict[str, object]]:
    found = [re.search(r"'(.*)'", line) for line in starting(spec, f"http-request set-var-fmt(txn.{name})")]
    return [json.loads(match.group(1).replace("%%", "%")) for match in found if match]


@pytest.mark.parametrize("name", ["full", "late", "down"])
def test_errors_have_the_form_of_the_engine(name: str) -> None:
    (llama,) = bodies(SPEC, name)
    assert set(llama["error"]) == {"code", "message", "type"}  # type: ignore[call-overload]
    native, compatible = bodies(OLLAMA, name)
    assert isinstance(native["error"], str)
    assert compatible["error"]["message"] == native["error"]  # type: ignore[index]


def test_vllm_s_errors_have_the_form_of_each_of_its_interfaces() -> None:
    general, messages = bodies(VLLM, "full")
    assert general["error"]["code"] == 503  # type: ignore[index]
    assert general["error"]["type"] == "Service Unavailable"  # type: ignore[index]
    assert messages["type"] == "error"
    assert messages["error"]["message"] == general["error"]["message"]  # type: ignore[index]
    assert [line.split("' ")[-1] for line in starting(VLLM, "http-request set-var-fmt(txn.full)")][1] == (
        "if { path_beg /v1/messages }"
    )


def test_of_vllm_only_what_its_key_guards_passes() -> None:
    (closed,) = starting(VLLM, "http-request return status 403")
    assert closed.endswith("unless { path_beg /v1/ } or { path /health }")
    assert "only requests below /v1/ pass here" in bodies(VLLM, "closed")[0]["error"]["message"]  # type: ignore[index]
    for other in (SPEC, OLLAMA):
        assert starting(other, "http-request return status 403") == []
        assert bodies(other, "closed") == []


def test_nothing_reaches_an_engine_in_parts_or_as_something_else() -> None:
    assert starting(SPEC, "http-request wait-for-body") == ["http-request wait-for-body time 10s"], (
        "whatever its method"
    )
    assert starting(SPEC, "bind") == ["bind 127.0.0.1:8000 proto h1"]
    assert starting(SPEC, "http-request return status 400") == ['http-request return status 400 if { url -m sub "#" }']


def test_what_becomes_a_websocket_takes_a_slot() -> None:
    counted = starting(VLLM, "http-request set-var(txn.generation)")
    assert counted[1].endswith("if { req.hdr(Upgrade) -i websocket }")


def test_only_an_engine_that_checks_the_host_gets_another_one() -> None:
    assert starting(SPEC, "http-request set-header") == []
    assert starting(OLLAMA, "http-request set-header") == ["http-request set-header Host localhost"]


def test_checks_wake_no_model() -> None:
    assert "uri /health " in starting(SPEC, "http-check send")[0]
    assert "uri /api/version " in starting(OLLAMA, "http-check send")[0]


def test_the_status_is_for_this_machine_only() -> None:
    (everywhere,) = starting(replace(SPEC, listen=Address("0.0.0.0", 8000)), "http-request return status 200")
    assert everywhere.endswith("{ src 127.0.0.0/8 ::1 }")
    (one,) = starting(replace(SPEC, listen=Address("192.168.1.5", 8000)), "http-request return status 200")
    assert one.endswith("{ src 127.0.0.0/8 ::1 192.168.1.5 }")


def test_an_engine_with_another_interface_gets_no_front() -> None:
    with pytest.raises(Unsupported, match="another"):
        configuration_file(replace(SPEC, engine="another"))


def test_the_unit_has_only_the_rights_that_it_needs() -> None:
    usual = unit_file(SPEC).content
    assert "CapabilityBoundingSet=\n" in usual
    assert "IPAddressDeny=any" in usual
    low = unit_file(replace(SPEC, listen=Address("0.0.0.0", 80)), "/opt/haproxy").content
    assert "CapabilityBoundingSet=CAP_NET_BIND_SERVICE\n" in low
    assert "PrivateUsers=" not in low
    assert "IPAddressDeny" not in low
    assert "ExecStart=/opt/haproxy -Ws -f /etc/llmops/front.cfg" in low
    assert (
        unit_file(replace(SPEC, servers=(FrontServer(SPEC.servers[0].address, 9),), queue_requests=9)).content == usual
    ), "new limits need no new unit"


def test_a_front_takes_its_limits_from_the_plan() -> None:
    plan = a_plan(slots=5)
    spec = front_spec(plan, Address("127.0.0.1", 8080), Address("0.0.0.0", 8000))
    assert (spec.slots, spec.queue_requests, spec.patience_seconds) == (5, plan.queue_requests, 60.0)
    for place in (Address("127.0.0.1", 8080), Address("0.0.0.0", 8080)):
        with pytest.raises(UsageError, match="itself listens") as refused:
            front_spec(plan, Address("127.0.0.1", 8080), place)
        assert "8081" in str(refused.value.hint)


@dataclass
class WithProxy(FakeMachine):
    says: str = "HAProxy version 2.6.12-1+deb12u4 2026/10/17 - https://haproxy.org/\nStatus: long-term"
    refuses: str = ""
    asked: list[tuple[str, ...]] = field(default_factory=list)

    def query(self, argv: Sequence[str], *, timeout_seconds: float = 20.0) -> Completed:
        self.asked.append(tuple(argv))
        if argv[1] == "-v":
            return Completed(tuple(argv), 0, self.says, "")
        return Completed(tuple(argv), 1 if self.refuses else 0, "", self.refuses)


def test_the_installed_program_is_found_outside_of_path_too() -> None:
    host = WithProxy(files={"/usr/sbin/haproxy": FakeFile("", 0o755)})
    found = require_program(host)
    assert (found.path, str(found.version), found.version_text) == ("/usr/sbin/haproxy", "2.6.12", "2.6.12-1+deb12u4")


@pytest.mark.parametrize(
    "says",
    ["HAProxy version 3.0.11-1+deb13u2 2025/10/03 - https://haproxy.org/", "HA-Proxy version 2.6.0 2022/05/31"],
)
def test_debian_s_versions_are_new_enough(says: str) -> None:
    assert require_program(WithProxy(programs={"haproxy"}, says=says)).version is not None


def test_what_cannot_be_a_front_is_named() -> None:
    with pytest.raises(NotInstalled) as absent:
        require_program(WithProxy())
    assert "apt-get install haproxy" in str(absent.value.hint)
    with pytest.raises(TooOld, match=r"2\.4\.24"):
        require_program(WithProxy(programs={"haproxy"}, says="HAProxy version 2.4.24-0ubuntu0.22.04.1 2023/10/31"))
    with pytest.raises(Misconfigured, match="does not say its version"):
        require_program(WithProxy(programs={"haproxy"}, says=""))


def test_a_configuration_that_haproxy_refuses_is_quoted() -> None:
    host = WithProxy(programs={"haproxy"})
    program = require_program(host)
    checked_configuration(host, program)
    assert host.asked[-1] == ("/usr/bin/haproxy", "-c", "-q", "-f", "/etc/llmops/front.cfg")
    host.refuses = "[NOTICE]   (1) : version\n[ALERT]    (1) : config : unknown keyword 'x'\n"
    with pytest.raises(Misconfigured, match="unknown keyword 'x'"):
        checked_configuration(host, program)
