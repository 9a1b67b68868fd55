"""What vLLM refuses at its start whatever the memory, and what a search may choose from."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from llmops.core.errors import UsageError
from llmops.core.hardware import Gpu, Hardware
from llmops.core.memory.vllm_facts import UTILIZATION
from llmops.core.model import ModelSpec
from llmops.core.plan import Fixed
from llmops.core.problem import Choices
from llmops.core.units import GIB
from llmops.core.version import Version
from llmops.core.vllm_cards import BFLOAT16, EVERY_FP8_CACHE, FP8_CACHE, NO_FLOAT16, why_not_these_cards
from llmops.engines.vllm.defaults import (
    own_batch,
    own_cache_type,
    settings_of,
    startable_utilization,
    takes_own_pool,
    uses_cards,
)
from llmops.engines.vllm.division import Division, larger_splits, splits
from llmops.engines.vllm.required_division import require_division
from llmops.engines.vllm.steps import least_batch, require_steps


def choices(hardware: Hardware, model: ModelSpec, version: Version | None, fixed: Fixed) -> Choices:
    """What a search may choose from; raise UsageError for fixed values that the server would refuse."""
    asked = Division(hardware, model, version, fixed)
    require_possible(asked)
    free_batch = replace(fixed, slots=None, batch_tokens=None)
    own_pool = takes_own_pool(hardware, version, fixed)
    share = None if fixed.kv_memory_bytes is not None or own_pool else startable_utilization(hardware, version)
    types = _cache_types(hardware, model, version)
    small = tuple(require_steps(hardware, model, version, fixed, types))
    settings = replace(
        settings_of(hardware, version, fixed), gpu_memory_utilization=fixed.gpu_memory_utilization or share
    )
    return Choices(
        gpu_memory_utilization=share,
        first_shares=_first_shares(hardware, version, fixed) if share is not None else (),
        cache_types=types,
        least_batch_tokens=least_batch(hardware, model, version, fixed, types),
        most_batch_tokens=own_batch(hardware, model, version, free_batch).tokens,
        splits=splits(asked, settings),
        larger_splits=larger_splits(asked),
        is_paged=True,
        warnings=(*small, *_otherwise(hardware, model, version, fixed, share), *_about_experts(asked)),
    )


def _otherwise(
    hardware: Hardware, model: ModelSpec, version: Version | None, fixed: Fixed, share: float | None
) -> Iterator[str]:
    """What a plan chooses otherwise than the server would by itself, since it would not start."""
    own = UTILIZATION.at(version)
    if fixed.kv_memory_bytes is not None and takes_own_pool(hardware, version, fixed):
        yield (
            "before 0.20.0 a server without cards is told the memory of its cache by its environment:"
            f" VLLM_CPU_KVCACHE_SPACE={max(1, fixed.kv_memory_bytes // GIB)} (GiB)"
        )
    if share is not None and share < own and fixed.gpu_memory_utilization is None:
        holder = "other programs hold" if hardware.gpus else "its other processes and the host need"
        first = _first_shares(hardware, version, fixed)[:1]
        where = f" of all {len(hardware.gpus)} cards" if first and first[0] > share else ""
        yield f"the server may take {share:g} of the memory{where} instead of {own:g}: {holder} the rest"
    if own_cache_type(model, version) == "bf16" and old_cards(hardware) and fixed.cache_type_k is None:
        yield "these cards cannot compute in bfloat16: the server is told float16"


def _first_shares(hardware: Hardware, version: Version | None, fixed: Fixed) -> tuple[float, ...]:
    """What it may take of the first card, of the first two and so on; several machines give all their cards."""
    if (fixed.nodes or 1) > 1:
        return ()
    taken = (replace(hardware, gpus=hardware.gpus[:count]) for count in range(1, len(hardware.gpus) + 1))
    return tuple(startable_utilization(cards, version) for cards in taken)


def _about_experts(asked: Division) -> Iterator[str]:
    """What whole experts do where they were asked for."""
    fixed, hardware = asked.fixed, asked.hardware
    if not fixed.expert_parallel:
        return
    if not uses_cards(hardware, fixed.kv_memory_bytes):
        yield (
            "--expert-parallel without cards: 0.32.0 starts and then fails at the first request; without the option it"
            " serves"
        )
    elif max(1, len(hardware.gpus)) * (fixed.nodes or 1) == 1:
        yield "--expert-parallel does nothing on one card"


def require_possible(asked: Division) -> None:
    """Raise UsageError where the server would end at its start, or while it builds the model."""
    hardware, model, fixed = asked.hardware, asked.model, asked.fixed
    require_division(asked)
    _require_known_share(hardware, fixed)
    if (fixed.context_tokens or 0) > model.context_tokens_trained:
        raise UsageError(
            f"--context {fixed.context_tokens} is more than the {model.context_tokens_trained} tokens that"
            f" {model.reference} was trained on",
            hint=f"ask for at most {model.context_tokens_trained}, or take another model",
        )
    if fixed.batch_tokens and fixed.slots and fixed.batch_tokens < fixed.slots:
        raise UsageError(
            f"--max-num-batched-tokens {fixed.batch_tokens} is less than --slots {fixed.slots}: every request takes at"
            " least one token of a step",
            hint=f"ask for at least {fixed.slots}",
        )
    refused = why_not_these_cards(hardware.gpus, model.quantization_method)
    if refused is not None:
        raise UsageError(f"vLLM would not start: {refused}", hint="plan with --engine llama-server")
    if old_cards(hardware) and model.architecture in NO_FLOAT16:
        raise UsageError(
            f"vLLM would not start: {model.architecture} cannot compute in float16, nor these cards in bfloat16",
            hint="plan with --engine llama-server",
        )
    for gpu in hardware.gpus:
        _require_type(gpu, fixed.cache_type_k)


def _require_known_share(hardware: Hardware, fixed: Fixed) -> None:
    """Copies without cards would each take the same share of all memory (vllm/v1/worker/cpu_worker.py)."""
    if (fixed.data_parallel or 1) > 1 and not hardware.gpus and fixed.kv_memory_bytes is None:
        raise UsageError(
            f"without cards each of --data-parallel {fixed.data_parallel} would take the same share of all memory",
            hint="give the cache of each with --kv-memory, or leave --data-parallel out",
        )


def _require_type(gpu: Gpu, cache_type: str | None) -> None:
    capability = gpu.compute_capability
    if capability is None or gpu.vendor != "nvidia":
        return
    said = f"{gpu.name} has compute capability {capability[0]}.{capability[1]}"
    if cache_type == "fp8" and capability < FP8_CACHE.least:
        raise UsageError(f"{said}: a cache in fp8 needs 8.0", hint=FP8_CACHE.instead)
    if cache_type == "bf16" and capability < BFLOAT16.least:
        raise UsageError(f"{said}: bfloat16 needs 8.0", hint="ask for --cache-type f16")


def _cache_types(hardware: Hardware, model: ModelSpec, version: Version | None) -> tuple[str, ...]:
    """The server's own type, then 8 bits where every card can read it and no layer keeps latent vectors."""
    own = own_cache_type(model, version)
    able = bool(hardware.gpus) and all(
        gpu.compute_capability is not None and gpu.compute_capability >= EVERY_FP8_CACHE.least for gpu in hardware.gpus
    )
    if old_cards(hardware):
        own = "f16" if own == "bf16" else own
    latent = any(layer.is_latent for layer in model.attention_layers)
    return (own, "fp8") if able and not latent and own != "fp8" else (own,)


def old_cards(hardware: Hardware) -> bool:
    """Whether a card cannot compute in bfloat16, so that the server must be told float16."""
    return any(
        gpu.compute_capability is not None and gpu.compute_capability < BFLOAT16.least
        for gpu in hardware.gpus
        if gpu.vendor == "nvidia"
    )
