"""HTTP to the server under test, timed, with nothing but the standard library."""

from __future__ import annotations

import http.client
import json
import re
import time
import uuid
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

SECOND = 1_000_000_000


@dataclass(frozen=True)
class Answer:
    """One whole answer; seconds from the request to the headers and to the end."""

    status: int
    kind: str
    text: str
    headers_seconds: float
    seconds: float
    headers_at: float

    @property
    def document(self) -> Any:
        """The body as JSON."""
        return json.loads(self.text)

    @property
    def lines(self) -> list[Any]:
        """The body as one JSON document in each line."""
        return [json.loads(line) for line in self.text.splitlines() if line.strip()]

    @property
    def final(self) -> dict[str, Any]:
        """The last of the lines, which carries the durations."""
        return dict(self.lines[-1])

    def duration(self, name: str) -> float:
        """Seconds of one duration; it is left out where it is nothing."""
        return float(self.final.get(f"{name}_duration", 0)) / SECOND

    @property
    def queued_seconds(self) -> float:
        """What is left of the whole when loading, reading and writing are taken away."""
        return self.duration("total") - sum(self.duration(name) for name in ("load", "prompt_eval", "eval"))


@dataclass(frozen=True)
class Server:
    """The server under test, and what the caller knows of how it was started."""

    url: str
    model: str
    parallel: int | None = None
    queue: int | None = None
    context: int | None = None
    log: Path | None = None
    one_slot_model: str | None = None
    rendered_model: str | None = None

    @property
    def loopback(self) -> bool:
        """Whether it is reached by a loopback address."""
        return (urlsplit(self.url).hostname or "") in {"127.0.0.1", "::1", "localhost"}

    @property
    def version(self) -> tuple[int, ...]:
        """The version as numbers."""
        return tuple(int(part) for part in re.findall(r"\d+", self.get("/api/version").document["version"])[:3])

    def get(self, path: str, headers: Mapping[str, str] | None = None) -> Answer:
        """GET"""
        return self._call("GET", path, None, headers or {})

    def post(self, path: str, body: Mapping[str, Any]) -> Answer:
        """POST of JSON"""
        return self._call("POST", path, body, {"Content-Type": "application/json"})

    def _call(self, method: str, path: str, body: object, headers: Mapping[str, str]) -> Answer:
        connection = self.connection()
        try:
            began = time.monotonic()
            connection.request(method, path, None if body is None else json.dumps(body), dict(headers))
            answer = connection.getresponse()
            headers_at = time.monotonic()
            text = answer.read().decode()
            kind = answer.getheader("Content-Type") or ""
            return Answer(answer.status, kind, text, headers_at - began, time.monotonic() - began, headers_at)
        finally:
            connection.close()

    def connection(self) -> http.client.HTTPConnection:
        """A new connection."""
        return http.client.HTTPConnection(urlsplit(self.url).netloc, timeout=600)

    def write(self, tokens: int, *, model: str | None = None, words: int = 12, **more: Any) -> Answer:
        """A streamed reply of about this many tokens to a prompt that no one sent before."""
        return self.post("/api/generate", self.request(tokens, model=model, words=words, **more))

    def request(self, tokens: int, *, model: str | None = None, words: int = 12, **more: Any) -> dict[str, Any]:
        """The body for `write`; `context` sets num_ctx, `prompt` replaces the prompt."""
        options = {"num_predict": tokens, "temperature": 0.0, "seed": 7}
        context = more.pop("context", self.context)
        if context is not None:
            options["num_ctx"] = context
        prompt = more.pop("prompt", None) or fresh_prompt(words)
        return {"model": model or self.model, "prompt": prompt, "raw": True, "options": options, **more}

    def loaded(self, model: str | None = None) -> dict[str, Any] | None:
        """The model's row in /api/ps; None where it is not loaded."""
        name = model or self.model
        rows = self.get("/api/ps").document["models"]
        return next((row for row in rows if name in {row["name"], row["name"].removesuffix(":latest")}), None)

    def load(self, model: str | None = None, **more: Any) -> Answer:
        """Load the model without a prompt."""
        options = {"num_ctx": more.pop("context", self.context)} if more.get("context", self.context) else {}
        return self.post("/api/generate", {"model": model or self.model, "options": options, **more})

    def unload(self, model: str | None = None) -> None:
        """Unload the model, and wait until it is gone."""
        self.post("/api/generate", {"model": model or self.model, "keep_alive": 0})
        wait_until(lambda: self.loaded(model) is None, 60)

    def log_text(self) -> str:
        """The server's log."""
        assert self.log is not None
        return self.log.read_text(encoding="utf-8", errors="replace")


def fresh_prompt(words: int) -> str:
    """A prompt whose beginning is in no cache."""
    return f"{uuid.uuid4().hex} once upon a time " + "there was a river and " * (words // 5)


def wait_until(condition: Any, seconds: float) -> bool:
    """Whether the condition held within this time."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


@contextmanager
def together(count: int) -> Iterator[ThreadPoolExecutor]:
    """As many requests at once."""
    with ThreadPoolExecutor(count) as pool:
        yield pool


def results(jobs: list[Future[Answer]]) -> list[Answer]:
    """All answers, in the order of asking."""
    return [job.result() for job in jobs]
