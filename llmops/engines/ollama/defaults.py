"""What Ollama chooses by itself for values that nobody gives."""

from __future__ import annotations

from dataclasses import replace

from llmops.core.hardware import Hardware
from llmops.core.model import ModelSpec
from llmops.core.plan import Fixed
from llmops.core.units import MIB
from llmops.engines.found import Installation
from llmops.engines.ollama.facts import (
    DEFAULT_CHECKPOINTS,
    DEFAULT_CONTEXT_TIERS,
    DEFAULT_PROMPT_CACHE_MIB,
    DEFAULT_SLOTS,
    RUNS_LLAMA_SERVER,
)


def with_defaults(fixed: Fixed, model: ModelSpec, installation: Installation, hardware: Hardware) -> Fixed:
    """Every value that is not fixed as this version chooses it; the batch follows from the shape itself."""
    version = installation.version
    keeps_prompts = RUNS_LLAMA_SERVER.at(version)
    prompt_cache = DEFAULT_PROMPT_CACHE_MIB * MIB if keeps_prompts else 0
    checkpoints = DEFAULT_CHECKPOINTS if keeps_prompts else 0
    given = fixed.prompt_cache_bytes, fixed.context_checkpoints
    card_bytes = sum(gpu.total_bytes or 0 for gpu in hardware.gpus)
    tiers = DEFAULT_CONTEXT_TIERS.at(version)
    context = next(tokens for least_bytes, tokens in tiers if card_bytes >= least_bytes)
    return replace(
        fixed,
        slots=fixed.slots or DEFAULT_SLOTS.at(version),
        context_tokens=fixed.context_tokens or min(context, model.context_tokens_trained),
        cache_type_k=fixed.cache_type_k or "f16",
        cache_type_v=fixed.cache_type_v or "f16",
        prompt_cache_bytes=prompt_cache if given[0] is None else given[0],
        context_checkpoints=checkpoints if given[1] is None else given[1],
    )
