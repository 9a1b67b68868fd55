"""What Ollama makes of a plan's shape: the same ggml servers, with its own choices."""

from __future__ import annotations

from dataclasses import replace

from llmops.core.model import ModelSpec
from llmops.core.plan import Shape
from llmops.core.version import Version
from llmops.engines.ollama.facts import BATCHES, ONE_SLOT_FAMILIES, RUNS_LLAMA_SERVER

MOST_SLOTS = 256  # LLAMA_MAX_SEQ of llama.cpp (src/llama-cparams.h)


def most_slots_of(model: ModelSpec, version: Version | None) -> int:
    """One for the families that Ollama never serves side by side."""
    return 1 if model.architecture in ONE_SLOT_FAMILIES.at(version) else MOST_SLOTS


def shaped(shape: Shape, model: ModelSpec, version: Version | None) -> Shape:
    """The shape as it will run: slots and context cut to what the model can, batch and file reading as Ollama decides.

    On the processor the file is read into memory (server/sched.go: "disabling mmap for llama-server load by default").
    Slots share no pool of cache: the number is always given to the child. Before 0.30 no prompts are kept.
    """
    slots = min(shape.slots, most_slots_of(model, version))
    context = min(shape.context_tokens_per_slot, model.context_tokens_trained)
    batch = next(batch for above, batch in BATCHES.at(version) if slots * context > above)
    wraps = RUNS_LLAMA_SERVER.at(version)
    return replace(
        shape,
        slots=slots,
        context_tokens_per_slot=context,
        kv_unified=shape.kv_unified and wraps,
        swa_full=shape.swa_full and wraps,
        batch_tokens=batch,
        ubatch_tokens=batch,
        memory_mapped=bool(shape.gpu_layers),
        prompt_cache_bytes=shape.prompt_cache_bytes if wraps else 0,
        context_checkpoints=shape.context_checkpoints if wraps else 0,
        repack=shape.repack or not wraps,
    )
