"""A real HAProxy before two real llama-servers with a slot each: who goes where, and what a killed one takes along."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import re
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from llmops.front import Address, FrontServer, FrontSpec
from tests.engines.conftest import SHARED_CORES, stop, wait_until_ready
from tests.engines.fronted import (
    CHAT,
    QUEUE,
    Front,
    ask,
    begin,
    connected,
    full,
    load,
    one_too_many_at_once,
    running_front,
    standing_still,
    until,
)
from tests.engines.http_calls import a_free_port

pytestmark = [pytest.mark.engines, pytest.mark.timeout(900)]

HOSTS = ("127.0.0.1", "127.0.0.2")
LONG = 900


@dataclass
class Replicas:
    """Two servers, each as if it had a machine of its own."""

    command: tuple[str, ...]
    log: Path
    places: tuple[Address, ...]
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def start(self, number: int) -> None:
        place = self.places[number]
        words = [*self.command, "--host", place.host, "--port", str(place.port)]
        with self.log.open("ab") as output:
            process = subprocess.Popen(
                words, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env={**SHARED_CORES, **os.environ}
            )
        self.processes[number:] = [process, *self.processes[number + 1 :]]
        wait_until_ready(place.url, process, self.log)

    @property
    def pids(self) -> tuple[int, ...]:
        return tuple(process.pid for process in self.processes)


@pytest.fixture(scope="module")
def replicas(
    llama_server: tuple[str, ...], model_path: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Replicas]:
    command = (*llama_server, "-m", model_path, "-np", "1", "-c", "1024", "-t", "1", "--no-repack")
    port = a_free_port()
    found = Replicas(command, tmp_path_factory.mktemp("replicas") / "log", tuple(Address(host, port) for host in HOSTS))
    try:
        for number in range(len(HOSTS)):
            found.start(number)
        yield found
    finally:
        for process in found.processes:
            stop(process)


@pytest.fixture
def spec(replicas: Replicas) -> FrontSpec:
    """With so much patience that nobody is sent away because the machine is busy."""
    servers = tuple(FrontServer(place, 1) for place in replicas.places)
    return FrontSpec("llama-server", servers, Address("127.0.0.1", a_free_port()), QUEUE, 600.0)


@contextlib.contextmanager
def front_of(spec: FrontSpec, directory: Path) -> Iterator[Front]:
    with running_front(spec, directory) as running:
        until(lambda: up(running) == [1, 1], "both servers to be up")
        yield running


@pytest.fixture
def front(spec: FrontSpec, tmp_path: Path) -> Iterator[Front]:
    with front_of(spec, tmp_path) as running:
        yield running


def up(front: Front) -> list[int]:
    return [engine["up"] for engine in front.word()["engines"]]


def serving(front: Front) -> list[int]:
    return [engine["serving"] for engine in front.word()["engines"]]


def served_by(front: Front) -> list[str]:
    """The servers of all requests so far, from the log of the front."""
    return re.findall(r" generation/(engine\d|<NOSRV>) ", (front.configuration.parent / "front.log").read_text())


def test_two_at_once_run_on_two_servers(front: Front) -> None:
    with both_busy(front):
        assert load(front) == (2, 0)


def test_one_queue_waits_for_both(front: Front, replicas: Replicas) -> None:
    refused, served = one_too_many_at_once(front, replicas.pids, reply_tokens=8)
    assert [outcome.status for outcome in served] == [200] * (len(HOSTS) + QUEUE)
    assert (refused.status, refused.retry_after) == (503, "200")
    assert "2 requests are served at once and 3 may wait" in refused.document["error"]["message"]
    with full(front) as connections:
        assert serving(front) == [1, 1]
        connections[0].close()
        until(lambda: load(front) == (2, QUEUE - 1), "whoever waits to take the place that became free")
        assert serving(front) == [1, 1]


def test_nobody_waits_where_nobody_may(spec: FrontSpec, tmp_path: Path) -> None:
    with front_of(replace(spec, queue_requests=0), tmp_path) as front, both_busy(front):
        refused = ask(connected(front), CHAT, front.chat("Too many.", 1))
        assert (refused.status, load(front)) == (503, (2, 0))


def test_a_conversation_stays_where_it_was_read_unless_it_would_wait(spec: FrontSpec, tmp_path: Path) -> None:
    with front_of(replace(spec, affinity_header="X-Session-Id"), tmp_path) as front:
        for _ in range(4):
            turn = begin_turn(front, 2)
            assert turn.getresponse().status == 200
            turn.close()
            until(lambda: load(front) == (0, 0), "the home to be free again")
        until(lambda: len(served_by(front)) >= 4, "the log")
        homes = served_by(front)
        assert homes == homes[:1] * 4
        turns = [begin_turn(front, LONG)]
        until(lambda: serving(front)[int(homes[0][-1]) - 1] == 1, "the home to be busy")
        turns.append(begin_turn(front, LONG))
        until(lambda: serving(front) == [1, 1], "the other server to take what would have waited")
        for turn in turns:
            turn.close()


def begin_turn(front: Front, reply_tokens: int) -> http.client.HTTPConnection:
    """A turn of one conversation, whose answer nobody reads yet."""
    connection = connected(front)
    body = json.dumps({**front.chat("Go on.", reply_tokens), "stream": True})
    connection.request("POST", CHAT, body, {"X-Session-Id": "of one user"})
    return connection


def test_what_waits_goes_to_the_server_that_is_left(front: Front, replicas: Replicas) -> None:
    """The first one is killed: its stream breaks off and is not begun anew; who waits for a slot is served."""
    streams = [begin(front, LONG), begin(front, 60)]
    until(lambda: serving(front) == [1, 1], "each server to have one")
    begun = [stream.getresponse() for stream in streams]
    assert all(answer.readline() for answer in begun)
    waiting = [begin(front, 4) for _ in range(QUEUE)]
    until(lambda: load(front) == (2, QUEUE), "the queue to be full")
    with standing_still(replicas.pids[1]):
        replicas.processes[0].send_signal(signal.SIGKILL)
        replicas.processes[0].wait(60)
        until(lambda: serving(front)[0] == 0 and up(front)[0] == 0, "the killed one to be left out")
        assert load(front)[1] <= QUEUE, "the broken stream does not wait again"
    assert [is_whole(answer) for answer in begun].count(False) == 1
    waited = [one.getresponse() for one in waiting]
    # One may have been given the slot of the server at the moment when it ended: it is not sent to another one, since
    # what ends one server would end them all.
    assert sorted(answer.status for answer in waited) in ([200] * QUEUE, [200] * (QUEUE - 1) + [502])
    assert all(is_whole(answer) for answer in waited if answer.status == 200)

    seen = len(served_by(front))
    for _ in range(3):
        assert ask(connected(front), CHAT, front.chat("Still there?", 2)).status == 200
    until(lambda: len(served_by(front)) >= seen + 3, "the log")
    assert set(served_by(front)[-3:]) == {"engine2"}
    replicas.start(0)
    until(lambda: up(front) == [1, 1], "the first one to be back")
    with both_busy(front):
        assert load(front) == (2, 0)


@contextlib.contextmanager
def both_busy(front: Front) -> Iterator[None]:
    streams = [begin(front, LONG), begin(front, LONG)]
    until(lambda: serving(front) == [1, 1], "each server to have one")
    try:
        yield
    finally:
        for stream in streams:
            stream.close()
        until(lambda: load(front) == (0, 0), "both to be gone")


def is_whole(answer: http.client.HTTPResponse) -> bool:
    """Whether a stream goes on to its end."""
    last = b""
    with contextlib.suppress(http.client.IncompleteRead, ConnectionError):
        for line in answer:
            last = line.strip() or last
    return last == b"data: [DONE]"
