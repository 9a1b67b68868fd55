"""Asking an Ollama to work: whether it answers, loading a model, and whether requests waited in its queue."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace

from llmops.core.errors import EngineNotAnswering
from llmops.core.plan import Plan
from llmops.core.verification import Check, CheckStatus
from llmops.engines.base import Health
from llmops.engines.found import InForce
from llmops.host import Host, Response, StreamTimings
from llmops.load.ollama_durations import Durations, read_durations
from llmops.load.prompts import random_prompt

_LOAD_SECONDS = 900.0
_WAIT_SECONDS = 300.0
_REPLY_TOKENS, _PROMPT_TOKENS = 16, 48
# What a request spends outside its slot on templates and tokens, even alone (tens of milliseconds), and then some.
_OUTSIDE_SECONDS = 0.5
# Who waits for the other request waits about as long as that is served; a busy machine delays both by less, by chance.
_SHARE_OF_A_REPLY = 0.8
_ATTEMPTS = 2
_SEED = 7


def health(host: Host, url: str) -> Health:
    """/api/version answers as soon as the server listens; no model is loaded for it."""
    try:
        answer = host.get(f"{url}/api/version", timeout_seconds=2.0)
        document = json.loads(answer.body)
    except (ConnectionError, TimeoutError):
        return Health.DOWN
    except (ValueError, RecursionError):
        return Health.NONSENSE
    said = isinstance(document, dict) and isinstance(document.get("version"), str)
    return Health.READY if answer.status == 200 and said else Health.NONSENSE


def load_model(host: Host, url: str, name: str) -> None:
    """Load a model with the server's own settings: a request without a prompt does nothing else (docs/api.md).

    Raise EngineNotAnswering with the server's reason where it cannot.
    """
    try:
        answer = host.post(f"{url}/api/generate", {"model": name, "stream": False}, timeout_seconds=_LOAD_SECONDS)
    except (ConnectionError, TimeoutError) as problem:
        raise EngineNotAnswering(
            f"Ollama at {url} did not load {name}: {problem}", hint="read its log: journalctl -u ollama -n 100"
        ) from problem
    if answer.status != 200:
        raise EngineNotAnswering(
            f"Ollama at {url} does not load {name}: {_reason(answer)}",
            hint="read its log: journalctl -u ollama -n 100; plan with less memory, such as --ram-available",
        )


def _reason(answer: Response) -> str:
    try:
        document = json.loads(answer.body)
    except (ValueError, RecursionError):
        document = None
    said = document.get("error") if isinstance(document, dict) else None
    return str(said)[:300] if said else f"HTTP {answer.status}"


def queue_check(host: Host, plan: Plan, in_force: InForce, name: str) -> Check:
    """As many short requests at once as there may be without a queue, at most two, and how long each waited.

    A wait that is too long is looked at once more: a queue is there again, a busy moment is not.
    """
    together = min(2, plan.slots)
    check = _waited(host, in_force, name, together)
    for _ in range(_ATTEMPTS - 1):
        if check.status is CheckStatus.FAIL:
            check = _waited(host, in_force, name, together)
    if check.status is CheckStatus.FAIL and in_force.processing:
        return replace(check, status=CheckStatus.NOT_EVALUATED)
    return check


def _waited(host: Host, in_force: InForce, name: str, together: int) -> Check:
    jobs = [_job(host, f"{in_force.url}/api/chat", name, place) for place in range(together)]
    answers = [_durations(stream) for stream in host.together(jobs)]
    found = [durations for durations in answers if durations is not None]
    if len(found) < together:
        expected = f"at most {_OUTSIDE_SECONDS:g} s"
        return Check("queue_wait", expected, None, CheckStatus.NOT_EVALUATED, "an answer held no durations")
    longest = max(durations.queue_seconds for durations in found)
    quickest = min(durations.prompt_seconds + durations.reply_seconds for durations in found)
    most = max(_OUTSIDE_SECONDS, _SHARE_OF_A_REPLY * quickest)
    status = CheckStatus.PASS if longest <= most else CheckStatus.FAIL
    detail = f"total - load - prompt - reply durations of {together} requests, the quicker {quickest:.2f} s long"
    return Check("queue_wait", f"at most {most:.2g} s", f"{longest:.2f} s", status, detail)


def _job(host: Host, url: str, name: str, place: int) -> Callable[[], StreamTimings]:
    payload = {
        "model": name,
        "messages": [{"role": "user", "content": random_prompt(_PROMPT_TOKENS, _SEED + place)}],
        "stream": False,
        "options": {"num_predict": _REPLY_TOKENS, "temperature": 0},
    }

    def ask() -> StreamTimings:
        started = host.monotonic()
        try:
            answer = host.post(url, payload, timeout_seconds=_WAIT_SECONDS)
        except (ConnectionError, TimeoutError) as problem:
            return StreamTimings(started, None, None, (), host.monotonic() - started, str(problem))
        ended = host.monotonic() - started
        return StreamTimings(started, answer.status, None, ((ended, answer.body),), ended)

    return ask


def _durations(stream: StreamTimings) -> Durations | None:
    return read_durations(stream.events[-1][1]) if stream.events and stream.status == 200 else None
