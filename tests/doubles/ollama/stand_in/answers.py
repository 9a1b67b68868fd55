"""One request carried out: a loaded model, a slot, the engine's stream, and the durations of it all."""

from __future__ import annotations

import datetime
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from .gate import ClientGone
from .options import Options, merge
from .prompts import engine_request
from .runner import Runner
from .scheduler import Scheduler
from .settings import FOREVER_NANOSECONDS, SECOND, Settings, parse_duration
from .store import Model


def now() -> str:
    """The time as the API writes it."""
    return time_text(time.time())


def time_text(seconds: float) -> str:
    """RFC 3339 with nanoseconds' place."""
    moment = datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc)
    return moment.isoformat(timespec="microseconds").replace("+00:00", "Z")


def keep_alive_of(body: Mapping[str, Any]) -> int | None:
    """Nanoseconds that the request asks for; None where it does not."""
    value = body.get("keep_alive")
    if value is None:
        return None
    found = int(value * SECOND) if isinstance(value, (int, float)) else parse_duration(str(value))
    if found is None:
        raise ValueError(f'time: invalid duration "{value}"')
    return FOREVER_NANOSECONDS if found < 0 else found


@dataclass(frozen=True)
class Part:
    """A piece of the reply, or its end with `final`."""

    text: str
    final: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Work:
    """What a request asks for: messages, or a raw prompt; neither only loads the model."""

    model: Model
    body: Mapping[str, Any]
    messages: list[dict[str, Any]]
    raw: str | None
    gone: Callable[[], bool]

    @property
    def only_loads(self) -> bool:
        """Whether there is nothing to answer."""
        return not self.messages and not self.raw


@dataclass(frozen=True)
class Service:
    """The settings, the loaded models, and the memory of all GPUs."""

    settings: Settings
    scheduler: Scheduler
    total_vram: int

    def carry_out(self, work: Work) -> Generator[Part, None, None]:
        """The parts of the reply; the first comes when the engine has its first token."""
        began = time.monotonic()
        keep_alive = keep_alive_of(work.body)
        if work.only_loads and keep_alive == 0:
            self.scheduler.unload(work.model)
            yield Part("", {"done_reason": "unload"})
            return
        options = merge(self.settings, work.model, work.body, self.total_vram)
        with self.scheduler.use(work.model, options, keep_alive, work.gone) as runner:
            load = time.monotonic() - began
            if work.only_loads:
                yield Part("", {"done_reason": "load"})
                return
            for part in self._in_slot(runner, options, work):
                if part.final is None:
                    yield part
                else:
                    total = {"total_duration": _ns(time.monotonic() - began), "load_duration": _ns(load)}
                    yield Part(part.text, {**part.final, **total})

    def _in_slot(self, runner: Runner, options: Options, work: Work) -> Iterator[Part]:
        path, request = engine_request(runner, options, work.messages, work.raw)
        runner.gate.enter(work.gone)
        try:
            with runner.stream(path, request, work.gone) as events:
                yield from (_chat_parts if "messages" in request else _completion_parts)(events, self.settings)
            if work.gone():
                raise ClientGone
        finally:
            runner.gate.leave()


def _ns(seconds: float) -> int:
    return int(seconds * SECOND)


def _durations(timings: Mapping[str, Any], settings: Settings) -> dict[str, int]:
    cached = 0 if settings.traits.number[:3] == (0, 30, 0) else int(timings.get("cache_n", 0))
    found = {
        "prompt_eval_count": cached + int(timings["prompt_n"]),
        "prompt_eval_duration": _ns(timings["prompt_ms"] / 1000),
        "eval_count": int(timings["predicted_n"]),
        "eval_duration": _ns(timings["predicted_ms"] / 1000),
    }
    return {name: value for name, value in found.items() if value > 0}  # the API leaves out what is nothing


def _completion_parts(events: Iterator[dict[str, Any]], settings: Settings) -> Iterator[Part]:
    for event in events:
        if event.get("content"):
            yield Part(event["content"])
        if event.get("stop"):
            reason = "length" if event["stop_type"] == "limit" else "stop"
            yield Part("", {"done_reason": reason, **_durations(event["timings"], settings)})


def _chat_parts(events: Iterator[dict[str, Any]], settings: Settings) -> Iterator[Part]:
    reason = "stop"
    for event in events:
        for choice in event["choices"]:
            reason = choice.get("finish_reason") or reason
            if choice["delta"].get("content"):
                yield Part(choice["delta"]["content"])
        if "usage" in event and not event["choices"]:
            yield Part("", {"done_reason": reason, **_durations(event["timings"], settings)})
