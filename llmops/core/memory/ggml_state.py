"""States of fixed size of a ggml server: one row for each slot in every recurrent layer, whatever the context."""

from __future__ import annotations

from llmops.core.memory.ggml_settings import GgmlSettings
from llmops.core.model import ModelSpec, StateLayer

STATE_ELEMENT_BYTES = 4  # create_memory asks for 32-bit floats in both parts, whatever the cache types are

# src/llama-arch.cpp, llm_arch_supports_rs_rollback (b11434): these keep a row more for each token that is guessed, so
# that wrong guesses can be taken back. The others are refused them and keep one row.
ROLLS_BACK = frozenset(
    {
        "bailingmoe3",
        "glm5-next",
        "kimi-k3",
        "lfm2",
        "lfm2moe",
        "nemotron_h",
        "nemotron_h_moe",
        "qwen35",
        "qwen35moe",
    }
)


def state_rows(model: ModelSpec, settings: GgmlSettings) -> int:
    """Rows of one layer (src/llama-memory-recurrent.cpp): one for each slot, in a shared pool too."""
    guesses = settings.draft_tokens if model.architecture in ROLLS_BACK else 0
    return settings.slots * (1 + guesses)


def row_bytes(layer: StateLayer) -> int:
    """Bytes of one row: convolution and recurrent part."""
    return STATE_ELEMENT_BYTES * (layer.convolution_elements + layer.recurrent_elements)


def layer_state_bytes(model: ModelSpec, settings: GgmlSettings) -> tuple[int, ...]:
    """Bytes of every layer that keeps a state, in order."""
    rows = state_rows(model, settings)
    return tuple(rows * row_bytes(layer) for layer in model.state_layers)


def total_state_bytes(model: ModelSpec, settings: GgmlSettings) -> int:
    """Bytes of all states, the engine's line `llama_memory_recurrent: size`."""
    return sum(layer_state_bytes(model, settings))
