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
from llmops.engines.llama_server.builds import settings_as_run


def memory_model(
    hardware: Hardware, model: ModelSpec, build: Version | None, draft: ModelSpec | None = None
) -> MemoryModel:
    """A function from a shape to its budgets on this machine, by the rules of this build (None: the newest known)."""

    def memory(shape: Shape) -> tuple[MemoryBudget, ...]:
        own = budgets(hardware, model, settings_as_run(shape, hardware.cpu.flags, build), build)
        if draft is None:
            return own
        # The draft has a context as long as a slot's for each slot (tools/server/server-context.cpp), in 16 bits unless
        # it is told otherwise, no memory of earlier prompts and all its experts on the cards (common/common.h).
        layers = None if shape.gpu_layers is None else draft.layers + 1
        beside = replace(
            shape,
            gpu_layers=layers,
            cpu_expert_layers=0,
            cache_type_k="f16",
            cache_type_v="f16",
            prompt_cache_bytes=0,
            context_checkpoints=0,
        )
        return together(own, budgets(hardware, draft, settings_as_run(beside, hardware.cpu.flags, build), build))

    return memory
