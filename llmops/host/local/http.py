"""HTTP to an inference engine: plain answers, and streams with the time of every event."""

from __future__ import annotations

import ipaddress
import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Generic, TypeVar
from urllib.parse import urlsplit

import requests

from llmops.host import Response, StreamTimings

LARGEST_ANSWER_BYTES = 64 * 1024 * 1024
CONNECT_SECONDS = 5.0
_ERROR_BODY_CHARACTERS = 400
_GRACE_SECONDS = 1.0

_NO_HEADERS: Mapping[str, str] = {}

T = TypeVar("T")


def prepare() -> None:
    """Do what a first request would otherwise spend time on."""
    requests.Session().close()


def get(url: str, *, timeout_seconds: float, headers: Mapping[str, str] = _NO_HEADERS) -> Response:
    """GET; ConnectionRefusedError where nobody listens, TimeoutError when the whole answer is late.

    Any other ConnectionError is an answer that is no HTTP, not whole or too large.
    """
    return _plain("GET", url, None, timeout_seconds, headers)


def post(
    url: str, payload: Mapping[str, object], *, timeout_seconds: float, headers: Mapping[str, str] = _NO_HEADERS
) -> Response:
    """POST JSON; errors as in `get`."""
    return _plain("POST", url, payload, timeout_seconds, headers)


def stream(
    url: str, payload: Mapping[str, object], *, timeout_seconds: float, headers: Mapping[str, str] = _NO_HEADERS
) -> StreamTimings:
    """POST JSON and note when the headers and each event came; whatever fails is told in `error`."""
    reading = _Reading(url, headers, time.monotonic())
    try:
        _InTime(lambda: reading.read(payload, timeout_seconds)).result(timeout_seconds + _GRACE_SECONDS)
    except TimeoutError:
        reading.error = f"the answer was not complete after {timeout_seconds:g} s"
    elapsed = time.monotonic() - reading.started
    return StreamTimings(
        reading.started, reading.status, reading.headers_seconds, tuple(reading.events), elapsed, reading.error
    )


class _Reading:
    """What one stream has shown so far; its reader may be left behind when it is late."""

    def __init__(self, url: str, headers: Mapping[str, str], started: float) -> None:
        self.url = url
        self.headers = headers
        self.started = started
        self.status: int | None = None
        self.headers_seconds: float | None = None
        self.events: list[tuple[float, str]] = []
        self.error: str | None = None

    def read(self, payload: Mapping[str, object], timeout_seconds: float) -> None:
        url = self.url
        try:
            with (
                _session(url, self.headers) as session,
                _open(session, "POST", url, payload, timeout_seconds) as response,
            ):
                self.headers_seconds = time.monotonic() - self.started
                self.status = response.status_code
                self.error = _read_events(response, self.events, self.started, timeout_seconds)
        except (requests.exceptions.RequestException, OSError) as problem:
            late = f"nothing more came within {timeout_seconds:g} s"
            self.error = late if _is_late(problem) else _cause(problem)


class _InTime(Generic[T]):
    """Work with a time limit as a whole.

    The library limits every single read, so that a server that sends a byte now and then would hold us for hours.
    """

    def __init__(self, work: Callable[[], T]) -> None:
        self._work = work
        self._done: list[T] = []
        self._failed: list[BaseException] = []

    def result(self, seconds: float) -> T:
        """What the work gives or raises; TimeoutError when it is late: then it is left behind."""
        thread = threading.Thread(target=self._run, daemon=True)
        thread.start()
        thread.join(seconds)
        if self._failed:
            raise self._failed[0]
        if not self._done:
            raise TimeoutError
        return self._done[0]

    def _run(self) -> None:
        try:
            self._done.append(self._work())
        except BaseException as failure:  # noqa: BLE001 - raised again in the thread that waits
            self._failed.append(failure)


def _read_events(
    response: requests.Response, events: list[tuple[float, str]], started: float, timeout_seconds: float
) -> str | None:
    if response.status_code != requests.codes.ok:
        body = _body(response, started + timeout_seconds)
        return f"HTTP {response.status_code}: {body[:_ERROR_BODY_CHARACTERS]}"
    prefix = "" if "ndjson" in response.headers.get("Content-Type", "") else "data:"
    for line in _lines(response):
        now = time.monotonic() - started
        content = line[len(prefix) :].strip()
        if line.startswith(prefix) and content and content != "[DONE]":
            events.append((now, content))
        if now > timeout_seconds:
            return f"the answer was not complete after {timeout_seconds:g} s"
    return None


def _lines(response: requests.Response) -> Iterator[str]:
    """Lines as they arrive; a last line without its end is half an event and is dropped."""
    # With chunked transfer None gives every chunk at once; without it None would wait for the end of the body.
    chunked = response.headers.get("Transfer-Encoding", "").lower() == "chunked"
    rest = b""
    for piece in response.iter_content(chunk_size=None if chunked else 1):
        rest += piece
        if b"\n" not in piece:
            if len(rest) > LARGEST_ANSWER_BYTES:
                raise requests.exceptions.ContentDecodingError("a line without end")
            continue
        *whole, rest = rest.split(b"\n")
        for line in whole:
            yield line.decode("utf-8", errors="replace").rstrip("\r")


def _plain(
    method: str, url: str, payload: Mapping[str, object] | None, timeout_seconds: float, headers: Mapping[str, str]
) -> Response:
    deadline = time.monotonic() + timeout_seconds

    def ask() -> Response:
        with (
            _session(url, headers) as session,
            _open(session, method, url, payload, timeout_seconds) as response,
        ):
            return Response(response.status_code, _body(response, deadline), dict(response.headers))

    try:
        return _InTime(ask).result(timeout_seconds + _GRACE_SECONDS)
    except (requests.exceptions.RequestException, TimeoutError) as problem:
        if _is_late(problem):
            raise TimeoutError(f"{url} did not answer within {timeout_seconds:g} s") from problem
        refused = any(isinstance(one, ConnectionRefusedError) for one in _chain(problem))
        kind = ConnectionRefusedError if refused else ConnectionError
        raise kind(f"{url}: {_cause(problem)}") from problem


def _open(
    session: requests.Session, method: str, url: str, payload: Mapping[str, object] | None, timeout_seconds: float
) -> requests.Response:
    # Redirects are answers: following one would test another server than the one that was named.
    return session.request(
        method,
        url,
        data=None if payload is None else json.dumps(payload),
        headers={"Accept-Encoding": "identity", **({} if payload is None else {"Content-Type": "application/json"})},
        timeout=(min(CONNECT_SECONDS, timeout_seconds), timeout_seconds),
        allow_redirects=False,
        stream=True,
    )


def _body(response: requests.Response, deadline: float) -> str:
    body = b""
    for piece in response.iter_content(chunk_size=65536):
        body += piece
        if time.monotonic() > deadline:
            raise requests.exceptions.ReadTimeout("the answer is too slow")
        if len(body) > LARGEST_ANSWER_BYTES:
            raise requests.exceptions.ContentDecodingError("the answer is too large")
    return body.decode("utf-8", errors="replace")


def _session(url: str, headers: Mapping[str, str]) -> requests.Session:
    session = requests.Session()
    session.headers.update(headers)
    # A proxy named in the environment cannot reach our loopback; requests would ask it all the same. A key is for the
    # server alone, not for a proxy on the way, and requests would put what is in .netrc in its place.
    session.trust_env = not headers and not _is_loopback(url)
    return session


def _is_loopback(url: str) -> bool:
    name = urlsplit(url).hostname or ""
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return name == "localhost" or name.endswith(".localhost")


def _is_late(problem: BaseException) -> bool:
    """True for a time limit; requests calls one that passes while it reads the body a ConnectionError."""
    return any(isinstance(one, (requests.exceptions.Timeout, TimeoutError)) for one in _chain(problem))


def _cause(problem: BaseException) -> str:
    """The innermost reason that has words: the outer ones only repeat addresses and object names."""
    words = (one.strerror for one in _chain(problem) if isinstance(one, OSError) and one.strerror)
    return next(words, None) or str(problem) or type(problem).__name__


def _chain(problem: BaseException) -> Iterator[BaseException]:
    seen: BaseException | None = problem
    while seen is not None:
        yield seen
        seen = seen.__cause__ or seen.__context__
