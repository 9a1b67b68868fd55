"""What a shape takes when llama-server serves it: the plan's words to the settings of the ggml memory model."""

from __future__ import annotations

from dataclasses import replace

from llmops.core.hardware import Hardware
from llmops.core.memory.budget import MemoryBudget
from llmops.core.memory.draft import together
from llmops.core.memory.ggml import budgets
from llmops.core.model import ModelSpec
from llmops.core.plan import MemoryModel, Shape
from llmops.core.version import Version
from llmops.engines.ggml import ggml_settings


def memory_model(
    hardware: Hardware, model: ModelSpec, build: Version | None, draft: ModelSpec | None = None
) -> MemoryModel:
    """A function from a shape to its budgets on this machine, by the rules of this build (None: the newest known)."""

    def memory(shape: Shape) -> tuple[MemoryBudget, ...]:
        own = budgets(hardware, model, ggml_settings(shape, hardware.cpu.flags), build)
        if draft is None:
            return own
        # The draft has a context as long as a slot's for each slot (tools/server/server-context.cpp), and no memory of
        # earlier prompts.
        layers = None if shape.gpu_layers is None else draft.layers + 1
        beside = replace(shape, gpu_layers=layers, prompt_cache_bytes=0, context_checkpoints=0)
        return together(own, budgets(hardware, draft, ggml_settings(beside, hardware.cpu.flags), build))

    return memory
