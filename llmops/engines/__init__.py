"""One package per engine behind the protocol in base.py."""

from __future__ import annotations

from llmops.core.errors import UsageError
from llmops.engines.base import Engine
from llmops.engines.llama_server import LlamaServer
from llmops.engines.ollama import Ollama

ENGINES: tuple[Engine, ...] = (LlamaServer(), Ollama())


def engine_named(name: str) -> Engine:
    """Raise UsageError for an engine that llmops does not know."""
    for engine in ENGINES:
        if engine.name == name:
            return engine
    known = ", ".join(engine.name for engine in ENGINES)
    raise UsageError(f"{name!r} is not an engine that llmops knows", hint=f"one of: {known}")
