"""What llmops relies on in llama-server, asked of the real binary and of the embedded server alike."""

from __future__ import annotations

import http.client
import json
import re
import signal
import subprocess
import time
import urllib.error
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from llmops.engines.llama_server.help import read_help, read_version
from llmops.host.local import LocalHost
from llmops.load import stream_one
from tests.engines.conftest import RunningServer, stop
from tests.engines.http_calls import ANSWER_SECONDS, Answer, a_free_port, call, chat, stream

pytestmark = pytest.mark.engines

SMALL = ("-t", "1", "--no-repack", "--cache-ram", "0", "--ctx-checkpoints", "0", "--no-warmup")
MIB = 1 << 20


def ended(command: tuple[str, ...], *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a server that is expected to end by itself."""
    words = [*command, *arguments]
    return subprocess.run(
        words, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=ANSWER_SECONDS, check=False
    )


@pytest.fixture(scope="module")
def url(server_command: tuple[str, ...], running_server: RunningServer, model_path: str) -> Iterator[str]:
    """Two slots of 1024 tokens with metrics."""
    with running_server(server_command, "-m", model_path, "-np", "2", "-c", "2048", "--metrics", *SMALL) as address:
        yield address


def test_health_is_ok(url: str) -> None:
    answer = call(f"{url}/health")
    assert (answer.status, answer.document) == (200, {"status": "ok"})


def test_props_tell_slots_and_context_of_one_slot(url: str, model_path: str) -> None:
    props = call(f"{url}/props").document
    assert props["total_slots"] == 2
    assert props["default_generation_settings"]["n_ctx"] == 1024
    assert props["model_path"] == model_path
    assert re.fullmatch(r"b\d+-\w+", props["build_info"])


def test_slots_are_listed_with_their_context(url: str) -> None:
    slots = call(f"{url}/slots").document
    assert [(slot["id"], slot["n_ctx"], slot["is_processing"]) for slot in slots] == [
        (0, 1024, False),
        (1, 1024, False),
    ]


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + ANSWER_SECONDS
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def health(url: str) -> int | None:
    """The status of /health; None where nobody answers."""
    with suppress(urllib.error.URLError, ConnectionError):
        return call(f"{url}/health").status
    return None


def metric(url: str, name: str) -> float:
    """One value of /metrics."""
    match = re.search(rf"^llamacpp:{name} (\S+)$", call(f"{url}/metrics").text, re.MULTILINE)
    assert match, name
    return float(match.group(1))


def test_metrics_count_generated_tokens(url: str) -> None:
    before = metric(url, "tokens_predicted_total")
    assert call(f"{url}/v1/chat/completions", chat("Count to ten.", 7)).status == 200
    assert metric(url, "tokens_predicted_total") - before == 7
    assert metric(url, "requests_processing") == 0
    assert metric(url, "requests_deferred") == 0


def test_last_event_of_a_stream_carries_timings(url: str) -> None:
    answer = stream(url, "/v1/chat/completions", chat("Tell me about rivers.", 12))
    timings = answer.events[-1]["timings"]
    assert answer.done
    assert timings["predicted_n"] == 12
    assert timings["prompt_n"] > 0
    assert timings["prompt_ms"] > 0
    assert timings["predicted_ms"] < answer.seconds * 1000


def test_prompt_above_the_slot_is_refused_not_cut(url: str) -> None:
    answer = call(f"{url}/v1/chat/completions", chat("word " * 1500, 4))
    error = answer.document["error"]
    assert answer.status == 400
    assert error["type"] == "exceed_context_size_error"
    assert error["n_ctx"] == 1024 < error["n_prompt_tokens"]


def test_reply_at_the_end_of_the_slot_is_cut_and_says_so(url: str) -> None:
    answer = call(f"{url}/completion", {"prompt": "word " * 1000, "n_predict": 500, "ignore_eos": True}).document
    assert answer["truncated"] is True
    assert answer["stop_type"] == "limit"


def test_slots_query_says_503_when_all_are_busy(url: str) -> None:
    with ThreadPoolExecutor(2) as pool:
        jobs = [pool.submit(stream, url, "/v1/chat/completions", chat(f"Story {n}", 200)) for n in range(2)]
        seen = set()
        while not all(job.done() for job in jobs):
            seen.add(call(f"{url}/slots?fail_on_no_slot=1").status)
    assert 503 in seen
    assert call(f"{url}/slots?fail_on_no_slot=1").status == 200
    assert all(job.result().done for job in jobs)


def test_headers_come_when_a_slot_takes_the_request(
    server_command: tuple[str, ...], running_server: RunningServer, model_path: str
) -> None:
    with running_server(server_command, "-m", model_path, "-np", "1", "-c", "1024", *SMALL) as address:
        with ThreadPoolExecutor(2) as pool:
            running = pool.submit(stream, address, "/v1/chat/completions", chat("First story", 300))
            until(lambda: call(f"{address}/slots").document[0]["is_processing"])
            waiting = pool.submit(stream, address, "/v1/chat/completions", chat("Second story", 10))
        first, second = running.result(), waiting.result()
        assert first.headers_at < first.event_times[len(first.events) // 2]
        assert second.began < first.event_times[-1], "they were there at the same time"
        assert second.headers_at > first.event_times[len(first.events) * 4 // 5]


def answers_of_a_start(command: list[str]) -> list[Answer]:
    """Everything that /health says from the first answer to the first 200."""
    port = a_free_port()
    process = subprocess.Popen([*command, "--port", str(port)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    answers: list[Answer] = []
    try:
        deadline = time.monotonic() + ANSWER_SECONDS
        while not (answers and answers[-1].status == 200):
            assert process.poll() is None and time.monotonic() < deadline
            with suppress(urllib.error.URLError, ConnectionError):
                answers.append(call(f"http://127.0.0.1:{port}/health"))
    finally:
        stop(process)
    return answers


def test_every_route_says_503_while_the_model_loads(server_command: tuple[str, ...], model_path: str) -> None:
    command = [*server_command, "-m", model_path, "-np", "1", "-c", "512", *SMALL]
    # The small model may be loaded before a busy machine lets us ask for the first time: then it is started again.
    starts = (answers_of_a_start(command) for _ in range(10))
    *loading, ready = next(answers for answers in starts if len(answers) > 1)
    assert {answer.status for answer in loading} == {503}
    assert {answer.document["error"]["message"] for answer in loading} == {"Loading model"}
    assert ready.status == 200


@pytest.mark.parametrize(
    ("arguments", "slots", "context_tokens"),
    [
        (("-np", "2", "-c", "2048", "-kvu"), 2, 2048),
        (("-np", "2", "-c", "2048", "-no-kvu"), 2, 1024),
        (("-np", "3", "--ctx_size", "2048"), 3, 768),
        (("-c", "1024"), 4, 1024),
        (("-np", "1", "-c", "0"), 1, 32768),
    ],
)
def test_slots_and_contexts(
    server_command: tuple[str, ...],
    running_server: RunningServer,
    model_path: str,
    arguments: tuple[str, ...],
    slots: int,
    context_tokens: int,
) -> None:
    with running_server(server_command, "-m", model_path, *arguments, *SMALL) as address:
        props = call(f"{address}/props").document
        assert props["total_slots"] == slots
        assert props["default_generation_settings"]["n_ctx"] == context_tokens
        assert call(f"{address}/metrics").status == 501


@pytest.mark.parametrize(("cache_type", "block_bytes"), [("f16", 64), ("q8_0", 34), ("q4_0", 18)])
def test_json_log_tells_the_cache_to_the_mebibyte(
    server_command: tuple[str, ...], model_path: str, free_port: int, cache_type: str, block_bytes: int
) -> None:
    # 3 layers keep 2048 tokens, 15 keep a window of 512 and a batch of 512; 256 keys and 256 values per token.
    expected = 2 * (3 * 2048 + 15 * 1024) * 512 * block_bytes / 32 / MIB
    words = ["-m", model_path, "-np", "2", "-c", "4096", "-ctk", cache_type, "-ctv", cache_type, "-ub", "512"]
    command = [*server_command, *words, "--port", str(free_port), "--log-jsonl", *SMALL]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        assert process.stdout is not None
        events = (json.loads(line) for line in process.stdout)
        event = next(event for event in events if event["type"] == "fit_memory_breakdown")
    finally:
        process.kill()
        process.wait()
    host = next(row for row in event["data"]["rows"] if row["kind"] == "host")
    assert abs(host["context"] - expected) <= 1
    assert host["model"] > 200


def test_api_keys_protect_all_but_health(
    server_command: tuple[str, ...], running_server: RunningServer, model_path: str, tmp_path: Path
) -> None:
    keys = tmp_path / "keys"
    keys.write_text("# of the team\nsecret-one\n")
    arguments = ("-m", model_path, "-np", "1", "-c", "512", "--api-key-file", str(keys), "--alias", "small")
    with running_server(server_command, *arguments, *SMALL) as address:
        assert call(f"{address}/health").status == 200
        assert call(f"{address}/props").status == 401
        answer = call(f"{address}/props", headers={"Authorization": "Bearer secret-one"})
        assert (answer.status, answer.document["model_alias"]) == (200, "small")
        refused = stream_one(LocalHost(), address, "hello", 4)
        assert (refused.status, refused.token_seconds) == (401, ())
        host = LocalHost(api_key="secret-one")
        assert host.get(f"{address}/props").status == 200
        assert stream_one(host, address, "hello", 4).reply_tokens == 4


def test_idle_server_goes_to_sleep_and_wakes(
    server_command: tuple[str, ...], running_server: RunningServer, model_path: str
) -> None:
    arguments = ("-m", model_path, "-np", "1", "-c", "512", "--sleep-idle-seconds", "1", *SMALL)
    with running_server(server_command, *arguments) as address:
        until(lambda: call(f"{address}/props").document["is_sleeping"])
        with closing(http.client.HTTPConnection(urlsplit(address).netloc, timeout=ANSWER_SECONDS)) as connection:
            kind = {"Content-Type": "application/json"}
            connection.request(
                "POST", "/v1/chat/completions", json.dumps({**chat("Wake up.", 400), "stream": True}), kind
            )
            answer = connection.getresponse()
            assert (answer.status, answer.readline()[:6]) == (200, b"data: ")
            assert call(f"{address}/props").document["is_sleeping"] is False, "it is still answering"
        until(lambda: call(f"{address}/props").document["is_sleeping"])


def catches(pid: int, number: signal.Signals) -> bool:
    """Whether the process has a handler for this signal (proc(5), SigCgt)."""
    status = Path(f"/proc/{pid}/status").read_text()
    caught = next(int(line.split()[1], 16) for line in status.splitlines() if line.startswith("SigCgt"))
    return bool(caught >> (number - 1) & 1)


def test_sigterm_ends_an_idle_server_with_0(server_command: tuple[str, ...], model_path: str, free_port: int) -> None:
    command = [*server_command, "-m", model_path, "--port", str(free_port), "-np", "1", "-c", "512", *SMALL]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        until(lambda: health(f"http://127.0.0.1:{free_port}") == 200)
        # A server answers a moment before it handles signals: until then one ends it as any program.
        until(lambda: catches(process.pid, signal.SIGTERM))
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
        with pytest.raises(urllib.error.URLError):
            call(f"http://127.0.0.1:{free_port}/health")
    finally:
        process.kill()


@pytest.mark.parametrize("flag", ["--no-such-flag", "--no-mmap", "--mlock", "--parallel=2", "word"])
def test_unknown_words_are_refused(server_command: tuple[str, ...], model_path: str, flag: str) -> None:
    result = ended(server_command, "-m", model_path, flag)
    assert result.returncode == 1
    assert f"error: invalid argument: {flag}" in result.stderr.splitlines()


@pytest.mark.parametrize(
    ("arguments", "flag"),
    [
        (("-np", "0"), "-np"),
        (("-c", "many"), "-c"),
        (("-ctk", "f8"), "-ctk"),
        (("-fa",), "-fa"),
        (("-fa", "yes"), "-fa"),
        (("-lm", "slowly"), "-lm"),
        (("-fit", "maybe"), "-fit"),
        (("--api-key-file", "/no/such/file"), "--api-key-file"),
    ],
)
def test_impossible_values_are_refused_with_the_flag_named(
    server_command: tuple[str, ...], model_path: str, arguments: tuple[str, ...], flag: str
) -> None:
    result = ended(server_command, "-m", model_path, *arguments)
    assert result.returncode == 1
    assert f'error while handling argument "{flag}"' in result.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("-m", "/no/such/model.gguf"), "/no/such/model.gguf"),
        (("-m", "MODEL", "-np", "300"), "n_seq_max must be <= 256"),
        (("-m", "MODEL", "-ctv", "q8_0", "-fa", "off"), "quantized V cache requires"),
        (("-m", "MODEL", "--host", "192.0.2.1"), "couldn't bind HTTP server socket"),
    ],
)
def test_impossible_starts_end_with_1_and_say_why(
    server_command: tuple[str, ...], model_path: str, free_port: int, arguments: tuple[str, ...], words: str
) -> None:
    given = [model_path if word == "MODEL" else word for word in arguments]
    result = ended(server_command, *given, "--port", str(free_port))
    assert result.returncode == 1
    assert words in result.stderr


def test_version_is_read_by_one_parser(server_command: tuple[str, ...]) -> None:
    result = ended(server_command, "--version")
    _, text = read_version(result.stderr)
    assert result.returncode == 0
    assert text is not None
    assert re.search(r"\(build \d+, commit \w+\)$", text)


def test_embedded_flags_are_flags_of_the_binary(
    llama_server: tuple[str, ...], embedded_server: tuple[str, ...]
) -> None:
    binary = read_help(ended(llama_server, "--help").stdout)
    embedded = read_help(ended(embedded_server, "--help").stdout)
    assert len(embedded.flags) > 60
    assert embedded.flags <= binary.flags
    assert embedded.valued == binary.valued & embedded.flags
