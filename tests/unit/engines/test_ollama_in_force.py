"""What is found of an Ollama, what it serves, and how that compares with a plan."""

from __future__ import annotations

import json
from collections.abc import Mapping

import pytest

from llmops.core.errors import EngineNotAnswering
from llmops.core.verification import Check, CheckStatus
from llmops.core.version import Version
from llmops.engines.base import Health
from llmops.engines.found import InForce
from llmops.engines.ollama.address import read_address
from llmops.engines.ollama.api import queue_check
from llmops.engines.ollama.runners import server_config
from llmops.host import ListeningSocket, ProcessInfo, Response
from llmops.load.ollama_durations import read_durations
from tests.unit.engines.ollama_host import (
    BLOB,
    DROP_IN,
    ENGINE,
    NEW,
    OLD,
    UNIT,
    URL,
    OllamaHost,
    a_host,
    a_plan,
    child,
    installed,
    load,
    server,
)

PLAN = a_plan(queue_requests=7, threads=8)
WANTED = {one.name: one.value or "" for one in ENGINE.settings(PLAN, installed())}


@pytest.mark.parametrize(
    ("value", "url"),
    [
        (None, "http://127.0.0.1:11434"),
        ("", "http://127.0.0.1:11434"),
        ("0.0.0.0", "http://127.0.0.1:11434"),
        ("1.2.3.4", "http://1.2.3.4:11434"),
        (":1234", "http://127.0.0.1:1234"),
        ("example.com", "http://example.com:11434"),
        ("::1", "http://[::1]:11434"),
        ("[::]:9000", "http://[::1]:9000"),
        ("http://1.2.3.4", "http://1.2.3.4:80"),
        ("https://1.2.3.4", "https://1.2.3.4:443"),
        ("1.2.3.4:66000", "http://1.2.3.4:11434"),
        ("1.2.3.4:-1", "http://1.2.3.4:11434"),
        (' "1.2.3.4:9" ', "http://1.2.3.4:9"),
        ("https://example.com/ollama", "https://example.com:443"),
    ],
)
def test_where_it_listens(value: str | None, url: str) -> None:
    assert read_address(value).url == url


def test_the_official_unit_is_found_with_the_version_of_its_server() -> None:
    host = a_host()
    host.says(("/usr/local/bin/ollama", "--version"), "ollama version is 0.99.0\n")
    (found,) = ENGINE.detect(host)
    assert (found.managed_by, found.unit, found.pid, found.version_text) == ("unit", UNIT, 50, NEW)
    assert found.version == Version((0, 32, 15))


def test_a_server_that_does_not_run_is_asked_through_its_program() -> None:
    host = a_host(pid=0)
    host.running, host.answers = (), {}
    said = "Warning: could not connect to a running Ollama instance\nWarning: client version is 0.24.0\n"
    host.says(("/usr/local/bin/ollama", "--version"), "", stderr=said)
    (found,) = ENGINE.detect(host)
    assert (found.managed_by, found.pid, found.version_text) == ("unit", None, "0.24.0")


def test_a_build_without_a_version_counts_as_unknown() -> None:
    (found,) = ENGINE.detect(a_host("0.0.0"))
    assert (found.version, found.version_text) == (None, "0.0.0")


@pytest.mark.parametrize(
    ("group", "words", "managed_by"),
    [
        ("/user.slice/user-1000.slice/session-2.scope", ("/usr/local/bin/ollama", "serve"), "process"),
        ("/user.slice/x.scope", ("/usr/bin/python3", "/opt/ollama/ollama", "serve"), "process"),
        ("/system.slice/docker-" + "a" * 64 + ".scope", ("/bin/ollama", "serve"), "docker"),
        ("/machine.slice/libpod-" + "b" * 64 + ".scope", ("/bin/ollama", "serve"), "podman"),
        ("/system.slice/snap.x", ("/snap/ollama/7/bin/ollama", "serve"), "snap"),
    ],
)
def test_servers_outside_units(group: str, words: tuple[str, ...], managed_by: str) -> None:
    host = OllamaHost(running=(ProcessInfo(9, 1, words[0], words, (), 0, group),))
    host.answers[f"{URL}/api/version"] = Response(200, '{"version":"0.32.15"}')
    found = ENGINE.detect(host)[0]
    assert (found.managed_by, found.pid, found.unit) == (managed_by, 9, None)


def test_clients_and_runners_are_no_servers() -> None:
    words = (("/usr/bin/ollama", "run", "qwen3"), ("/usr/bin/ollama", "runner", "--model", BLOB), ("vi", "ollama"))
    host = OllamaHost(running=tuple(child(70 + place, *one) for place, one in enumerate(words)))
    assert ENGINE.detect(host) == ()


def in_force(host: OllamaHost) -> InForce:
    return ENGINE.in_force(host, installed())


def running_as_planned(**changes: str) -> OllamaHost:
    host = a_host(environment={"HOME": "/usr/share/ollama", **WANTED, **changes})
    host.unit(UNIT, "[Service]\nExecStart=/usr/local/bin/ollama serve\n", main_pid=50, zz_llmops="[Service]\n")
    shown = " ".join(f"{name}:{value}" for name, value in sorted({**WANTED, **changes}.items()))
    host.journal = f'level=INFO source=routes.go:1951 msg="server config" env="map[{shown} http_proxy:]"\n'
    load(host)
    return host


def checks(host: OllamaHost) -> dict[str, Check]:
    seen = in_force(host)
    found = ENGINE.checks(ENGINE.expectations(PLAN, installed(), seen), installed(), seen)
    return {check.name: check for check in found}


def test_everything_as_planned() -> None:
    found = checks(running_as_planned())
    assert {check.status for check in found.values()} == {CheckStatus.PASS}
    assert found["drop_in"].observed == DROP_IN
    assert found["slots"].observed == "2"


def test_what_is_seen_of_a_loaded_model() -> None:
    seen = in_force(running_as_planned())
    assert (seen.slots, seen.context_tokens_per_slot, seen.model_path) == (2, 8192, BLOB)
    assert (seen.pids, seen.computing_pid, seen.processing) == ((50, 60), 60, 1)
    assert seen.resident_bytes == 960_000 * 1024


def test_a_variable_that_did_not_arrive() -> None:
    host = running_as_planned()
    host.running = (server(50, {"HOME": "/"}), *host.running[1:])
    found = checks(host)
    assert found["OLLAMA_NUM_PARALLEL"].status is CheckStatus.FAIL
    assert found["OLLAMA_NUM_PARALLEL"].observed == "unset"


def test_one_slot_that_was_forced_is_seen_on_the_command_line() -> None:
    host = running_as_planned()
    host.running = host.running[:1]
    load(host, slots=1)
    found = checks(host)["slots"]
    assert (found.status, found.observed) == (CheckStatus.FAIL, "1")
    assert "whatever OLLAMA_NUM_PARALLEL says" in found.detail


def test_a_modelfile_that_beats_the_context() -> None:
    host = running_as_planned()
    host.running = host.running[:1]
    load(host, context=4096)
    found = checks(host)
    assert found["slot_context"].observed == "4096"
    assert found["loaded_context"].status is CheckStatus.FAIL


def test_the_old_scheduler_says_slots_in_its_log() -> None:
    host = a_host(OLD, environment={"HOME": "/"})
    host.running = (*host.running, child(60, "/usr/local/bin/ollama", "runner", "--model", BLOB, "--port", "4"))
    host.files["/proc/60/status"] = "VmRSS:\t 900000 kB\n"
    load_line = 'msg=load request="{Operation:commit LoraPath:[] Parallel:2 BatchSize:512 KvSize:16384 UseMmap:false}"'
    host.journal = f"time=x level=INFO source=runner.go:1172 {load_line}\n"
    seen = in_force(host)
    assert (seen.slots, seen.context_tokens_per_slot) == (2, 8192)


def test_the_oldest_runners_say_slots_on_their_command_line() -> None:
    host = a_host("0.9.6", environment={"HOME": "/"})
    words = (
        "/usr/local/bin/ollama",
        "runner",
        "--model",
        BLOB,
        "--ctx-size",
        "16384",
        "--parallel",
        "4",
        "--port",
        "4",
    )
    host.running = (*host.running, child(60, *words))
    assert in_force(host).context_tokens_per_slot == 4096


def test_an_old_line_of_the_log_is_no_failure() -> None:
    host = running_as_planned()
    host.journal = 'msg="server config" env="map[OLLAMA_NUM_PARALLEL:1 OLLAMA_MAX_QUEUE:512]"\n'
    assert checks(host)["server_config"].status is CheckStatus.NOT_EVALUATED


def test_values_with_spaces_in_the_log() -> None:
    line = 'msg="server config" env="map[OLLAMA_ORIGINS:[http://a http://b] OLLAMA_NUM_PARALLEL:4 no_proxy:]"'
    found = dict(server_config([line]) or ())
    assert found["OLLAMA_ORIGINS"] == "[http://a http://b]"
    assert found["OLLAMA_NUM_PARALLEL"] == "4"


def test_somebody_else_on_the_port() -> None:
    host = running_as_planned()
    host.listeners = (ListeningSocket("127.0.0.1", 11434, 99),)
    assert checks(host)["listener"].observed == "process 99"


def test_nothing_loaded_is_not_evaluated() -> None:
    host = running_as_planned()
    host.running = host.running[:1]
    host.answers[f"{URL}/api/ps"] = Response(200, '{"models":[]}')
    found = checks(host)
    assert {found[name].status for name in ("slots", "loaded_context", "gpu_share")} == {CheckStatus.NOT_EVALUATED}


def test_a_model_that_lies_half_on_the_processor() -> None:
    plan = a_plan(gpu_layers=37)
    host = running_as_planned()
    host.running = host.running[:1]
    load(host, gpu=0.5)
    seen = in_force(host)
    found = {one.name: one for one in ENGINE.checks(ENGINE.expectations(plan, installed(), seen), installed(), seen)}
    assert found["gpu_share"].status is CheckStatus.FAIL
    assert "shorter context" in found["gpu_share"].detail


def test_what_a_person_chose_is_served() -> None:
    chosen = {"OLLAMA_CONTEXT_LENGTH": "8192", "OLLAMA_MAX_LOADED_MODELS": "1", "OLLAMA_NUM_PARALLEL": "3"}
    served = ENGINE.served(in_force(a_host(environment=chosen)), installed())
    assert served is not None
    assert (served.values.slots, served.values.context_tokens) == (3, 8192)
    assert served.values.prompt_cache_bytes == 8192 * 1024**2
    assert ENGINE.served(in_force(a_host(environment={"OLLAMA_NUM_PARALLEL": "3"})), installed()) is None


def test_health() -> None:
    host = a_host()
    assert ENGINE.health(host, URL) is Health.READY
    assert ENGINE.health(host, "http://127.0.0.1:1") is Health.DOWN
    host.answers[f"{URL}/api/version"] = Response(200, "<html>")
    assert ENGINE.health(host, URL) is Health.NONSENSE


def test_loading_a_model() -> None:
    host, asked = a_host(), []

    def generate(payload: Mapping[str, object]) -> Response:
        asked.append(payload["model"])
        return Response(200, '{"done":true,"done_reason":"load"}')

    host.posts[f"{URL}/api/generate"] = generate
    assert ENGINE.prepare(host, PLAN, in_force(host))
    assert asked == ["qwen3:8b"]
    host.posts[f"{URL}/api/generate"] = lambda _: Response(500, '{"error":"model requires more system memory (9 GiB)"}')
    with pytest.raises(EngineNotAnswering, match="more system memory"):
        ENGINE.prepare(host, PLAN, in_force(host))


def answer(total: float, load_seconds: float = 0.01, prompt: float = 0.2, reply: float = 0.5) -> str:
    names = ("total_duration", "load_duration", "prompt_eval_duration", "eval_duration")
    values = {name: int(value * 1e9) for name, value in zip(names, (total, load_seconds, prompt, reply), strict=True)}
    return json.dumps({"done": True, "done_reason": "stop", "prompt_eval_count": 40, "eval_count": 16, **values})


@pytest.mark.parametrize(
    ("total", "status"), [(0.75, CheckStatus.PASS), (3.0, CheckStatus.FAIL), (None, CheckStatus.NOT_EVALUATED)]
)
def test_the_wait_for_a_slot(total: float | None, status: CheckStatus) -> None:
    host = a_host()
    host.posts[f"{URL}/api/chat"] = lambda _: Response(200, "{}" if total is None else answer(total))
    found = queue_check(host, PLAN, in_force(host), "qwen3:8b")
    assert found.status is status


@pytest.mark.parametrize(
    ("answers", "status"),
    [
        # Each of 16 tokens in 2 s; one waits for the other, or a busy machine delays both.
        ([answer(2.3, reply=2.0), answer(4.4, reply=2.0)] * 2, CheckStatus.FAIL),
        ([answer(3.2, reply=2.0), answer(3.3, reply=2.0)], CheckStatus.PASS),
        # A busy moment, and then none.
        ([answer(0.8), answer(2.5), answer(0.8), answer(0.9)], CheckStatus.PASS),
    ],
)
def test_a_busy_machine_is_no_queue(answers: list[str], status: CheckStatus) -> None:
    host, given = a_host(), iter(answers)
    host.posts[f"{URL}/api/chat"] = lambda _: Response(200, next(given))
    found = queue_check(host, PLAN, in_force(host), "qwen3:8b")
    assert found.status is status, found
    assert next(given, None) is None


def test_durations() -> None:
    found = read_durations(answer(3.0))
    assert found is not None
    assert found.queue_seconds == pytest.approx(2.29)
    assert (found.prompt_tokens, found.reply_tokens, found.done_reason) == (40, 16, "stop")
    assert read_durations('{"done":false}') is None
    assert read_durations("no JSON") is None
    warm = read_durations('{"done":true,"total_duration":1000000}')
    assert warm is not None
    assert warm.load_seconds == 0.0
