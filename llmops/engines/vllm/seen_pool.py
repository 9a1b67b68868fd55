"""The pool of a server that runs, for plans that differ from it in their limits: it narrows what is only predicted."""

from __future__ import annotations

import math

from llmops.core.hardware import Hardware
from llmops.core.memory.vllm_budget import card_facts
from llmops.core.memory.vllm_cache import cache_layout, figures_of_blocks
from llmops.core.memory.vllm_defaults import longest_request, utilization
from llmops.core.memory.vllm_settings import SeenPool, VllmSettings
from llmops.core.model import ModelSpec
from llmops.core.plan import Fixed
from llmops.engines.found import Served


def seen_pool(served: Served | None, settings: VllmSettings, hardware: Hardware, model: ModelSpec) -> SeenPool | None:
    """The pool of what is served, where it is that of a server with these settings but for the limits; else None.

    Its own count of tokens must be what its blocks hold by the rules: words of a person may have made them others.
    """
    if served is None or served.pool is None or settings.device == "cpu" or not _is_alike(served.values, settings):
        return None
    now = served.values
    if now.slots is None or now.context_tokens is None or now.batch_tokens is None:
        return None
    each = now.slots // (now.data_parallel or 1)
    found = SeenPool(served.pool.blocks, now.context_tokens, each, now.batch_tokens)
    then = settings.with_limits_of(found)
    layout = cache_layout(model, then, card_facts(hardware.gpus[0]))
    figures = figures_of_blocks(layout, then, found.blocks, longest_request(model, then))
    return found if figures.tokens == served.pool.tokens else None


def _is_alike(now: Fixed, settings: VllmSettings) -> bool:
    """All but the limits; a pool that was given, stages and caches of another type than the model's are left out."""
    share = now.gpu_memory_utilization
    return (
        now.kv_memory_bytes is None
        and settings.kv_memory_bytes is None
        and share is not None
        and math.isclose(share, utilization(settings))
        and (now.tensor_parallel or 1, now.pipeline_parallel or 1) == (settings.tensor_parallel, 1)
        and settings.pipeline_parallel == settings.nodes == 1
        and (now.data_parallel or 1, bool(now.expert_parallel)) == (settings.data_parallel, settings.expert_parallel)
        and (now.prefix_caching, now.enforce_eager) == (settings.prefix_caching, settings.enforce_eager)
        and now.cache_type_k is None
        and settings.cache_dtype == "auto"
    )
