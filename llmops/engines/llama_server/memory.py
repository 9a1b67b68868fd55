"""What a shape takes when llama-server serves it: the plan's words to the settings of the ggml memory model."""

from __future__ import annotations

from llmops.core.hardware import Hardware
from llmops.core.memory.ggml import budgets
from llmops.core.model import ModelSpec
from llmops.core.plan import MemoryModel
from llmops.core.version import Version
from llmops.engines.ggml import ggml_settings


def memory_model(hardware: Hardware, model: ModelSpec, build: Version | None) -> MemoryModel:
    """A function from a shape to its budgets on this machine, by the rules of this build (None: the newest known)."""
    return lambda shape: budgets(hardware, model, ggml_settings(shape, hardware.cpu.flags), build)
