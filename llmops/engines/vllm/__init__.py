"""vLLM's server: what it is told, what it says, and the files that make a plan live."""

from llmops.engines.vllm.engine import Vllm

__all__ = ["Vllm"]
