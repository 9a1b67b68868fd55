"""What vLLM takes for settings that are not given: batch sizes by device, block size by backend, scheduling."""

from __future__ import annotations

from dataclasses import dataclass

from llmops.core.memory.vllm_facts import (
    ASYNC_SCHEDULING,
    CACHED_STATE_KINDS,
    STATE_PREFIX_CACHING,
    UTILIZATION,
    WINDOW_KEEPS_ALL_BATCHES,
)
from llmops.core.memory.vllm_settings import VllmSettings
from llmops.core.model import ModelSpec
from llmops.core.units import GIB
from llmops.core.version import Since, Timeline, Version

_SOURCE = "vllm/engine/arg_utils.py, get_batch_defaults: API server"
# (memory of the card from here on, max_num_batched_tokens, max_num_seqs), the first that fits counts.
BATCH_DEFAULTS: Timeline[tuple[tuple[int, int, int], ...]] = Timeline(
    (
        Since(Version((0, 0)), ((70 * GIB, 8_192, 1_024), (0, 2_048, 256)), _SOURCE),
        Since(
            Version((0, 28, 0)),
            ((160 * GIB, 16_384, 1_024), (70 * GIB, 8_192, 1_024), (0, 2_048, 256)),
            _SOURCE,
        ),
    )
)
# For each process of a processor-only server.
CPU_BATCH_DEFAULTS = (2_048, 128)
# Cards with much memory that are held to the small defaults: by name, and by compute capability since 0.33.0.
SMALL_BATCH_NAMES = ("a100",)
SMALL_BATCH_CAPABILITIES: Timeline[tuple[tuple[int, int], ...]] = Timeline(
    (Since(Version((0, 0)), (), _SOURCE), Since(Version((0, 33, 0)), ((12, 1),), _SOURCE))
)
# vllm/config/cache.py and vllm/platforms/cpu.py; the processor's own latent attention compiles for 16 only.
BLOCK_TOKENS = {"cpu": 128}
XPU_BLOCK_TOKENS = Timeline(
    (
        Since(Version((0, 0)), 16, "vllm/config/cache.py, DEFAULT_BLOCK_SIZE"),
        Since(Version((0, 32, 0)), 64, "vllm/v1/attention/backends/flash_attn.py: multiples of 64 on XPU"),
    )
)
DEFAULT_BLOCK_TOKENS = 16
CPU_LATENT_BLOCK_TOKENS = 16
# FlashMLA of DeepSeek's row of 576 takes 64; rows of other lengths go to backends that take 16.
LATENT_ROW, LATENT_ROW_BLOCK_TOKENS = 576, 64
# vllm/models/minimax_m3/common/indexer.py, get_supported_kernel_block_sizes.
INDEXED_BLOCK_TOKENS = 128


@dataclass(frozen=True)
class CardFacts:
    """What of a card decides the defaults; zeros where there is none."""

    total_bytes: int = 0
    name: str = ""
    compute_capability: tuple[int, int] | None = None


@dataclass(frozen=True)
class Batch:
    """Tokens of one step and requests at the same time."""

    tokens: int
    requests: int


def batch(model: ModelSpec, settings: VllmSettings, card: CardFacts) -> Batch:
    """Both limits as the engine resolves them: given or by device, then held to each other and to the context."""
    default_tokens, default_requests = _batch_defaults(settings, card)
    requests = settings.max_num_seqs or default_requests
    tokens = settings.max_num_batched_tokens or min(default_tokens, requests * longest_request(model, settings))
    return Batch(tokens, requests if settings.max_num_seqs else min(requests, tokens))


def _batch_defaults(settings: VllmSettings, card: CardFacts) -> tuple[int, int]:
    if settings.device == "cpu":
        world = settings.tensor_parallel * settings.pipeline_parallel
        return CPU_BATCH_DEFAULTS[0] * world, CPU_BATCH_DEFAULTS[1] * world
    small = any(name in card.name.lower() for name in SMALL_BATCH_NAMES)
    small = small or card.compute_capability in SMALL_BATCH_CAPABILITIES.at(settings.version)
    size = 0 if small else card.total_bytes
    return next((tokens, requests) for least, tokens, requests in BATCH_DEFAULTS.at(settings.version) if size >= least)


def longest_request(model: ModelSpec, settings: VllmSettings) -> int:
    """`max_model_len` in tokens: given, or what the model was made for."""
    return settings.max_model_len or model.context_tokens_trained


def block_tokens(model: ModelSpec, settings: VllmSettings) -> int:
    """Tokens of one block before a model with states makes it larger."""
    latent = [layer for layer in model.attention_layers if layer.is_latent]
    if 0 < len(latent) < len(model.attention_layers):
        return INDEXED_BLOCK_TOKENS
    if latent and settings.device == "cpu":
        return CPU_LATENT_BLOCK_TOKENS
    if settings.block_size:
        return settings.block_size
    if any(layer.key_length == LATENT_ROW for layer in latent) and settings.device == "cuda":
        return LATENT_ROW_BLOCK_TOKENS
    if settings.device == "xpu":
        return XPU_BLOCK_TOKENS.at(settings.version)
    return BLOCK_TOKENS.get(settings.device, DEFAULT_BLOCK_TOKENS)


def in_flight_tokens(model: ModelSpec, settings: VllmSettings, card: CardFacts) -> int:
    """Tokens of all batches that run at the same time: what a window keeps behind itself."""
    tokens = batch(model, settings, card).tokens
    if not WINDOW_KEEPS_ALL_BATCHES.at(settings.version):
        return tokens
    if settings.async_scheduling is None:
        overlapped = ASYNC_SCHEDULING.at(settings.version) and settings.device != "cpu"
    else:
        overlapped = settings.async_scheduling
    # Overlapped scheduling of a pipeline depends on the model runner: the larger count is taken.
    return tokens * (settings.pipeline_parallel + (1 if overlapped else 0))


def caches_prefixes(model: ModelSpec, settings: VllmSettings) -> bool:
    """Whether finished prompts are kept for the next ones; off where that version cannot for these states."""
    able = CACHED_STATE_KINDS.at(settings.version)
    if any(layer.kind not in able for layer in model.state_layers):
        return False
    if settings.prefix_caching is not None:
        return settings.prefix_caching
    return STATE_PREFIX_CACHING.at(settings.version) if model.state_layers else True


def utilization(settings: VllmSettings) -> float:
    """The share of a card that the server takes: given or the version's own."""
    given = settings.gpu_memory_utilization
    return UTILIZATION.at(settings.version) if given is None else given
