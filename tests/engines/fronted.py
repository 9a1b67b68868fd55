"""A real HAProxy with a configuration that llmops rendered, and requests through it."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from llmops.front import Address, FrontServer, FrontSpec, address_of_url, configuration_file
from llmops.host.local import LocalHost
from tests.engines.conftest import absent
from tests.engines.http_calls import ANSWER_SECONDS, a_free_port, call, chat

SLOTS, QUEUE = 2, 3
CHAT = "/v1/chat/completions"


@dataclass
class Front:
    """A running HAProxy; `spec` is what its configuration was rendered from, `model` what requests must name."""

    spec: FrontSpec
    configuration: Path
    process: subprocess.Popen[bytes]
    model: str | None = None

    @property
    def url(self) -> str:
        return self.spec.listen.url

    def word(self) -> Any:
        return call(f"{self.url}/llmops/front").document

    def chat(self, text: str, reply_tokens: int) -> dict[str, object]:
        """A request that this engine takes."""
        return chat(text, reply_tokens) | ({} if self.model is None else {"model": self.model})

    def reload(self, spec: FrontSpec) -> None:
        """As the unit's ExecReload= does."""
        self.spec = spec
        self.configuration.write_text(configuration_file(spec).content, encoding="utf-8")
        check(self.configuration)
        self.process.send_signal(signal.SIGUSR2)


def program() -> str:
    """The installed HAProxy."""
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
    url: str,
    directory: Path,
    *,
    engine: str = "llama-server",
    patience_seconds: float = 60.0,
    model: str | None = None,
) -> Iterator[Front]:
    """A front before one engine with as many slots as there are to be."""
    servers = (FrontServer(address_of_url(url), SLOTS),)
    spec = FrontSpec(engine, servers, Address("127.0.0.1", a_free_port()), QUEUE, patience_seconds)
    with running_front(spec, directory, model=model) as front:
        yield front


@contextlib.contextmanager
def running_front(spec: FrontSpec, directory: Path, *, model: str | None = None) -> Iterator[Front]:
    """HAProxy with the configuration of this front; it ends with the block."""
    configuration = directory / "front.cfg"
    configuration.write_text(configuration_file(spec).content, encoding="utf-8")
    check(configuration)
    with (directory / "front.log").open("wb") as log:
        words = [program(), "-Ws", "-f", str(configuration)]
        process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    front = Front(spec, configuration, process, model)
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


def one_too_many_at_once(front: Front, engines: Sequence[int], reply_tokens: int) -> tuple[Outcome, list[Outcome]]:
    """Who is refused while the engines have answered nobody yet, and the others."""
    requests = SLOTS + QUEUE + 1
    barrier = threading.Barrier(requests)
    connections = [connected(front) for _ in range(requests)]

    def one(number: int) -> Outcome:
        barrier.wait()
        return ask(connections[number], CHAT, front.chat(f"Count from {number}.", reply_tokens))

    with ThreadPoolExecutor(requests) as pool:
        with contextlib.ExitStack() as still:
            for engine in engines:
                still.enter_context(standing_still(engine))
            jobs = [pool.submit(one, number) for number in range(requests)]
            (refused,) = wait(jobs, timeout=60, return_when=FIRST_COMPLETED).done
            assert load(front) == (SLOTS, QUEUE)
        return refused.result(), [job.result() for job in jobs if job is not refused]


def begin(front: Front, reply_tokens: int, words: int = 1) -> http.client.HTTPConnection:
    """A request whose answer nobody reads yet."""
    connection = connected(front)
    body = json.dumps({**front.chat("story " * words, reply_tokens), "stream": True})
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
    """How many are served, and how many wait."""
    word = front.word()
    return sum(engine["serving"] for engine in word["engines"]), word["waiting"]
