"""The events of one streamed chat completion, read into times and token counts; what fails is in the result."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from llmops.core.statistics import intervals
from llmops.host import StreamTimings

# What a full queue is answered with: 503 by vLLM, Ollama and proxies, 429 by what limits rates.
REJECTIONS = frozenset({429, 503})
# An event may hold half a character or two tokens now and then; more than this is an engine that gathers them.
GATHERED_TOKENS_PER_EVENT = 1.5
# Words of the answer and of the thinking before it, as llama-server and as Ollama name them.
_TEXT_KEYS = ("content", "reasoning_content", "reasoning")


@dataclass(frozen=True)
class RequestTiming:
    """One request. `started_seconds` is on the clock of Host.monotonic, the other times count from there.

    `headers_seconds` is the wait for a slot on llama-server, which sends headers when a slot takes the request;
    other engines send them at once. `token_seconds` has one entry for every event that carried text.
    `prefill_seconds` and `decode_tokens_per_second` are the engine's own figures, None where it gives none.
    `error_code` is the number in an error that came as an event: vLLM refuses a stream after it has said HTTP 200.
    """

    started_seconds: float
    headers_seconds: float | None
    token_seconds: tuple[float, ...]
    ended_seconds: float
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    reply_tokens: int | None = None
    prefill_seconds: float | None = None
    decode_tokens_per_second: float | None = None
    finish_reason: str | None = None
    status: int | None = None
    error: str | None = None
    error_code: int | None = None

    @property
    def rejected(self) -> bool:
        """Refused before it began, by the status or by an event: the queue was full."""
        return not self.token_seconds and (self.status in REJECTIONS or self.error_code in REJECTIONS)

    @property
    def longest_gap_seconds(self) -> float | None:
        """The longest silence after the first token, with that before a reply broke off; None without a token.

        A request that an engine puts back for want of cache shows only here: it was answered at once and never failed.
        """
        if not self.token_seconds:
            return None
        broken_off = (self.ended_seconds - self.token_seconds[-1],) if self.error is not None else ()
        return max((*self.inter_token_seconds, *broken_off), default=0.0)

    @property
    def tokens_per_event(self) -> float | None:
        """Tokens that the engine counted for each event that carried text; None where it counted none."""
        return self.reply_tokens / len(self.token_seconds) if self.reply_tokens and self.token_seconds else None

    @property
    def gathers_tokens(self) -> bool:
        """Whether events hold several tokens (vLLM's --stream-interval): the gaps are then between events."""
        return (self.tokens_per_event or 1.0) > GATHERED_TOKENS_PER_EVENT

    @property
    def first_token_seconds(self) -> float | None:
        """Time to first token (TTFT)."""
        return self.token_seconds[0] if self.token_seconds else None

    @property
    def inter_token_seconds(self) -> tuple[float, ...]:
        """Gaps between tokens as the client saw them (ITL)."""
        return intervals(self.token_seconds)

    @property
    def generation(self) -> tuple[float, float] | None:
        """First and last token on the clock of Host.monotonic."""
        if not self.token_seconds:
            return None
        return self.started_seconds + self.token_seconds[0], self.started_seconds + self.token_seconds[-1]

    @property
    def tokens_per_second(self) -> float | None:
        """Tokens after the first event over the time that they took, as the client saw it; None for less than two."""
        events = len(self.token_seconds)
        if events < 2 or self.token_seconds[-1] <= self.token_seconds[0]:
            return None
        count = events if self.reply_tokens is None else self.reply_tokens
        return count * (events - 1) / events / (self.token_seconds[-1] - self.token_seconds[0])


def read_timings(stream: StreamTimings) -> RequestTiming:
    """Read the events of an OpenAI chat stream, with llama.cpp's `timings` where there are any."""
    reading = _Reading()
    for seconds, text in stream.events:
        reading.event(seconds, text)
    return RequestTiming(
        started_seconds=stream.started_seconds,
        headers_seconds=stream.headers_seconds,
        token_seconds=tuple(reading.token_seconds),
        ended_seconds=stream.ended_seconds,
        prompt_tokens=_whole(reading.usage.get("prompt_tokens")),
        cached_tokens=reading.cached_tokens(),
        reply_tokens=_whole(reading.usage.get("completion_tokens")),
        prefill_seconds=_seconds(reading.timings.get("prompt_ms")),
        decode_tokens_per_second=_number(reading.timings.get("predicted_per_second")),
        finish_reason=reading.finish_reason,
        status=stream.status,
        error=stream.error or reading.problem(),
        error_code=reading.error_code,
    )


class _Reading:
    def __init__(self) -> None:
        self.token_seconds: list[float] = []
        self.usage: dict[str, Any] = {}
        self.timings: dict[str, Any] = {}
        self.finish_reason: str | None = None
        self.error_code: int | None = None
        self._error: str | None = None

    def event(self, seconds: float, text: str) -> None:
        try:
            event = json.loads(text)
        except ValueError:
            self._fail(f"an event is not JSON: {text[:80]!r}")
            return
        if not isinstance(event, dict):
            self._fail(f"an event is not an object: {text[:80]!r}")
            return
        if "error" in event:
            self._fail(_message(event["error"]))
            self.error_code = self.error_code or _code(event["error"])
        self.usage = _object(event.get("usage")) or self.usage
        self.timings = _object(event.get("timings")) or self.timings
        for choice in _objects(event.get("choices")):
            delta = _object(choice.get("delta"))
            if any(isinstance(delta.get(key), str) and delta[key] for key in _TEXT_KEYS):
                self.token_seconds.append(seconds)
            if isinstance(choice.get("finish_reason"), str):
                self.finish_reason = choice["finish_reason"]

    def cached_tokens(self) -> int | None:
        """Of the prompt, as llama-server tells it, or vLLM with --enable-prompt-tokens-details."""
        found = _whole(self.timings.get("cache_n"))
        return _whole(_object(self.usage.get("prompt_tokens_details")).get("cached_tokens")) if found is None else found

    def problem(self) -> str | None:
        """The first thing that was wrong, or that the stream stopped before the engine said that it was done."""
        if self._error is None and self.finish_reason is None:
            return f"the stream ended unfinished after {len(self.token_seconds)} tokens"
        return self._error

    def _fail(self, error: str) -> None:
        self._error = self._error or error


def _message(error: object) -> str:
    found = error.get("message") if isinstance(error, dict) else error
    return f"the engine says: {str(found)[:200]}"


def _code(error: object) -> int | None:
    return _whole(error.get("code")) if isinstance(error, dict) else None


def _object(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _objects(value: object) -> Iterable[dict[str, Any]]:
    return (entry for entry in value if isinstance(entry, dict)) if isinstance(value, list) else ()


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _seconds(milliseconds: object) -> float | None:
    number = _number(milliseconds)
    return None if number is None else number / 1000.0  # llama.cpp's timings are in milliseconds
