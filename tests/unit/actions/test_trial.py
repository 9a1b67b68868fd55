"""Trials: a child that serves, one that ends, one that is late, one that is somebody else; always stopped."""

from __future__ import annotations

import json

import pytest

from llmops.actions.trial import trial
from llmops.core.errors import DoesNotFit, EngineNotAnswering, Interrupted, LlmopsError, Misconfigured, NotInstalled
from llmops.core.plan import Plan
from llmops.engines.llama_server import programs
from llmops.host import ListeningSocket, Response
from tests.unit.actions.answering import ENGINE, Answering, Child, on_disk
from tests.unit.engines.llama_host import SERVER, a_plan, installed

PLENTY = {"/proc/meminfo": "MemTotal: 134217728 kB\nMemAvailable: 134217728 kB\nSwapTotal: 0 kB\nSwapFree: 0 kB\n"}


def machine(**changes: object) -> Answering:
    return Answering(files=dict(PLENTY), **changes)  # type: ignore[arg-type]


def run(host: Answering, plan: Plan | None = None, *, ready_seconds: float = 5.0) -> list[str]:
    said: list[str] = []
    plan = plan or a_plan()
    trial(host, ENGINE, on_disk(), plan, progress=said.append, ready_seconds=ready_seconds)
    return said


def test_a_good_trial() -> None:
    host = machine()
    plan = a_plan()
    result = trial(host, ENGINE, on_disk(), plan, progress=lambda _line: None)
    assert result.report.failed == ()
    assert result.rates is not None
    assert result.argv[1:3] == ("--model", plan.model.source_paths[0])
    assert result.resident_bytes == 600_000 * 1024
    names = {check.name for check in result.report.checks}
    assert {"two_requests", "no_swap", "listener", "resident_memory", "cache_memory"} <= names
    assert [child.stopped for child in host.spawned] == [True]


def test_ports_in_use_are_not_taken() -> None:
    host = machine(seconds=1.0)
    host.listeners = tuple(ListeningSocket("127.0.0.1", port, 1) for port in range(20_000, 32_000))
    run(host)
    assert host.listeners[-1].port >= 32_000


def test_a_port_lost_in_a_race_is_replaced() -> None:
    def start(host: Answering, words: tuple[str, ...]) -> Child:
        if not host.spawned:
            return Child(host, code=1, text="E srv start: couldn't bind HTTP server socket, port: 1")
        return host.serve(words)

    host = machine(starts=start)
    run(host)
    assert [child.stopped for child in host.spawned] == [True, True]


def test_a_port_that_is_lost_every_time_is_an_error() -> None:
    host = machine(starts=lambda host, _: Child(host, code=1, text="couldn't bind HTTP server socket"))
    with pytest.raises(EngineNotAnswering, match="another program has the port"):
        run(host)
    assert len(host.spawned) == 3


@pytest.mark.parametrize(
    ("code", "text", "says"),
    [
        (1, "error: invalid argument: --no-mmap", "invalid argument: --no-mmap"),
        (139, "load_tensors: AMX model buffer size = 213 MiB", "--no-repack"),
        (137, "", "out of memory"),
        (0, "", "exit code 0"),
    ],
)
def test_a_child_that_ends_early_says_why_and_what_to_do(code: int, text: str, says: str) -> None:
    host = machine(starts=lambda host, _: Child(host, code=code, text=text))
    with pytest.raises(EngineNotAnswering) as raised:
        run(host)
    assert says in raised.value.message
    assert raised.value.exit_code == 11
    assert "llama-server" in str(raised.value.hint)
    assert host.spawned[0].stopped


def test_a_child_that_loads_too_long() -> None:
    def start(host: Answering, words: tuple[str, ...]) -> Child:
        child = host.serve(words)
        for url in [url for url in host.answers if url.endswith("/health")]:
            host.answers[url] = Response(503, json.dumps({"error": {"message": "Loading model"}}))
        return child

    host = machine(starts=start)
    with pytest.raises(EngineNotAnswering, match="still loads its model after 12 s"):
        run(host, ready_seconds=12.0)
    assert host.spawned[0].stopped


def test_waiting_is_shown() -> None:
    said: list[str] = []
    host = machine(starts=lambda host, _: Child(host))
    with pytest.raises(EngineNotAnswering, match="does not answer after 12 s"):
        trial(host, ENGINE, on_disk(), a_plan(), progress=said.append, ready_seconds=12.0)
    assert any("waiting for its first answer (5 s)" in line for line in said)


def test_somebody_else_answers() -> None:
    def start(host: Answering, words: tuple[str, ...]) -> Child:
        child = host.serve(words)
        for url in [url for url in host.answers if url.endswith("/health")]:
            host.answers[url] = Response(200, "<html>hello</html>")
        return child

    host = machine(starts=start)
    with pytest.raises(EngineNotAnswering, match="does not speak the protocol"):
        run(host)
    assert host.spawned[0].stopped


def test_nonsense_is_not_waited_for_as_long_as_a_large_model() -> None:
    def start(host: Answering, words: tuple[str, ...]) -> Child:
        child = host.serve(words)
        for url in [url for url in host.answers if url.endswith("/health")]:
            host.answers[url] = Response(500, "oops")
        return child

    host = machine(starts=start)
    said: list[str] = []
    with pytest.raises(EngineNotAnswering, match="does not speak the protocol"):
        trial(host, ENGINE, on_disk(), a_plan(), progress=said.append)
    assert host.seconds < 30.0
    assert any("an answer that makes sense" in line for line in said)


@pytest.mark.parametrize(
    ("properties", "says"),
    [
        (Response(404, "{}"), "answered HTTP 404"),
        (Response(200, "{}"), "names no slots"),
        (Response(401, "{}"), "wants an API key"),
    ],
)
def test_a_server_that_was_never_asked_for_a_reply_has_not_passed(properties: Response, says: str) -> None:
    def start(host: Answering, words: tuple[str, ...]) -> Child:
        child = host.serve(words)
        for url in [url for url in host.answers if url.endswith("/props")]:
            host.answers[url] = properties
        return child

    host = machine(starts=start)
    with pytest.raises(EngineNotAnswering, match=says):
        run(host)
    assert host.spawned[0].stopped


def test_a_crash_under_load_is_told_as_one() -> None:
    def start(host: Answering, words: tuple[str, ...]) -> Child:
        child = host.serve(words)

        class Dying(Child):
            def exit_code(self) -> int | None:
                return 139 if host.requests else None

        return Dying(host, text=child.text)

    host = machine(starts=start, error="connection reset")
    with pytest.raises(EngineNotAnswering, match="segmentation fault"):
        run(host)


def test_an_interrupted_trial_stops_its_child() -> None:
    host = machine()

    def interrupt(line: str) -> None:
        if "test requests" in line:
            raise Interrupted(15)

    with pytest.raises(Interrupted):
        trial(host, ENGINE, on_disk(), a_plan(), progress=interrupt)
    assert host.spawned[0].stopped


def test_no_room_beside_what_runs_now() -> None:
    host = Answering(files={"/proc/meminfo": "MemTotal: 134217728 kB\nMemAvailable: 1048576 kB\n"})
    with pytest.raises(DoesNotFit, match="beside what runs now") as raised:
        run(host)
    assert raised.value.exit_code == 4
    assert host.spawned == []


def test_a_program_that_cannot_be_used_is_not_started() -> None:
    host = machine()
    broken = installed(problem="libllama.so.0: cannot open shared object file")
    with pytest.raises(Misconfigured, match="libllama"):
        trial(host, ENGINE, broken, a_plan(), progress=lambda _line: None)
    assert host.spawned == []


def test_a_program_that_cannot_be_started() -> None:
    def start(host: Answering, words: tuple[str, ...]) -> Child:
        raise PermissionError(13, "Permission denied")

    with pytest.raises(Misconfigured, match="Permission denied"):
        run(machine(starts=start))


def test_a_program_inside_a_container_is_replaced_by_one_outside() -> None:
    inside = installed(managed_by="docker", command=("/app/llama-server",), detail="container web")
    host = machine(programs={"llama-server": SERVER})
    host.install(SERVER)
    result = trial(host, ENGINE, inside, a_plan(), progress=lambda _line: None)
    assert result.argv[0] == SERVER


def test_a_program_inside_a_container_alone_cannot_be_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs, "EMBEDDED_LIBRARY", "no_such_library_anywhere")
    inside = installed(managed_by="docker", detail="container web")
    with pytest.raises(NotInstalled, match="container web"):
        trial(machine(), ENGINE, inside, a_plan(), progress=lambda _line: None)


def test_every_failure_is_an_error_of_ours() -> None:
    host = machine(error="HTTP 500: boom")
    with pytest.raises(LlmopsError):
        run(host)
    assert host.spawned[0].stopped
