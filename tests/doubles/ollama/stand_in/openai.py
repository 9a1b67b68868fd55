"""The OpenAI form of a chat: requests in, answers and errors out."""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Iterator, Mapping
from typing import Any

from .answers import Part

_NUMBERS = itertools.count(1)
_OPTIONS = ("temperature", "top_p", "seed", "stop", "presence_penalty", "frequency_penalty")


def to_chat(body: Mapping[str, Any]) -> dict[str, Any]:
    """The request in Ollama's own form; what Ollama does not know is left out."""
    options = {name: body[name] for name in _OPTIONS if body.get(name) is not None}
    limit = body.get("max_completion_tokens") or body.get("max_tokens")
    if limit is not None:
        options["num_predict"] = limit
    return {"model": body.get("model", ""), "messages": body.get("messages") or [], "options": options}


def error(status: int, message: str) -> dict[str, Any]:
    """An error."""
    kind = {400: "invalid_request_error", 404: "not_found_error"}.get(status, "api_error")
    return {"error": {"message": message, "type": kind, "param": None, "code": None}}


def _usage(final: Mapping[str, Any]) -> dict[str, int]:
    asked, said = final.get("prompt_eval_count", 0), final.get("eval_count", 0)
    return {"prompt_tokens": asked, "completion_tokens": said, "total_tokens": asked + said}


def whole(model: str, text: str, final: Mapping[str, Any]) -> dict[str, Any]:
    """An answer that is not streamed."""
    message = {"role": "assistant", "content": text}
    return {
        **_head(model, "chat.completion"),
        "choices": [{"index": 0, "message": message, "finish_reason": final["done_reason"]}],
        "usage": _usage(final),
    }


def _head(model: str, kind: str) -> dict[str, Any]:
    number = f"chatcmpl-{next(_NUMBERS)}"
    return {
        "id": number, "object": kind, "created": int(time.time()), "model": model, "system_fingerprint": "fp_ollama",
    }  # fmt: skip


def events(model: str, parts: Iterator[Part], *, usage: bool) -> Iterator[str]:
    """The lines of a streamed answer."""
    head = _head(model, "chat.completion.chunk")
    for part in parts:
        reason = part.final["done_reason"] if part.final else None
        delta = {"role": "assistant", "content": part.text}
        chunk = {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]}
        yield f"data: {json.dumps(chunk, ensure_ascii=False)}\n\n"
        if part.final is not None and usage:
            yield f"data: {json.dumps({**head, 'choices': [], 'usage': _usage(part.final)})}\n\n"
    yield "data: [DONE]\n\n"
