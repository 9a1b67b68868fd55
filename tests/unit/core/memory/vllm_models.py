"""Small models and a card for the tests of the vLLM memory model."""

from __future__ import annotations

from llmops.core.hardware import Gpu, Hardware, Memory
from llmops.core.model import AttentionLayer, ModelSpec, StateLayer
from llmops.core.units import GIB, MIB


def model(
    attention: tuple[AttentionLayer, ...], states: tuple[StateLayer, ...] = (), *, layers: int = 0, **more: object
) -> ModelSpec:
    """A model of these layers; everything else is of a usual size."""
    facts: dict[str, object] = {
        "reference": "test", "format": "hf", "architecture": "qwen3", "name": None,
        "layers": layers or len(attention) + len(states), "attention_layers": attention, "state_layers": states,
        "embedding_length": 1_024, "feed_forward_length": 4_096, "attention_heads": 16, "vocabulary_size": 32_000,
        "context_tokens_trained": 4_096, "parameters": 10**9, "active_parameters": 10**9, "weights_bytes": 2 * 10**9,
        "active_weights_bytes": 2 * 10**9, "file_bytes": 2 * 10**9, "quantization": "bf16", "tensors": (),
    }  # fmt: skip
    return ModelSpec(**{**facts, **more})  # type: ignore[arg-type]


def full(count: int, heads: int = 2, length: int = 64, first: int = 0) -> tuple[AttentionLayer, ...]:
    """Layers that see every token."""
    return tuple(AttentionLayer(heads, length, length, layer=first + number) for number in range(count))


def window(count: int, tokens: int, heads: int = 2, length: int = 64, first: int = 0) -> tuple[AttentionLayer, ...]:
    """Layers that see a window."""
    return tuple(AttentionLayer(heads, length, length, tokens, layer=first + number) for number in range(count))


def card(total_bytes: int = 24_564 * MIB, free_bytes: int | None = None, **more: object) -> Gpu:
    """A graphics card with nothing on it."""
    free = total_bytes if free_bytes is None else free_bytes
    return Gpu(0, None, "NVIDIA GeForce RTX 4090", total_bytes, free, **more)  # type: ignore[arg-type]


def machine(*cards: Gpu, total: int = 64 * GIB, available: int = 60 * GIB) -> Hardware:
    """A machine with these cards."""
    return Hardware(gpus=cards, memory=Memory(total_bytes=total, available_bytes=available))
