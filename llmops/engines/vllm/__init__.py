"""vLLM: sizing and planning; llmops cannot configure it yet."""

from llmops.engines.vllm.engine import Vllm

__all__ = ["Vllm"]
