"""A real HAProxy as rendered, before a real llama-server: who is served, who waits, who is refused."""

from __future__ import annotations

import contextlib
import http.client
import http.server
import json
import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from llmops.front import Address, FrontServer, FrontSpec, configuration_file, parse_listen
from tests.engines.conftest import RunningServer, server
from tests.engines.fronted import (
    CHAT,
    QUEUE,
    SLOTS,
    Front,
    answers,
    ask,
    begin,
    check,
    connected,
    front_before,
    full,
    listening_pid,
    load,
    one_too_many_at_once,
    standing_still,
    until,
)
from tests.engines.http_calls import a_free_port, call, chat, stream

pytestmark = [pytest.mark.engines, pytest.mark.timeout(900)]

ROUNDS = 10


@pytest.fixture(scope="module")
def engine_url(llama_server: tuple[str, ...], model_path: str) -> Iterator[str]:
    with server(llama_server, "-m", model_path, "-np", str(SLOTS), "-c", "2048", "-t", "1", "--no-repack") as url:
        yield url


@pytest.fixture
def front(engine_url: str, tmp_path: Path) -> Iterator[Front]:
    with front_before(engine_url, tmp_path) as running:
        yield running


def test_of_six_at_once_five_are_served_and_one_is_refused_at_once(front: Front, engine_url: str) -> None:
    refused_seconds = []
    for _ in range(ROUNDS):
        refused, served = one_too_many_at_once(front, [listening_pid(engine_url)], reply_tokens=8)
        assert [outcome.status for outcome in served] == [200] * (SLOTS + QUEUE)
        assert all(outcome.document["usage"]["completion_tokens"] == 8 for outcome in served)
        assert refused.status == 503
        assert refused.retry_after == "20", "60 s of patience for 3 places"
        error = refused.document["error"]
        assert (error["code"], error["type"]) == (503, "unavailable_error")
        assert "2 requests are served at once and 3 may wait" in error["message"]
        refused_seconds.append(refused.seconds)
    print(f"refused after {', '.join(f'{seconds * 1000:.1f}' for seconds in refused_seconds)} ms")
    assert min(refused_seconds) < 0.1, "other work on the machine only ever adds to it"


def test_who_leaves_the_queue_frees_the_place(front: Front) -> None:
    with full(front) as connections:
        assert ask(connected(front), CHAT, chat("Too many.", 1)).status == 503
        connections[-1].close()
        until(lambda: load(front) == (SLOTS, QUEUE - 1), "the place in the queue to be free")
        late = begin(front, 1)
        until(lambda: load(front) == (SLOTS, QUEUE), "the new one to wait")
        late.close()


def test_who_leaves_while_being_served_frees_the_slot(front: Front) -> None:
    with full(front) as connections:
        connections[0].close()
        until(lambda: load(front) == (SLOTS, QUEUE - 1), "the next one to be served")
        assert connections[2].getresponse().status == 200


def test_cheap_questions_are_answered_while_the_queue_is_full(front: Front) -> None:
    with full(front):
        for path in ("/health", "/props", "/slots", "/v1/models"):
            assert call(f"{front.url}{path}").status == 200, path
        assert call(f"{front.url}/tokenize", {"content": "Hello"}, {"Content-Type": "application/json"}).status == 200
        assert load(front) == (SLOTS, QUEUE)


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE"])
def test_a_body_that_never_comes_reaches_no_engine(front: Front, engine_url: str, method: str) -> None:
    """llama-server reads the body of a GET too: forty of them would take every thread that it has."""
    with contextlib.ExitStack() as senders:
        connections = [senders.enter_context(contextlib.closing(connected(front))) for _ in range(40)]
        for connection in connections:
            connection.putrequest(method, "/slots")
            connection.putheader("Content-Length", "10")
            connection.endheaders()
        assert call(f"{engine_url}/health").status == 200
        assert connections[-1].getresponse().status == 408


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        # What stands behind the sign is dropped by engines: it would be a prompt that counts as a question.
        (b"POST /completion#/tokenize HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}", b"400"),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00", b"400"),
        (b"POST /tokenize HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nContent-Length: 9\r\n\r\n{}", b"400"),
        (b"GET /health HTTP/1.0\r\n\r\n", b"200"),
    ],
)
def test_only_plain_requests_pass(front: Front, sent: bytes, status: bytes) -> None:
    with contextlib.closing(connected(front)) as connection:
        connection.sock.sendall(sent)
        assert connection.sock.recv(100).split(b" ")[1] == status


@pytest.mark.parametrize("listen", ["[::1]:8000", "[::]:8000", "0.0.0.0:80", "[fd00::2]:443"])
@pytest.mark.parametrize("engine", ["llama-server", "ollama", "vllm"])
def test_haproxy_takes_every_configuration_in_silence(engine: str, listen: str, tmp_path: Path) -> None:
    places = (Address("fd00::10", 8000), Address("::1", 8001))
    for servers in (places, places[1:]):
        for queue in (0, QUEUE):
            behind = tuple(FrontServer(place, SLOTS) for place in servers)
            header = "X-Session-Id" if len(servers) > 1 else None
            spec = FrontSpec(engine, behind, parse_listen(listen), queue, 60.0, header)
            (tmp_path / "front.cfg").write_text(configuration_file(spec).content, encoding="utf-8")
            check(tmp_path / "front.cfg")


def test_a_large_prompt_is_refused_as_cleanly_as_a_small_one(front: Front) -> None:
    with full(front):
        for words in (3_000, 30_000, 400_000):
            refused = ask(connected(front), CHAT, chat("word " * words, 1))
            assert (refused.status, refused.retry_after) == (503, "20")


def test_who_waits_too_long_is_told_in_the_same_form(engine_url: str, tmp_path: Path) -> None:
    with front_before(engine_url, tmp_path, patience_seconds=1.0) as front:
        served = [begin(front, 900) for _ in range(SLOTS)]
        until(lambda: load(front) == (SLOTS, 0), "both to be served")
        late = begin(front, 1)
        answer = late.getresponse()
        assert (answer.status, answer.getheader("Retry-After")) == (503, "1")
        assert answer.getheader("Content-Type") == "application/json"
        error = json.loads(answer.read())["error"]
        assert error["type"] == "unavailable_error"
        assert "no slot became free within 1 s" in error["message"]
        assert load(front) == (SLOTS, 0), "the others go on"
        for connection in (*served, late):
            connection.close()


def test_a_stream_arrives_token_by_token_and_unchanged(front: Front, engine_url: str) -> None:
    asked = {**chat("Count to ten.", 20), "seed": 1, "cache_prompt": False}
    direct, through = stream(engine_url, CHAT, asked), stream(front.url, CHAT, asked)
    words = [[event["choices"][0]["delta"] for event in each.events if event["choices"]] for each in (direct, through)]
    assert words[0] == words[1]
    assert through.done
    running = begin(front, 900)
    assert running.getresponse().readline().startswith(b"data: ")
    assert load(front) == (1, 0), "the first words are here before the answer is whole"
    running.close()


def test_a_new_configuration_and_a_stop_cut_no_stream(engine_url: str, tmp_path: Path) -> None:
    with front_before(engine_url, tmp_path) as front, ThreadPoolExecutor(SLOTS) as pool:
        tokens, engine = 100, listening_pid(engine_url)
        running = [pool.submit(stream, front.url, CHAT, chat(f"Story {number}.", tokens)) for number in range(SLOTS)]
        until(lambda: load(front) == (SLOTS, 0), "both to be served")
        with standing_still(engine):
            front.reload(replace(front.spec, queue_requests=QUEUE + 4))
            until(lambda: answers(front) and front.word()["queue"] == QUEUE + 4, "the new configuration")
            assert not any(one.done() for one in running), "they go on while the front is already the new one"
        for one in running:
            assert one.result().done
            assert sum(1 for event in one.result().events if event["choices"]) >= tokens

        last = pool.submit(stream, front.url, CHAT, chat("The last story.", tokens))
        until(lambda: load(front) == (1, 0), "the last one to be served")
        front.process.send_signal(signal.SIGUSR1)  # the unit's KillSignal=
        assert last.result().done
        assert front.process.wait(90) in {0, 143}


def test_without_an_engine_the_answer_says_so(llama_server: tuple[str, ...], tmp_path: Path) -> None:
    with front_before(f"http://127.0.0.1:{a_free_port()}", tmp_path) as front:
        until(lambda: front.word()["engines"][0]["up"] == 0, "the check to fail")
        for path, payload in ((CHAT, chat("Hello", 1)), ("/v1/models", None)):
            answer = call(f"{front.url}{path}", payload)
            assert answer.status == 503
            assert "does not answer" in answer.document["error"]["message"]


def test_checks_let_a_model_sleep(
    llama_server: tuple[str, ...], model_path: str, running_server: RunningServer, tmp_path: Path
) -> None:
    arguments = ("-m", model_path, "-np", "1", "-c", "512", "--no-repack", "--sleep-idle-seconds", "1")
    with running_server(llama_server, *arguments) as url, front_before(url, tmp_path) as front:
        until(lambda: call(f"{front.url}/props").document["is_sleeping"], "the model to sleep")
        time.sleep(6)  # one check at least
        assert call(f"{front.url}/props").document["is_sleeping"]
        assert front.word()["engines"][0]["up"] == 1


class _Loopback(http.server.BaseHTTPRequestHandler):
    """What a loopback Ollama does with Host, and an answer that takes as long as `slow` is not set."""

    slow = threading.Event()

    def do_GET(self) -> None:
        self._answer(200 if self.headers["Host"] == "localhost" else 403)

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.slow.wait(300)
        self.do_GET()

    def _answer(self, status: int) -> None:
        body = b'{"version":"0.0.0"}'
        with contextlib.suppress(ConnectionError):  # who asked has left
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Nothing."""


def test_ollama_sees_a_local_name_and_its_clients_both_forms_of_error(tmp_path: Path) -> None:
    ollama = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Loopback)
    _Loopback.slow.clear()
    threading.Thread(target=ollama.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{ollama.server_address[1]}"
    with front_before(url, tmp_path, engine="ollama") as front:
        assert call(f"{front.url}/api/version", headers={"Host": "chat.example.org"}).status == 200
        with full(front):
            native = ask(connected(front), "/api/chat", {"model": "m"})
            compatible = ask(connected(front), CHAT, {"model": "m"})
            assert call(f"{front.url}/api/tags").status == 200
            assert front.word()["engines"][0]["up"] == 1
        for words in (1, 20_000) * 5:  # a prompt in one packet and in many
            with full(front, words=words), contextlib.closing(connected(front)) as too_many:
                assert ask(too_many, CHAT, chat("word " * words, 1)).status == 503
            # `full` has seen that all who left are gone, although the engine answers nobody
        _Loopback.slow.set()
    ollama.shutdown()
    assert (native.status, compatible.status) == (503, 503)
    assert native.document["error"].startswith("server busy, please try again")
    assert compatible.document["error"]["type"] == "api_error"
    assert compatible.document["error"]["message"] == native.document["error"]


def test_a_request_larger_than_the_buffer_is_passed_whole_and_keeps_its_place(tmp_path: Path) -> None:
    """What docs/how-to/front.md says of prompts above 256 KiB."""
    engine = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Loopback)
    threading.Thread(target=engine.serve_forever, daemon=True).start()
    with front_before(f"http://127.0.0.1:{engine.server_address[1]}", tmp_path, engine="ollama") as front:
        _Loopback.slow.set()
        for words in (60_000, 2_000_000):
            assert ask(connected(front), CHAT, chat("word " * words, 1)).status == 200
        _Loopback.slow.clear()
        running = [begin(front, 1) for _ in range(SLOTS)]
        until(lambda: load(front) == (SLOTS, 0), "both to be served")
        large = begin(front, 1, words=60_000)
        until(lambda: load(front) == (SLOTS, 1), "the large one to wait")
        large.close()
        time.sleep(1)
        assert load(front) == (SLOTS, 1), "it is not noticed"
        _Loopback.slow.set()
        until(lambda: load(front) == (0, 0), "its turn to pass")
        for connection in running:
            assert connection.getresponse().status == 200
            connection.close()
    engine.shutdown()
