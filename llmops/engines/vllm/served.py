"""What a running vLLM serves, in a plan's own terms."""

from __future__ import annotations

from collections.abc import Sequence

from llmops.core.plan import Fixed
from llmops.core.version import Version
from llmops.engines.found import InForce, Installation, Served, ServedPool
from llmops.engines.vllm.arguments import waiting_of
from llmops.engines.vllm.observe import VllmInForce
from llmops.engines.vllm.words import Argument, amount, find

# The plan's names of what --kv-cache-dtype and --dtype say; the rest is the model's own.
_CACHE_TYPES = {"fp8": "fp8", "fp8_e4m3": "fp8", "bfloat16": "bf16", "float16": "f16", "half": "f16"}
_CHOOSES_ITSELF = frozenset({"-1", "auto"})
_WORKS_AGAINST = {
    "--disable-log-stats": "requests that are put back for want of cache cannot be seen",
    "--no-enable-chunked-prefill": "a long prompt stops every running reply",
}


def served(in_force: InForce, installation: Installation) -> Served | None:
    """The values in force; None where it does not say how many requests run at once and how long each may be."""
    if not isinstance(in_force, VllmInForce) or in_force.options is None:
        return None
    slots, longest, options = in_force.slots, in_force.longest_request_tokens, in_force.options
    if slots is None or longest is None:
        return None
    queued, engines = _number(options, "--max-num-queued-reqs"), _number(options, "--data-parallel-size")
    version = Version.parse(in_force.version or "") or installation.version
    cache_type = _cache_type(options)
    values = Fixed(
        slots=slots,
        context_tokens=longest,
        cache_type_k=cache_type,
        cache_type_v=cache_type,
        queue_requests=None if queued is None else waiting_of(queued, slots, engines or 1, version),
        batch_tokens=_number(options, "--max-num-batched-tokens"),
        gpu_memory_utilization=_share(options),
        kv_memory_bytes=_number(options, "--kv-cache-memory-bytes"),
        tensor_parallel=_number(options, "--tensor-parallel-size"),
        pipeline_parallel=_number(options, "--pipeline-parallel-size"),
        data_parallel=engines,
        expert_parallel=_switch(options, "--enable-expert-parallel"),
        prefix_caching=_switch(options, "--enable-prefix-caching"),
        enforce_eager=bool(_switch(options, "--enforce-eager")),
    )
    chosen = find(options, "--max-model-len")
    return Served(
        values,
        context_was_chosen=chosen is not None and chosen.value not in _CHOOSES_ITSELF,
        request_context_tokens=longest,
        works_against=tuple(_against(options)),
        pool=_pool(in_force) if version == installation.version else None,
    )


def _pool(in_force: VllmInForce) -> ServedPool | None:
    """Of several engines side by side the smallest; only with the tokens can it be told that the rules hold for it."""
    if in_force.metrics is None:
        return None
    pools = [
        (cache.blocks, in_force.logged_cache_tokens if cache.size_tokens is None else cache.size_tokens)
        for cache in in_force.metrics.caches
    ]
    known = [ServedPool(blocks, tokens) for blocks, tokens in pools if blocks is not None and tokens is not None]
    return min(known, key=lambda pool: pool.blocks) if known and len(known) == len(pools) else None


def _number(options: Sequence[Argument], flag: str) -> int | None:
    said = find(options, flag)
    return None if said is None else amount(said.value)


def _share(options: Sequence[Argument]) -> float | None:
    said = find(options, "--gpu-memory-utilization")
    try:
        return None if said is None else float(said.value)
    except ValueError:
        return None


def _switch(options: Sequence[Argument], flag: str) -> bool | None:
    said = find(options, flag)
    return None if said is None else said.value == "on"


def _cache_type(options: Sequence[Argument]) -> str | None:
    for flag in ("--kv-cache-dtype", "--dtype"):
        said = find(options, flag)
        if said is not None and said.value in _CACHE_TYPES:
            return _CACHE_TYPES[said.value]
    return None


def _against(options: Sequence[Argument]) -> list[str]:
    """The words that no plan would have, each with what it does."""
    written = {word.replace("_", "-") for one in options for word in one.words[:1]}
    return [f"{word}: {why}" for word, why in _WORKS_AGAINST.items() if word in written]
