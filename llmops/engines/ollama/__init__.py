"""Ollama: everything that llmops knows of it."""

from llmops.engines.ollama.engine import Ollama

__all__ = ["Ollama"]
