"""Applying a front: what is refused, what is written, what a second run does, what is left after any failure."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import pytest

from llmops import checkpoint
from llmops.actions.apply import Applied
from llmops.actions.front import (
    FrontOptions,
    applied_front,
    apply_front,
    require_engine,
    spec_of,
    verify_applied_front,
    ways_around,
)
from llmops.actions.recovery import UNIT as BOOT_UNIT
from llmops.actions.recovery import recover
from llmops.actions.rollback import rollback
from llmops.core.errors import (
    EngineNotAnswering,
    Misconfigured,
    NoPermission,
    NotInstalled,
    ProblemsFound,
    RolledBack,
    UnreadableInput,
)
from llmops.core.files import Change
from llmops.core.serialization import encode
from llmops.core.verification import CheckStatus
from llmops.engines.found import InForce
from llmops.front import CONFIGURATION_PATH, UNIT, UNIT_PATH, Address, FrontServer, FrontSpec
from llmops.host import Completed, ListeningSocket, ProcessInfo, Response
from tests.unit.actions.serving_machine import INTERPRETER, PROGRAM, ServingMachine, a_plan
from tests.unit.actions.serving_machine import UNIT as ENGINE_UNIT
from tests.unit.actions.serving_machine import machine as serving_machine
from tests.unit.fake_machine import FakeFile, Killed

SPEC = FrontSpec("llama-server", (FrontServer(Address("127.0.0.1", 8080), 4),), Address("127.0.0.1", 8000), 3, 60.0)
OPTIONS = FrontOptions(executable=(INTERPRETER, "-m", "llmops"))
ENGINE_PID, FRONT_PID = 100, 200


@dataclass
class FrontMachine(ServingMachine):
    """`taken` is the configuration that the running front has read; `refused` is a text that it does not accept."""

    taken: str | None = None
    refused: str | None = None
    engine_serves: bool = True
    stranger: ListeningSocket | None = None

    def query(self, argv: object, *, timeout_seconds: float = 20.0) -> Completed:
        assert isinstance(argv, (tuple, list))
        if argv[0] == "/usr/bin/haproxy":
            if argv[1] == "-v":
                return Completed(tuple(argv), 0, "HAProxy version 2.6.12 2026/10/17", "")
            return Completed(tuple(argv), 0 if self._accepts() else 1, "", "[ALERT] (1) : config : no such thing")
        if argv[0] in {"grep", PROGRAM}:  # units on disk, and what the engine says of itself
            return Completed(tuple(argv), 1, "", "")
        return super().query(argv, timeout_seconds=timeout_seconds)

    def _accepts(self) -> bool:
        return self.refused is None or self.refused not in self.files[CONFIGURATION_PATH].text

    def execute(self, argv: Sequence[str], *, timeout_seconds: float = 120.0) -> Completed:
        done = super().execute(argv, timeout_seconds=timeout_seconds)
        if argv[-1] == UNIT and argv[1] in {"restart", "reload-or-restart"} and UNIT in self.running:
            self.taken = self.files[CONFIGURATION_PATH].text
        return done

    def boot(self) -> None:
        super().boot()
        self.taken = None

    def listens(self) -> Address | None:
        bound = re.search(r"^    bind (\S+):(\d+) ", self.taken or "", re.MULTILINE) if UNIT in self.running else None
        return Address(bound.group(1).strip("[]"), int(bound.group(2))) if bound else None

    def processes(self) -> tuple[ProcessInfo, ...]:
        pids = {ENGINE_UNIT: ENGINE_PID, UNIT: FRONT_PID}
        return tuple(
            ProcessInfo(pids[unit], 1, words[0], words, (), 0, f"/system.slice/{unit}")
            for unit, words in self.running.items()
        )

    def listening_sockets(self) -> tuple[ListeningSocket, ...]:
        own = self.listens()
        found = [ListeningSocket("127.0.0.1", 8080, ENGINE_PID)]
        found += [ListeningSocket(own.host, own.port, FRONT_PID)] if own else []
        return (*found, *([self.stranger] if self.stranger else []))

    def get(self, url: str, *, timeout_seconds: float = 5.0) -> Response:
        own = self.listens()
        if own is None or not url.startswith(own.url + "/"):
            if not url.startswith("http://127.0.0.1:8080/"):
                raise ConnectionError(url)
            return super().get(url, timeout_seconds=timeout_seconds)
        if not url.endswith("/llmops/front"):
            return Response(200 if self.engine_serves else 503, "{}")
        said = re.search(r"status 200 .*lf-string '(.*)' if", self.taken or "")
        assert said is not None
        up = "1" if self.engine_serves else "0"
        seen = re.sub(r"%\[srv_is_up\([\w/]+\)\]", up, said.group(1))
        return Response(200, re.sub(r"%\[[^]]+\]", "0", seen))

    def world(self) -> tuple[object, ...]:
        return (*super().world(), self.taken if UNIT in self.running else None)


def machine() -> FrontMachine:
    host = FrontMachine(**vars(serving_machine()))
    host.programs = {*host.programs, "haproxy"}
    return host


def run(host: FrontMachine, spec: FrontSpec = SPEC, engine_slots: int | None = 4) -> Applied:
    return apply_front(host, spec, options=OPTIONS, engine_slots=engine_slots, progress=lambda _line: None)


def word(host: FrontMachine) -> Mapping[str, object]:
    document = json.loads(host.get(f"{SPEC.listen.url}/llmops/front").body)
    assert isinstance(document, dict)
    return document


def test_a_first_apply_is_live_verified_and_starts_at_boot() -> None:
    host = machine()
    applied = run(host)
    assert applied.changed
    assert applied.report is not None
    assert {check.name: check.status.value for check in applied.report.checks} == dict.fromkeys(
        ("front_file", "front_unit", "front_listener", "front_limits", "front_slots", "front_reaches_engine"), "pass"
    )
    assert {UNIT, BOOT_UNIT} <= host.enabled
    assert word(host)["queue"] == 3
    assert applied_front(host) == SPEC


def test_a_second_apply_changes_nothing() -> None:
    host = machine()
    run(host)
    made = host.changes_made
    again = run(host)
    assert not again.changed
    assert host.changes_made == made


def test_new_limits_are_taken_over_without_a_restart() -> None:
    host = machine()
    run(host)
    started = host.invocations[UNIT]
    applied = run(host, replace(SPEC, queue_requests=9))
    assert (applied.changed, applied.restarted) == (True, False)
    assert [change.path for change in applied.changes] == [CONFIGURATION_PATH]
    assert host.invocations[UNIT] == started
    assert word(host)["queue"] == 9


def test_a_changed_unit_needs_a_new_process() -> None:
    host = machine()
    run(host)
    applied = run(host, replace(SPEC, listen=Address("0.0.0.0", 8000)))
    assert applied.restarted
    assert UNIT_PATH in [change.path for change in applied.changes]


def test_everything_is_taken_back_without_a_trace() -> None:
    host = machine()
    old = host.world()
    run(host)
    run(host, replace(SPEC, queue_requests=9))
    started = host.invocations[UNIT]
    rollback(host, (), progress=lambda _line: None)
    assert word(host)["queue"] == 3
    assert host.invocations[UNIT] == started, "given back without a restart"
    assert applied_front(host) == SPEC
    rollback(host, (), progress=lambda _line: None)
    assert host.world() == old
    assert applied_front(host) is None
    assert verify_applied_front(host) is None


def test_the_front_ends_before_its_unit_goes() -> None:
    host = machine()
    run(host)
    host.log.clear()
    rollback(host, (), progress=lambda _line: None)
    assert host.log.index(f"systemctl stop {UNIT}") < host.log.index(f"remove {UNIT_PATH}")


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("first", [True, False])
def test_killed_anywhere_the_machine_is_old_or_new(first: bool, after: bool) -> None:
    def prepared() -> FrontMachine:
        host = machine()
        if not first:
            run(host)
            host.changes_made = 0
        return host

    wanted = SPEC if first else replace(SPEC, queue_requests=9)
    reference = prepared()
    old = reference.world()
    run(reference, wanted)
    new = reference.world()
    for step in range(reference.changes_made):
        host = prepared()
        host.stop_at, host.failure, host.after = step, Killed(), after
        with pytest.raises(Killed):
            run(host, wanted)
        host.revive()
        recover(host, at_boot=False)
        assert host.world() in (old, new), f"killed at step {step}"


def test_a_configuration_that_haproxy_refuses_never_reaches_the_running_front() -> None:
    host = machine()
    run(host)
    old = host.world()
    host.refused = "ge 9"
    with pytest.raises(RolledBack, match="no such thing"):
        run(host, replace(SPEC, queue_requests=9))
    assert host.world() == old


def test_a_front_that_does_not_reach_the_engine_is_taken_back() -> None:
    host = machine()
    old = host.world()
    host.engine_serves = False
    with pytest.raises(RolledBack, match="not ready"):
        run(host)
    assert host.world() == old


def test_an_engine_with_other_slots_is_no_success() -> None:
    host = machine()
    old = host.world()
    with pytest.raises(RolledBack, match="front_slots"):
        run(host, engine_slots=2)
    assert host.world() == old


def test_a_port_that_somebody_holds_is_left_to_him() -> None:
    host = machine()
    old = host.world()
    host.stranger = ListeningSocket("0.0.0.0", 8000, 4711)
    with pytest.raises(Misconfigured, match=r"process 4711 already listens at 0\.0\.0\.0:8000"):
        run(host)
    assert host.world() == old
    assert checkpoint.read_checkpoints(host) == ()


def test_what_stands_in_the_way_is_said_before_anything_changes() -> None:
    for change, error in (
        ({"uid": 1000}, NoPermission),
        ({"programs": {"systemctl", "journalctl"}}, NotInstalled),
        ({"programs": {"haproxy"}}, NotInstalled),
    ):
        host = machine()
        for name, value in change.items():
            setattr(host, name, value)
        with pytest.raises(error):
            run(host)
        assert host.changes_made == 0


def test_a_front_needs_an_engine_that_runs_as_planned() -> None:
    plan = a_plan(slots=4)
    require_engine(plan, InForce(url="http://127.0.0.1:8080", slots=4), 4)
    with pytest.raises(EngineNotAnswering):
        require_engine(plan, InForce(), 4)
    with pytest.raises(EngineNotAnswering):
        require_engine(plan, InForce(url="http://127.0.0.1:8080"), None)
    with pytest.raises(ProblemsFound, match="serves 1 at once and the plan says 4"):
        require_engine(plan, InForce(url="http://127.0.0.1:8080", slots=1), 1)


def test_a_front_stands_where_the_engine_listens_or_would() -> None:
    plan, listen = a_plan(slots=4), Address("127.0.0.1", 8000)
    assert spec_of(plan, InForce(url="http://127.0.0.1:9999"), listen).servers[0].address == Address("127.0.0.1", 9999)
    assert spec_of(plan, InForce(), listen).servers[0].address == Address("127.0.0.1", 8080)


def test_ways_around_the_queue_and_open_doors_are_said() -> None:
    host = machine()
    assert ways_around(host, SPEC) == ()
    (door,) = ways_around(host, replace(SPEC, listen=Address("0.0.0.0", 8000)))
    assert "no password" in door
    host.stranger = ListeningSocket("0.0.0.0", 8080, ENGINE_PID)
    (around,) = ways_around(host, SPEC)
    assert "0.0.0.0:8080" in around
    assert "goes around the queue" in around


def failed(host: FrontMachine) -> set[str]:
    report = verify_applied_front(host)
    assert report is not None
    return {check.name for check in report.checks if check.status is CheckStatus.FAIL}


def test_verification_sees_what_became_of_the_front() -> None:
    host = machine()
    run(host)
    assert failed(host) == set()
    host.running[ENGINE_UNIT] = (PROGRAM, "--parallel", "2")
    assert failed(host) == {"front_slots"}
    host.running[ENGINE_UNIT] = (PROGRAM, "--parallel", "4")
    host.files[CONFIGURATION_PATH] = FakeFile("# edited\n")
    assert failed(host) == {"front_file"}
    host.running.pop(UNIT)
    assert failed(host) == {"front_file", "front_unit", "front_listener", "front_limits", "front_reaches_engine"}


def test_a_damaged_memory_is_an_error_and_not_no_front() -> None:
    host = machine()
    run(host)
    host.files["/var/lib/llmops/applied-haproxy.json"] = FakeFile("{")
    with pytest.raises(UnreadableInput):
        applied_front(host)


@pytest.mark.parametrize(
    "remembered",
    [
        # As llmops wrote it before there were several servers.
        {"engine": "llama-server", "server": {"host": "127.0.0.1", "port": 8080}, "slots": 2},
        {**encode(SPEC), "listen": {"host": "localhost", "port": 8000}},
    ],
)
def test_what_another_llmops_remembered_says_what_to_do(remembered: object) -> None:
    host = machine()
    text = json.dumps({"schema": 1, "data": {"front": remembered}})
    host.files["/var/lib/llmops/applied-haproxy.json"] = FakeFile(text)
    with pytest.raises(UnreadableInput, match="another llmops remembered") as caught:
        verify_applied_front(host)
    assert "llmops apply --front haproxy --listen" in str(caught.value.hint)


def test_the_history_keeps_what_was_written() -> None:
    host = machine()
    run(host)
    (kept,) = checkpoint.read_checkpoints(host)
    assert (kept.engine, kept.reloadable, kept.summary) == (
        "haproxy", True, "front at 127.0.0.1:8000: 4 served, 3 waiting",
    )  # fmt: skip
    assert all(isinstance(change, Change) for change in kept.changes)
