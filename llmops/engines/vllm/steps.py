"""How many tokens one step must hold at least: a block of a model with states, and inputs that may not be cut."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from llmops.core.errors import UsageError
from llmops.core.hardware import Hardware
from llmops.core.memory.vllm_cache import cache_layout
from llmops.core.memory.vllm_defaults import caches_prefixes
from llmops.core.memory.vllm_facts import BLOCK_WITHIN_STEP, WHOLE_INPUTS
from llmops.core.memory.vllm_settings import VllmSettings
from llmops.core.model import ModelSpec
from llmops.core.plan import Fixed
from llmops.core.version import Version
from llmops.engines.vllm.defaults import device, uses_cards


def least_batch(
    hardware: Hardware, model: ModelSpec, version: Version | None, fixed: Fixed, cache_types: tuple[str, ...]
) -> int:
    """Tokens that a step of every one of these cache types must hold; 1 where nothing is asked."""
    settings = _settings(hardware, version, fixed)
    blocks = [_block_in_one_step(model, replace(settings, cache_dtype=_word(one))) for one in cache_types]
    return max(1, _whole_input(model, settings), *blocks)


def require_steps(
    hardware: Hardware, model: ModelSpec, version: Version | None, fixed: Fixed, cache_types: tuple[str, ...]
) -> Iterator[str]:
    """Raise UsageError where steps as small as those given end the server at its start; say what else they exclude."""
    if fixed.batch_tokens is None:
        return
    settings = _settings(hardware, version, fixed)
    given = (fixed.cache_type_k,) if fixed.cache_type_k else cache_types
    block = max(_block_in_one_step(model, replace(settings, cache_dtype=_word(one))) for one in given)
    if fixed.batch_tokens < block:
        raise UsageError(
            f"a block of {model.reference} is {block} tokens, and {fixed.batch_tokens} tokens of a step do not hold it",
            hint=f"--max-num-batched-tokens {block}, or --no-enable-prefix-caching",
        )
    whole = _whole_input(model, settings)
    if fixed.batch_tokens < whole:
        yield (
            f"videos are read whole, in steps of {whole} tokens: with {fixed.batch_tokens} the server starts only with"
            f" --language-model-only or without videos; --max-num-batched-tokens {whole} keeps them"
        )


def _settings(hardware: Hardware, version: Version | None, fixed: Fixed) -> VllmSettings:
    return VllmSettings(
        version=version,
        device=device(hardware, on_card=uses_cards(hardware, fixed.kv_memory_bytes)),
        tensor_parallel=fixed.tensor_parallel or 1,
        max_model_len=fixed.context_tokens,
        prefix_caching=fixed.prefix_caching,
    )


def _word(cache_type: str) -> str:
    return "fp8" if cache_type == "fp8" else "auto"


def _block_in_one_step(model: ModelSpec, settings: VllmSettings) -> int:
    if not model.state_layers or not BLOCK_WITHIN_STEP.at(settings.version) or not caches_prefixes(model, settings):
        return 1
    return cache_layout(model, settings).attention_block_tokens or 1


def _whole_input(model: ModelSpec, settings: VllmSettings) -> int:
    rule = WHOLE_INPUTS.get(settings.device)
    return model.encoder.whole_tokens if model.encoder and rule and rule.at(settings.version) else 0
