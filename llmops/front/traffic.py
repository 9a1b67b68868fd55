"""What a front must know of an engine's HTTP interface, as data: which requests take a slot, how errors look."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass

from llmops.core.errors import Unsupported


@dataclass(frozen=True)
class ErrorForm:
    """How errors look below a path: `body` makes the JSON text from a status and a message.

    `below` None is every other path.
    """

    below: str | None
    body: Callable[[int, str], str]


@dataclass(frozen=True)
class Traffic:
    """The HTTP side of one engine.

    Every POST takes a slot but those that end in one of `cheap_endings` or begin with one of `cheap_beginnings`, so an
    endpoint of a later version is bounded too. `health_path` answers without waking a sleeping model.
    `host_header` None: the engine accepts any. `error_forms`: the general one first. `only_below`: beside
    `health_path` nothing else is passed on; empty: everything is, for the engine asks for its key everywhere or has
    none. `powers` is what a client can do, in words.
    """

    default_url: str
    health_path: str
    cheap_endings: tuple[str, ...]
    cheap_beginnings: tuple[str, ...]
    host_header: str | None
    error_forms: tuple[ErrorForm, ...]
    powers: str
    only_below: tuple[str, ...] = ()


def traffic_of(engine: str) -> Traffic:
    """Raise Unsupported for an engine whose interface llmops does not know."""
    if engine not in _TRAFFIC:
        raise Unsupported(f"llmops renders no front for {engine}", hint=f"one of: {', '.join(_TRAFFIC)}")
    return _TRAFFIC[engine]


_KINDS = {403: "permission_error", 503: "unavailable_error"}
_PHRASES = {403: "Forbidden", 503: "Service Unavailable"}


def _llama_error(status: int, message: str) -> str:
    # As tools/server/server-common.cpp forms every error.
    return _json({"error": {"code": status, "message": message, "type": _KINDS[status]}})


def _ollama_error(_status: int, message: str) -> str:
    return _json({"error": message})


def _openai_error(_status: int, message: str) -> str:
    # As Ollama's openai/openai.go forms errors below /v1.
    return _json({"error": {"message": message, "type": "api_error", "param": None, "code": None}})


def _vllm_error(status: int, message: str) -> str:
    # As vLLM has formed every error since 0.10 (ErrorResponse; vllm/entrypoints/serve/engine/protocol.py of 0.32.0).
    return _json({"error": {"message": message, "type": _PHRASES[status], "param": None, "code": status}})


def _anthropic_error(status: int, message: str) -> str:
    # As vllm/entrypoints/anthropic/api_router.py of 0.32.0 translates them.
    return _json({"type": "error", "error": {"type": _PHRASES[status], "message": message}})


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
        powers="every function of llama-server",
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
        powers="every function of ollama",
    ),
    "vllm": Traffic(
        default_url="http://127.0.0.1:8000",
        health_path="/health",
        # What only turns text into tokens or back, counts them, ends a request, or changes adapters (0.8.5 to 0.33.0).
        cheap_endings=(
            "/render", "/derender", "/count_tokens", "/cancel", "/load_lora_adapter", "/unload_lora_adapter",
        ),
        cheap_beginnings=(),
        host_header=None,
        error_forms=(ErrorForm(None, _vllm_error), ErrorForm("/v1/messages", _anthropic_error)),
        powers="the API of vllm below /v1/",
        # The one prefix that --api-key guards in every version (AuthenticationMiddleware): /v2 and /inference answer
        # without it up to 0.21.0; /metrics, /tokenize, /invocations, /pause and what else there is always do.
        only_below=("/v1/",),
    ),
}  # fmt: skip
