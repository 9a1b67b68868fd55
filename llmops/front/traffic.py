"""What a front must know of an engine's HTTP interface, as data: which requests take a slot, how errors look."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass

from llmops.core.errors import Unsupported


@dataclass(frozen=True)
class ErrorForm:
    """How errors look below a path: `body` makes the JSON text from a message; `below` None is every other path."""

    below: str | None
    body: Callable[[str], str]


@dataclass(frozen=True)
class Traffic:
    """The HTTP side of one engine.

    Every POST takes a slot but those that end in one of `cheap_endings` or begin with one of `cheap_beginnings`, so an
    endpoint of a later version is bounded too. `health_path` answers without waking a sleeping model.
    `host_header` None: the engine accepts any. `error_forms`: the general one first.
    """

    default_url: str
    health_path: str
    cheap_endings: tuple[str, ...]
    cheap_beginnings: tuple[str, ...]
    host_header: str | None
    error_forms: tuple[ErrorForm, ...]


def traffic_of(engine: str) -> Traffic:
    """Raise Unsupported for an engine whose queue is bounded otherwise or whose interface llmops does not know."""
    if engine not in _TRAFFIC:
        raise Unsupported(f"llmops renders no front for {engine}", hint=f"one of: {', '.join(_TRAFFIC)}")
    return _TRAFFIC[engine]


def _llama_error(message: str) -> str:
    # As tools/server/server-common.cpp forms every error.
    return _json({"error": {"code": 503, "message": message, "type": "unavailable_error"}})


def _ollama_error(message: str) -> str:
    return _json({"error": message})


def _openai_error(message: str) -> str:
    # As Ollama's openai/openai.go forms errors below /v1.
    return _json({"error": {"message": message, "type": "api_error", "param": None, "code": None}})


def _json(document: object) -> str:
    return json.dumps(document, separators=(",", ":"))


_TRAFFIC = {
    "llama-server": Traffic(
        default_url="http://127.0.0.1:8080",
        # Polling /slots or sending a prompt wakes a model that sleeps; /health does not.
        health_path="/health",
        cheap_endings=(
            "/tokenize", "/detokenize", "/apply-template", "/count_tokens", "/input_tokens", "/props",
            "/lora-adapters", "/models/load", "/models/unload",
        ),
        cheap_beginnings=(),
        host_header=None,
        error_forms=(ErrorForm(None, _llama_error),),
    ),
    "ollama": Traffic(
        default_url="http://127.0.0.1:11434",
        health_path="/api/version",
        cheap_endings=(
            "/api/show", "/api/pull", "/api/push", "/api/create", "/api/copy", "/api/me", "/api/signout",
        ),
        cheap_beginnings=("/api/blobs/",),
        # One that listens on loopback refuses requests for another name (allowedHostsMiddleware, server/routes.go).
        host_header="localhost",
        error_forms=(ErrorForm(None, _ollama_error), ErrorForm("/v1/", _openai_error)),
    ),
}  # fmt: skip
