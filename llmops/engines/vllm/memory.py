"""What a shape takes when vLLM serves it: the plan's words to the settings of the vLLM memory model."""

from __future__ import annotations

from dataclasses import replace

from llmops.core.hardware import Hardware
from llmops.core.memory.budget import MemoryBudget
from llmops.core.memory.draft import with_draft
from llmops.core.memory.vllm import budgets
from llmops.core.memory.vllm_budget import card_facts, cards_of_machines
from llmops.core.memory.vllm_cache import CacheLayout, bytes_for_requests, cache_figures, cache_layout
from llmops.core.memory.vllm_settings import VllmSettings
from llmops.core.model import ModelSpec
from llmops.core.plan import MemoryModel, Shape
from llmops.core.version import Version
from llmops.engines.found import Served
from llmops.engines.vllm.defaults import device, own_cache_type
from llmops.engines.vllm.seen_pool import seen_pool

_WORDS = {"f16": "float16", "bf16": "bfloat16", "fp8": "fp8"}


def memory_model(
    hardware: Hardware,
    model: ModelSpec,
    version: Version | None,
    draft: ModelSpec | None = None,
    served: Served | None = None,
) -> MemoryModel:
    """A function from a shape to the budget of each card that it uses, or of the host, by the rules of this version.

    The pool that was made by what is `served` here now narrows that of shapes which differ in their limits alone.
    """
    loaded = model if draft is None else with_draft(model, draft)

    def memory(shape: Shape) -> tuple[MemoryBudget, ...]:
        settings = vllm_settings(shape, hardware, loaded, version)
        if settings.device != "cpu" and not hardware.gpus:
            return _unseen_cards(loaded, settings, shape)
        settings = replace(settings, seen=seen_pool(served, settings, hardware, loaded))
        found = budgets(hardware, loaded, settings)
        return tuple(_with_needs(budget, hardware, loaded, settings, shape) for budget in found)

    return memory


def _unseen_cards(model: ModelSpec, settings: VllmSettings, shape: Shape) -> tuple[MemoryBudget, ...]:
    """Cards of which nothing is known but what their cache gets: that is the row, and nothing beside it."""
    pool = shape.kv_memory_bytes or 0
    figures = cache_figures(model, settings, pool)
    layout = cache_layout(model, settings)
    row = MemoryBudget(
        device="",
        total_bytes=pool,
        available_bytes=pool,
        cache_bytes=pool,
        cache_tokens=figures.tokens,
        usable_cache_tokens=figures.usable_tokens,
        max_concurrency=round(figures.max_concurrency, 4),
    )
    return tuple(
        _needing(replace(row, device=f"gpu{rank}"), layout, shape, stage=settings.stage(rank))
        for rank in range(settings.ranks)
    )


def _with_needs(
    budget: MemoryBudget, hardware: Hardware, model: ModelSpec, settings: VllmSettings, shape: Shape
) -> MemoryBudget:
    """The row with what full slots need of its pool; a row without a pool as it is."""
    if budget.cache_tokens is None:
        return budget
    ranks = settings.ranks
    if budget.device == "host":  # the processor's, or that of cards which share its memory: all ranks in one row
        facts = card_facts(hardware.gpus[0]) if hardware.gpus else None
        layout = cache_layout(model, settings, facts)
        return _needing(budget, layout, shape, times=-(-ranks // shape.nodes) if hardware.gpus else ranks)
    gpus = cards_of_machines(hardware.gpus, shape.nodes)
    rank = [f"gpu{gpu.index}" for gpu in gpus].index(budget.device)
    layout = cache_layout(model, settings, card_facts(gpus[rank]))
    return _needing(budget, layout, shape, stage=settings.stage(rank))


def _needing(
    budget: MemoryBudget, layout: CacheLayout, shape: Shape, *, stage: int | None = None, times: int = 1
) -> MemoryBudget:
    tokens = shape.context_tokens_per_slot
    return replace(
        budget,
        needed_cache_bytes=bytes_for_requests(layout, shape.slots_of_each, tokens, stage) * times,
        request_cache_bytes=bytes_for_requests(layout, 1, tokens, stage) * times,
    )


def vllm_settings(shape: Shape, hardware: Hardware, model: ModelSpec, version: Version | None) -> VllmSettings:
    """The same shape in the memory model's terms."""
    own = shape.cache_type_k == own_cache_type(model, version)
    return VllmSettings(
        version=version,
        device=device(hardware, on_card=shape.gpu_layers is not None),
        tensor_parallel=shape.tensor_parallel,
        pipeline_parallel=shape.pipeline_parallel,
        data_parallel=shape.data_parallel,
        expert_parallel=shape.expert_parallel,
        layer_partition=shape.layer_partition,
        nodes=shape.nodes,
        max_model_len=shape.context_tokens_per_slot,
        max_num_seqs=shape.slots_of_each,
        max_num_batched_tokens=shape.batch_tokens,
        gpu_memory_utilization=shape.gpu_memory_utilization,
        kv_memory_bytes=shape.kv_memory_bytes,
        cache_dtype="auto" if own else _WORDS[shape.cache_type_k],
        prefix_caching=shape.prefix_caching,
        enforce_eager=shape.enforce_eager,
    )
