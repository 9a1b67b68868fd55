"""Where the experts of a vLLM server lie: every one in parts on all ranks of a stage, or whole ones on each."""

from __future__ import annotations

from math import prod

from llmops.core.layer_weights import layer_weights
from llmops.core.memory.vllm_facts import EVEN_EXPERTS
from llmops.core.memory.vllm_settings import VllmSettings
from llmops.core.model import ModelSpec

# Names of matrices of experts that every token reads (GGUF's words for them).
_SHARED_EXPERT = "_shexp"


def expert_share(model: ModelSpec, settings: VllmSettings, rank: int) -> float:
    """The share of a stage's routed experts on one rank.

    Engines that serve side by side share them too, whether experts are whole or not (fused_moe/config.py,
    flatten_tp_across_dp): only the rest of the model is there for each engine.
    """
    if not settings.expert_parallel or settings.expert_ranks == 1 or not model.experts:
        return 1 / settings.expert_ranks
    return experts_of_rank(model, settings, rank) / model.experts


def experts_of_rank(model: ModelSpec, settings: VllmSettings, rank: int) -> int:
    """How many whole experts of a layer one rank has (determine_expert_map)."""
    base, rest = divmod(model.experts, settings.expert_ranks)
    place = settings.expert_rank(rank)
    if EVEN_EXPERTS.at(settings.version):
        return base + (place < rest)
    return base + (rest if place == settings.expert_ranks - 1 else 0)


def whole_shared_experts(model: ModelSpec, settings: VllmSettings) -> float:
    """The share of the weights in shared experts that each rank keeps beyond its part of them.

    They are whole where tokens are shared out over a tensor-parallel group before the experts
    (use_sequence_parallel_moe: whole experts, both kinds of parallel ranks; qwen2_moe.py, deepseek_v2.py).
    """
    if not settings.expert_parallel or settings.tensor_parallel == 1 or settings.data_parallel == 1:
        return 0.0
    if not model.layer_shapes:  # how wide they are is not known: at most all that is no routed expert
        layers = layer_weights(model)
        return (
            sum(size - experts for size, experts in layers) / model.weights_bytes * (1 - 1 / settings.tensor_parallel)
        )
    shared = whole = 0
    for shape in model.layer_shapes:
        for name, dimensions in shape.tensors:
            elements = len(shape.layers) * prod(dimensions)
            whole += elements
            shared += elements if _SHARED_EXPERT in name else 0
    return shared / whole * (1 - 1 / settings.tensor_parallel) if whole else 0.0
