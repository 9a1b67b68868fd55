"""HTTP against servers on loopback that behave badly: every failure has words, and none is an error of a library."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator

import pytest
import requests

from llmops.host import ListeningSocket, StreamTimings
from llmops.host.local import LocalHost

HOST = LocalHost()
SSE = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
CHUNKED = SSE + b"Transfer-Encoding: chunked\r\n\r\n"
# Longer than any limit here, and far longer than PROMPT_SECONDS: who does not give up is noticed on any machine.
FOR_LONG = 120.0
PROMPT_SECONDS = 60.0
ENDLESS: list[bytes | float] = [b"c\r\ndata: {}\n\n\n\n\r\n", 0.2] * 600
DRIPPING: list[bytes | float] = [b"x", 0.2] * 600
# What is done with a connection; the event says that the test is over.
Script = Callable[[socket.socket, threading.Event], None]


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
    over = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def play() -> None:
            for script in scripts:
                connection, _ = listener.accept()
                # A client that has given up is no failure of the server.
                with connection, contextlib.suppress(BrokenPipeError, ConnectionResetError):
                    read_request(connection)
                    script(connection, over)

        thread = threading.Thread(target=play, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/"
        over.set()
        thread.join(10)


def say(*pieces: bytes | float) -> Script:
    """Send bytes, wait for numbers."""
    return noting([], *pieces)


def noting(times: list[float], *pieces: bytes | float) -> Script:
    """The same, and when each of the bytes were sent."""

    def script(connection: socket.socket, over: threading.Event) -> None:
        for piece in pieces:
            if isinstance(piece, bytes):
                times.append(time.monotonic())
                connection.sendall(piece)
            elif over.wait(piece):
                return

    return script


def chunk(text: bytes) -> bytes:
    return f"{len(text):x}\r\n".encode() + text + b"\r\n"


def reset(connection: socket.socket, _over: threading.Event) -> None:
    """Close with RST instead of FIN."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")


def stream(*scripts: Script, timeout_seconds: float = PROMPT_SECONDS) -> StreamTimings:
    with server(*scripts) as url:
        return HOST.stream_completion(url, {"stream": True}, timeout_seconds=timeout_seconds)


def noted_in_time(headers: bytes, first: bytes, second: bytes, end: bytes) -> bool:
    """Whether everything was noted before the next was sent; earlier than it was sent it must never be."""
    sent: list[float] = []
    found = stream(noting(sent, 0.2, headers, 0.3, first, 0.3, second, 0.3, end))
    assert (found.error, found.status) == (None, 200)
    assert [text for _, text in found.events] == ['{"n": 1}', '{"n": 2}']
    assert found.headers_seconds is not None
    seconds = (found.headers_seconds, *(seconds for seconds, _ in found.events), found.ended_seconds)
    noted = [found.started_seconds + each for each in seconds]
    assert all(there >= here for there, here in zip(noted, sent, strict=True))
    return all(there < following for there, following in zip(noted, sent[1:], strict=False))


@pytest.mark.parametrize(
    ("headers", "chunked"),
    [
        (CHUNKED, True),
        (SSE + b"Connection: close\r\n\r\n", False),
        (SSE + b"Content-Length: 33\r\n\r\n", False),
    ],
    ids=["chunks", "until-closed", "length"],
)
def test_headers_and_every_event_are_noted_when_they_come(headers: bytes, chunked: bool) -> None:
    first, second = b'data: {"n": 1}\n\n', b'data: {"n": 2}\n\n'
    pieces = (chunk(first), chunk(second), b"0\r\n\r\n") if chunked else (first, second, b"\n")
    # A busy machine may be late with one of them once; who notes all of them at the end is late every time.
    assert any(noted_in_time(headers, *pieces) for _ in range(5))


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
    [say(FOR_LONG), say(CHUNKED, FOR_LONG), say(CHUNKED, *ENDLESS)],
    ids=["silent", "silent-after-headers", "endless"],
)
def test_no_stream_outlasts_its_time(script: Script) -> None:
    started = time.monotonic()
    found = stream(script, timeout_seconds=0.5)
    assert found.error is not None
    assert "0.5 s" in found.error
    assert time.monotonic() - started < PROMPT_SECONDS


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
    ("script", "timeout_seconds", "kind"),
    [
        (say(FOR_LONG), 0.5, TimeoutError),
        (say(b"HTTP/1.1 200 OK\r\n\r\n", *DRIPPING), 0.5, TimeoutError),
        (say(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf"), PROMPT_SECONDS, ConnectionError),
        (say(b"nonsense\r\n\r\n"), PROMPT_SECONDS, ConnectionError),
        (reset, PROMPT_SECONDS, ConnectionError),
    ],
    ids=["silent", "dripping", "half", "nonsense", "reset"],
)
def test_plain_requests_fail_with_the_two_documented_errors(
    script: Script, timeout_seconds: float, kind: type[OSError]
) -> None:
    with server(script) as url, pytest.raises(kind) as raised:
        HOST.get(url, timeout_seconds=timeout_seconds)
    assert not isinstance(raised.value, ConnectionRefusedError)


@pytest.mark.parametrize("beginning", [b"HTTP/1.1 200 OK\r\nContent-Length: 90\r\n\r\n", b"HTTP/1.1 200 OK\r\n", b""])
def test_a_byte_now_and_then_holds_nobody(beginning: bytes) -> None:
    started = time.monotonic()
    with (
        server(say(beginning, *DRIPPING)) as url,
        pytest.raises(TimeoutError, match=r"did not answer within 0\.5 s"),
    ):
        HOST.get(url, timeout_seconds=0.5)
    with server(say(SSE, *DRIPPING)) as url:
        assert "0.5 s" in str(HOST.stream_completion(url, {}, timeout_seconds=0.5).error)
    assert time.monotonic() - started < PROMPT_SECONDS


def test_a_key_goes_to_no_proxy_and_is_not_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[str, bool]] = []

    def note(session: requests.Session, _method: str, url: str, **_: object) -> None:
        seen.append((url, session.trust_env))
        raise requests.exceptions.ConnectionError("nothing is sent")

    monkeypatch.setattr(requests.Session, "request", note)
    address = "http://192.0.2.1:8000/props"
    for host in (LocalHost(), LocalHost(api_key="secret")):
        with pytest.raises(ConnectionError):
            host.get(address)
    assert seen == [(address, True), (address, False)]


def test_no_proxy_for_loopback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{closed_port()}")
    monkeypatch.delenv("no_proxy", raising=False)
    with server(say(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")) as url:
        assert HOST.get(url).body == "{}"


def test_jobs_start_together_and_their_failure_is_raised() -> None:
    both_asked = threading.Barrier(2)

    def answer(connection: socket.socket, over: threading.Event) -> None:
        both_asked.wait(PROMPT_SECONDS)
        say(CHUNKED, chunk(b"data: {}\n\n"), b"0\r\n\r\n")(connection, over)

    with server(answer) as one, server(answer) as other:
        jobs = [lambda url=url: HOST.stream_completion(url, {}) for url in (one, other)]
        first, second = HOST.together(jobs)
    assert (first.error, second.error) == (None, None), "nobody is answered before both have asked"

    def broken() -> StreamTimings:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        HOST.together([broken])
    assert HOST.together([]) == ()


def test_our_own_listener_is_found() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        assert ListeningSocket("127.0.0.1", port, os.getpid()) in HOST.listening_sockets()
