"""HTTP against servers on loopback that behave badly: every failure has words, and none is an error of a library."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from llmops.host import ListeningSocket, StreamTimings
from llmops.host.local import LocalHost

HOST = LocalHost()
SSE = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
CHUNKED = SSE + b"Transfer-Encoding: chunked\r\n\r\n"
ENDLESS: list[bytes | float] = [b"c\r\ndata: {}\n\n\n\n\r\n", 0.2] * 8
DRIPPING: list[bytes | float] = [b"x", 0.2] * 6
Script = Callable[[socket.socket], None]


def read_request(connection: socket.socket) -> None:
    """The whole request: closing with a part of it unread would reset the connection."""
    request = b""
    while b"\r\n\r\n" not in request:
        request += connection.recv(65536)
    head, body = request.split(b"\r\n\r\n", 1)
    lengths = [int(line.split(b":")[1]) for line in head.lower().splitlines() if line.startswith(b"content-length:")]
    while lengths and len(body) < lengths[0]:
        body += connection.recv(65536)


@contextlib.contextmanager
def server(*scripts: Script) -> Iterator[str]:
    """Plays one script per connection, in order, after it has read the request."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def play() -> None:
            for script in scripts:
                connection, _ = listener.accept()
                # A client that has given up is no failure of the server.
                with connection, contextlib.suppress(BrokenPipeError, ConnectionResetError):
                    read_request(connection)
                    script(connection)

        thread = threading.Thread(target=play, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/"
        thread.join(10)


def say(*pieces: bytes | float) -> Script:
    """Send bytes, wait for numbers."""

    def script(connection: socket.socket) -> None:
        for piece in pieces:
            if isinstance(piece, bytes):
                connection.sendall(piece)
            else:
                time.sleep(piece)

    return script


def chunk(text: bytes) -> bytes:
    return f"{len(text):x}\r\n".encode() + text + b"\r\n"


def reset(connection: socket.socket) -> None:
    """Close with RST instead of FIN."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")


def stream(*scripts: Script, timeout_seconds: float = 5.0) -> StreamTimings:
    with server(*scripts) as url:
        return HOST.stream_completion(url, {"stream": True}, timeout_seconds=timeout_seconds)


def test_the_time_of_headers_and_of_every_event() -> None:
    answer = say(0.3, CHUNKED, 0.2, chunk(b'data: {"n": 1}\n\n'), 0.2, chunk(b'data: {"n": 2}\n\n'), b"0\r\n\r\n")
    found = stream(answer)
    assert found.error is None
    assert found.status == 200
    assert found.headers_seconds == pytest.approx(0.3, abs=0.15)
    assert [text for _, text in found.events] == ['{"n": 1}', '{"n": 2}']
    assert [seconds for seconds, _ in found.events] == pytest.approx([0.5, 0.7], abs=0.2)
    assert found.ended_seconds >= found.events[-1][0]


@pytest.mark.parametrize("end", [b"Connection: close\r\n\r\n", b"Content-Length: 32\r\n\r\n"])
def test_events_are_timed_without_chunks_too(end: bytes) -> None:
    found = stream(say(SSE + end, b'data: {"n": 1}\n\n', 0.3, b'data: {"n": 2}\n\n'))
    assert found.error is None
    assert found.events[1][0] - found.events[0][0] == pytest.approx(0.3, abs=0.15)


def test_an_event_may_come_in_pieces_and_with_others() -> None:
    pieces = (b": ping\n\nda", b'ta: {"a": "\xc3', b'\xbc"}\r\n\r\ndata:{}\n\nevent: x\n', b"\ndata: [DONE]\n\n")
    found = stream(say(CHUNKED, *map(chunk, pieces), b"0\r\n\r\n"))
    assert [text for _, text in found.events] == ['{"a": "ü"}', "{}"]


def test_lines_of_json_are_events_where_the_engine_says_so() -> None:
    headers = b"HTTP/1.1 200 OK\r\nContent-Type: application/x-ndjson\r\nTransfer-Encoding: chunked\r\n\r\n"
    found = stream(say(headers, chunk(b'{"a": 1}\n'), chunk(b'{"a": 2}\n'), b"0\r\n\r\n"))
    assert [text for _, text in found.events] == ['{"a": 1}', '{"a": 2}']


@pytest.mark.parametrize(
    ("script", "words", "events"),
    [
        (say(CHUNKED, chunk(b'data: {"n": 1}\n\n'), chunk(b'data: {"n"')), "prematurely", 1),
        (say(SSE + b"Content-Length: 999\r\n\r\n", b'data: {"n": 1}\n\n'), "IncompleteRead", 1),
        (say(CHUNKED, b"zz\r\n"), "zz", 0),
        (say(b"SSH-2.0-OpenSSH_9.2\r\n"), "SSH-2.0", 0),
        (say(), "Remote end closed", 0),
        (reset, "reset", 0),
        (say(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 9\r\n\r\n", b"too long!"), "HTTP 400: too long!", 0),
        (say(b"HTTP/1.1 302 Found\r\nLocation: http://192.0.2.1/\r\nContent-Length: 0\r\n\r\n"), "HTTP 302", 0),
    ],
    ids=["half-chunk", "half-length", "bad-chunk", "not-http", "nothing", "reset", "refused", "redirect"],
)
def test_a_bad_answer_is_told_and_keeps_what_came_before(script: Script, words: str, events: int) -> None:
    found = stream(script)
    assert found.error is not None
    assert words.lower() in found.error.lower()
    assert len(found.events) == events


@pytest.mark.parametrize(
    "script",
    [say(1.5), say(CHUNKED, 1.5), say(CHUNKED, *ENDLESS)],
    ids=["silent", "silent-after-headers", "endless"],
)
def test_no_stream_outlasts_its_time(script: Script) -> None:
    started = time.monotonic()
    found = stream(script, timeout_seconds=0.5)
    assert found.error is not None
    assert "0.5 s" in found.error
    assert time.monotonic() - started < 3.0


def closed_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def test_nobody_there() -> None:
    url = f"http://127.0.0.1:{closed_port()}/"
    assert HOST.stream_completion(url, {}).error == "Connection refused"
    with pytest.raises(ConnectionRefusedError, match="Connection refused"):
        HOST.get(url)


def test_any_status_is_an_answer() -> None:
    body = b'{"error": {"code": 503}}'
    answer = say(b"HTTP/1.1 503 No\r\nServer: llama.cpp\r\nContent-Length: %d\r\n\r\n" % len(body), body)
    with server(answer, answer) as url:
        for found in (HOST.get(url), HOST.post(url, {})):
            assert (found.status, found.body, found.headers["Server"]) == (503, body.decode(), "llama.cpp")


@pytest.mark.parametrize(
    ("script", "kind"),
    [
        (say(1.0), TimeoutError),
        (say(b"HTTP/1.1 200 OK\r\n\r\n", *DRIPPING), TimeoutError),
        (say(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf"), ConnectionError),
        (say(b"nonsense\r\n\r\n"), ConnectionError),
        (reset, ConnectionError),
    ],
    ids=["silent", "dripping", "half", "nonsense", "reset"],
)
def test_plain_requests_fail_with_the_two_documented_errors(script: Script, kind: type[OSError]) -> None:
    with server(script) as url, pytest.raises(kind) as raised:
        HOST.get(url, timeout_seconds=0.5)
    assert not isinstance(raised.value, ConnectionRefusedError)


@pytest.mark.parametrize("beginning", [b"HTTP/1.1 200 OK\r\nContent-Length: 90\r\n\r\n", b"HTTP/1.1 200 OK\r\n", b""])
def test_a_byte_now_and_then_holds_nobody(beginning: bytes) -> None:
    drip: list[bytes | float] = [b"X", 0.25] * 16
    with server(say(beginning, *drip), say(SSE, *drip)) as url:
        started = time.monotonic()
        with pytest.raises(TimeoutError, match=r"did not answer within 0\.5 s"):
            HOST.get(url, timeout_seconds=0.5)
        assert time.monotonic() - started < 3.0
        started = time.monotonic()
        assert "0.5 s" in str(HOST.stream_completion(url, {}, timeout_seconds=0.5).error)
        assert time.monotonic() - started < 3.0


def test_no_proxy_for_loopback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{closed_port()}")
    monkeypatch.delenv("no_proxy", raising=False)
    with server(say(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")) as url:
        assert HOST.get(url).body == "{}"


def test_jobs_start_together_and_their_failure_is_raised() -> None:
    answer = say(CHUNKED, chunk(b"data: {}\n\n"), 0.4, b"0\r\n\r\n")
    with server(answer) as one, server(answer) as other:
        started = time.monotonic()
        jobs = [lambda url=url: HOST.stream_completion(url, {}) for url in (one, other)]
        first, second = HOST.together(jobs)
        assert time.monotonic() - started < 0.75
        assert abs(first.started_seconds - second.started_seconds) < 0.1

    def broken() -> StreamTimings:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        HOST.together([broken])
    assert HOST.together([]) == ()


def test_our_own_listener_is_found() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        assert ListeningSocket("127.0.0.1", port, os.getpid()) in HOST.listening_sockets()
