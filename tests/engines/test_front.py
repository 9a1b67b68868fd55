"""A real HAProxy as rendered, before a real llama-server: who is served, who waits, who is refused."""

from __future__ import annotations

import contextlib
import http.client
import http.server
import json
import os
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from llmops.front import Address, FrontServer, FrontSpec, address_of_url, configuration_file
from llmops.host.local import LocalHost
from tests.engines.conftest import RunningServer, absent, server
from tests.engines.http_calls import ANSWER_SECONDS, a_free_port, call, chat, stream

pytestmark = [pytest.mark.engines, pytest.mark.timeout(900)]

SLOTS, QUEUE = 2, 3
ROUNDS = 10
CHAT = "/v1/chat/completions"


@dataclass
class Front:
    """A running HAProxy; `spec` is what its configuration was rendered from."""

    spec: FrontSpec
    configuration: Path
    process: subprocess.Popen[bytes]

    @property
    def url(self) -> str:
        return self.spec.listen.url

    def word(self) -> Any:
        return call(f"{self.url}/llmops/front").document

    def reload(self, spec: FrontSpec) -> None:
        """As the unit's ExecReload= does."""
        self.spec = spec
        self.configuration.write_text(configuration_file(spec).content, encoding="utf-8")
        check(self.configuration)
        self.process.send_signal(signal.SIGUSR2)


def program() -> str:
    found = shutil.which("haproxy", path="/usr/local/sbin:/usr/sbin:/usr/local/bin:/usr/bin")
    if found is None:
        absent("haproxy")
    return str(found)


def check(configuration: Path) -> None:
    checked = subprocess.run([program(), "-c", "-f", configuration], capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stderr
    assert "WARNING" not in checked.stderr, checked.stderr


@contextlib.contextmanager
def front_before(
    url: str, directory: Path, *, engine: str = "llama-server", patience_seconds: float = 60.0
) -> Iterator[Front]:
    servers = (FrontServer(address_of_url(url), SLOTS),)
    spec = FrontSpec(engine, servers, Address("127.0.0.1", a_free_port()), QUEUE, patience_seconds)
    configuration = directory / "front.cfg"
    configuration.write_text(configuration_file(spec).content, encoding="utf-8")
    check(configuration)
    with (directory / "front.log").open("wb") as log:
        words = [program(), "-Ws", "-f", str(configuration)]
        process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    front = Front(spec, configuration, process)
    try:
        until(lambda: answers(front), "the front to listen")
        yield front
    finally:
        if process.poll() is None:
            process.terminate()
        process.wait(90)


def answers(front: Front) -> bool:
    with contextlib.suppress(OSError):
        return bool(front.word()["slots"])
    return False


def until(condition: Callable[[], bool], what: str, seconds: float = 120.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"waited {seconds} s for {what}"
        time.sleep(0.01)


@pytest.fixture(scope="module")
def engine_url(llama_server: tuple[str, ...], model_path: str) -> Iterator[str]:
    with server(llama_server, "-m", model_path, "-np", str(SLOTS), "-c", "2048", "-t", "1", "--no-repack") as url:
        yield url


@pytest.fixture
def front(engine_url: str, tmp_path: Path) -> Iterator[Front]:
    with front_before(engine_url, tmp_path) as running:
        yield running


@dataclass(frozen=True)
class Outcome:
    status: int
    seconds: float
    retry_after: str | None
    document: Any


def ask(connection: http.client.HTTPConnection, path: str, payload: object) -> Outcome:
    """POST over a connection that is open already, so that only the front's own time is measured."""
    body = json.dumps(payload)
    began = time.monotonic()
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # refused before the whole body was sent
        connection.request("POST", path, body, {"Content-Type": "application/json"})
    answer = connection.getresponse()
    seconds = time.monotonic() - began
    document = json.loads(answer.read())
    connection.close()
    return Outcome(answer.status, seconds, answer.getheader("Retry-After"), document)


def connected(front: Front) -> http.client.HTTPConnection:
    connection = http.client.HTTPConnection(urlsplit(front.url).netloc, timeout=ANSWER_SECONDS)
    connection.connect()
    return connection


def listening_pid(url: str) -> int:
    """The process that answers there."""
    port = int(url.rpartition(":")[2])
    (pid,) = {listener.pid for listener in LocalHost().listening_sockets() if listener.port == port}
    assert pid is not None
    return pid


@contextlib.contextmanager
def standing_still(pid: int) -> Iterator[None]:
    """Nothing that this process does ends meanwhile, however long the rest takes on a busy machine."""
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def one_too_many_at_once(front: Front, engine: int, reply_tokens: int) -> tuple[Outcome, list[Outcome]]:
    """Who is refused while the engine has answered nobody yet, and the others."""
    requests = SLOTS + QUEUE + 1
    barrier = threading.Barrier(requests)
    connections = [connected(front) for _ in range(requests)]

    def one(number: int) -> Outcome:
        barrier.wait()
        return ask(connections[number], CHAT, chat(f"Count from {number}.", reply_tokens))

    with ThreadPoolExecutor(requests) as pool:
        with standing_still(engine):
            jobs = [pool.submit(one, number) for number in range(requests)]
            (refused,) = wait(jobs, timeout=60, return_when=FIRST_COMPLETED).done
            assert load(front) == (SLOTS, QUEUE)
        return refused.result(), [job.result() for job in jobs if job is not refused]


def begin(front: Front, reply_tokens: int, words: int = 1) -> http.client.HTTPConnection:
    """A request whose answer nobody reads yet."""
    connection = connected(front)
    body = json.dumps({**chat("story " * words, reply_tokens), "stream": True})
    connection.request("POST", CHAT, body, {"Content-Type": "application/json"})
    return connection


@contextlib.contextmanager
def full(front: Front, reply_tokens: int = 900, words: int = 1) -> Iterator[list[http.client.HTTPConnection]]:
    """All slots taken and the whole queue waiting; everybody leaves at the end."""
    connections = []
    for number in range(SLOTS + QUEUE):
        connections.append(begin(front, reply_tokens, words))
        expected = (min(number + 1, SLOTS), max(0, number + 1 - SLOTS))
        until(lambda expected=expected: load(front) == expected, f"{expected} to be served and to wait")  # type: ignore[misc]
    try:
        yield connections
    finally:
        for connection in connections:
            connection.close()
        until(lambda: load(front) == (0, 0), "everybody to be gone")


def load(front: Front) -> tuple[int, int]:
    word = front.word()
    return sum(engine["serving"] for engine in word["engines"]), word["waiting"]


def test_of_six_at_once_five_are_served_and_one_is_refused_at_once(front: Front, engine_url: str) -> None:
    refused_seconds = []
    for _ in range(ROUNDS):
        refused, served = one_too_many_at_once(front, listening_pid(engine_url), reply_tokens=8)
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
