"""HTTP for the engine tests, with nothing of llmops in it: an answer is a status and a text, whatever the status.

The time limits are for what hangs: on a machine that is busy with something else an answer may take a minute.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import random
import socket
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

ANSWER_SECONDS = 300.0


@dataclass(frozen=True)
class Answer:
    """One HTTP answer."""

    status: int
    text: str

    @property
    def document(self) -> Any:
        """The body as JSON."""
        return json.loads(self.text)


@dataclass(frozen=True)
class Stream:
    """One streamed answer: when it was asked for, its headers came and each JSON event came, on time.monotonic."""

    began: float
    headers_at: float
    event_times: tuple[float, ...]
    events: tuple[dict[str, Any], ...]
    done: bool

    @property
    def seconds(self) -> float:
        """From the request to the last event."""
        return self.event_times[-1] - self.began


def a_free_port() -> int:
    """A loopback port that nobody listens on.

    It lies below those that Linux hands out by itself (ip(7), ip_local_port_range), so that no connection and no other
    program is given it before the server that it is for has opened it.
    """
    numbers = random.SystemRandom()
    while True:
        port = numbers.randrange(20_000, 32_768)
        with socket.socket() as listener, contextlib.suppress(OSError):
            listener.bind(("127.0.0.1", port))
            return port


def is_ready(url: str) -> bool:
    """True once /health answers 200."""
    try:
        with urllib.request.urlopen(f"{url}/health", timeout=10) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, ConnectionError, TimeoutError):
        return False


def call(url: str, payload: object | None = None, headers: Mapping[str, str] | None = None) -> Answer:
    """GET, or POST where there is a payload."""
    data = None if payload is None else json.dumps(payload).encode()
    request = urllib.request.Request(url, data=data, headers=dict(headers or {}))
    try:
        with urllib.request.urlopen(request, timeout=ANSWER_SECONDS) as answer:
            return Answer(answer.status, answer.read().decode())
    except urllib.error.HTTPError as error:
        return Answer(error.code, error.read().decode())


def stream(url: str, path: str, payload: Mapping[str, object]) -> Stream:
    """POST and read server-sent events to the end; the answer must be 200."""
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=ANSWER_SECONDS)
    began = time.monotonic()
    connection.request("POST", path, json.dumps({**payload, "stream": True}), {"Content-Type": "application/json"})
    answer = connection.getresponse()
    headers_at = time.monotonic()
    assert answer.status == 200, answer.read()
    came = [(time.monotonic(), line.strip().removeprefix(b"data: ")) for line in answer if line.startswith(b"data: ")]
    connection.close()
    events = [(at, json.loads(line)) for at, line in came if line != b"[DONE]"]
    done = bool(came) and came[-1][1] == b"[DONE]"
    return Stream(began, headers_at, tuple(at for at, _ in events), tuple(event for _, event in events), done)


def chat(text: str, reply_tokens: int) -> dict[str, object]:
    """A chat request whose reply has exactly this many tokens."""
    message = {"role": "user", "content": text}
    return {"messages": [message], "max_tokens": reply_tokens, "temperature": 0.0, "ignore_eos": True}
