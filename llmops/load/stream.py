"""One streamed chat completion: what is sent, and the first one, which must be answered."""

from __future__ import annotations

from llmops.core.errors import EngineNotAnswering
from llmops.host import Host
from llmops.load.prompts import random_prompt
from llmops.load.timings import RequestTiming, read_timings

CHAT_PATH = "/v1/chat/completions"
DEFAULT_TIMEOUT_SECONDS = 300.0
# Longer than one word, of whole sentences, and short enough for every machine: what is loaded late is loaded then.
WARM_UP_PROMPT_TOKENS, WARM_UP_REPLY_TOKENS = 64, 16
_LOOK = "look at the engine's log; `curl -s URL/health` says whether it is still loading"
# What a server says that runs and answers no chats, and what to do.
_REFUSED_CHATS = (
    (
        "chat template",
        "the model has no template for chats: serve its form that follows instructions (-it, -instruct), or put its"
        " chat_template.jinja beside config.json",
    ),
    ("HTTP 404", "it answers no chats: is it a model for embeddings, or does config.json lack `architectures`?"),
)


def stream_one(
    host: Host,
    url: str,
    prompt: str,
    reply_tokens: int,
    *,
    model: str | None = None,
    timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS,
) -> RequestTiming:
    """Ask for exactly `reply_tokens` tokens at the server `url` (without path); never raises for a bad answer."""
    payload = completion_payload(prompt, reply_tokens, model)
    return read_timings(host.stream_completion(url.rstrip("/") + CHAT_PATH, payload, timeout_seconds=timeout_seconds))


def warm_up(
    host: Host,
    url: str,
    *,
    prompt_tokens: int = WARM_UP_PROMPT_TOKENS,
    reply_tokens: int = WARM_UP_REPLY_TOKENS,
    model: str | None = None,
    seed: int = 1,
    timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS,
) -> RequestTiming:
    """One short request before anything is measured; raise EngineNotAnswering where it gets no proper answer."""
    prompt, most = random_prompt(prompt_tokens, seed), min(reply_tokens, WARM_UP_REPLY_TOKENS)
    found = stream_one(host, url, prompt, most, model=model, timeout_seconds=timeout_seconds)
    if found.error is not None:
        raise EngineNotAnswering(
            f"the engine at {url} did not answer a first request: {found.error}",
            hint=next((hint for words, hint in _REFUSED_CHATS if words in found.error), _LOOK),
        )
    return found


def completion_payload(prompt: str, reply_tokens: int, model: str | None) -> dict[str, object]:
    """What is sent: greedy, no prompt cache, not ended by the model, with the engine's own counts at the end."""
    payload: dict[str, object] = {
        "messages": [{"role": "user", "content": prompt}],
        "max_tokens": reply_tokens,
        "stream": True,
        "stream_options": {"include_usage": True},
        "temperature": 0,
        "cache_prompt": False,
        "ignore_eos": True,
    }
    return payload if model is None else {**payload, "model": model}
