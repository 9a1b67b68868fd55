"""One package per engine behind the protocol in base.py, imported when it is asked for."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING

from llmops.core.errors import UsageError

if TYPE_CHECKING:
    from llmops.engines.base import Engine

    ENGINES: tuple[Engine, ...]

# Name, package and class, the engine that `auto` prefers first.
_PLACES = {
    "llama-server": ("llmops.engines.llama_server", "LlamaServer"),
    "ollama": ("llmops.engines.ollama", "Ollama"),
    "vllm": ("llmops.engines.vllm", "Vllm"),
}


def engine_named(name: str) -> Engine:
    """Raise UsageError for an engine that llmops does not know."""
    if name not in _PLACES:
        known = ", ".join(_PLACES)
        raise UsageError(f"{name!r} is not an engine that llmops knows", hint=f"one of: {known}")
    return _load(name)


@cache
def _load(name: str) -> Engine:
    package, word = _PLACES[name]
    engine: Engine = getattr(import_module(package), word)()
    return engine


def __getattr__(name: str) -> tuple[Engine, ...]:
    """ENGINES: all of them, which imports all of them."""
    if name != "ENGINES":
        raise AttributeError(name)
    return tuple(_load(known) for known in _PLACES)
