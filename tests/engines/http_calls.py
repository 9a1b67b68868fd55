"""HTTP for the engine tests, with nothing of llmops in it: an answer is a status and a text, whatever the status."""

from __future__ import annotations

import http.client
import json
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit


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
    """One streamed answer: seconds from the request to the headers and to the end, and the JSON events."""

    headers_seconds: float
    seconds: float
    events: tuple[dict[str, Any], ...]
    done: bool


def call(url: str, payload: object | None = None, headers: Mapping[str, str] | None = None) -> Answer:
    """GET, or POST where there is a payload."""
    data = None if payload is None else json.dumps(payload).encode()
    request = urllib.request.Request(url, data=data, headers=dict(headers or {}))
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return Answer(answer.status, answer.read().decode())
    except urllib.error.HTTPError as error:
        return Answer(error.code, error.read().decode())


def stream(url: str, path: str, payload: Mapping[str, object]) -> Stream:
    """POST and read server-sent events to the end; the answer must be 200."""
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=120)
    began = time.monotonic()
    connection.request("POST", path, json.dumps({**payload, "stream": True}), {"Content-Type": "application/json"})
    answer = connection.getresponse()
    headers_seconds = time.monotonic() - began
    assert answer.status == 200, answer.read()
    lines = [line.strip().removeprefix(b"data: ") for line in answer if line.startswith(b"data: ")]
    seconds = time.monotonic() - began
    connection.close()
    events = tuple(json.loads(line) for line in lines if line != b"[DONE]")
    return Stream(headers_seconds, seconds, events, done=bool(lines) and lines[-1] == b"[DONE]")


def chat(text: str, reply_tokens: int) -> dict[str, object]:
    """A chat request whose reply has exactly this many tokens."""
    message = {"role": "user", "content": text}
    return {"messages": [message], "max_tokens": reply_tokens, "temperature": 0.0, "ignore_eos": True}
