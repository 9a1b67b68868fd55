"""llama-server (llama.cpp): everything that llmops knows of it."""

from llmops.engines.llama_server.engine import LlamaServer

__all__ = ["LlamaServer"]
