"""States in vLLM's pages: how large one is, how many a request keeps, and how they enlarge the attention's block."""

from __future__ import annotations

from dataclasses import replace
from math import lcm

from llmops.core.memory.vllm_defaults import DEFAULT_BLOCK_TOKENS, caches_prefixes, longest_request
from llmops.core.memory.vllm_facts import (
    CHECKPOINT_STATE_KINDS,
    EVERY_BLOCK_STATE_KINDS,
    EVERY_BLOCK_STATES_AND_DRAFTS,
    LATENT_STATE_ALIGNMENT,
)
from llmops.core.memory.vllm_pages import DTYPE_BYTES, CacheLayer
from llmops.core.memory.vllm_settings import VllmSettings
from llmops.core.model import ModelSpec, StateLayer

# vllm/model_executor/layers/mamba/mamba_utils.py: what `auto` is for the recurrent part; others take the model's type.
STATE_DTYPES = {"kimi_delta": "float32"}
ARCHITECTURE_STATE_DTYPES = {"nemotron_h": "float32"}
# vllm/platforms/xpu.py: the kernel's blocks are multiples of 64.
XPU_GATED_DELTA_TOKENS = 64
# What is taken for the chunk of a kernel that has none (vllm/config/model.py, get_mamba_chunk_size).
CHUNK_TOKENS = 2_048
# Positions of a convolution before the current one; a guess of more tokens keeps as many more.
CONVOLUTION_POSITIONS = 3


def with_states(model: ModelSpec, settings: VllmSettings, attention: tuple[CacheLayer, ...]) -> tuple[CacheLayer, ...]:
    """States and attention share pages: the attention's block grows until a page holds a state; states are padded."""
    states = tuple(_state_layer(layer, model, settings) for layer in model.state_layers)
    caches = caches_prefixes(model, settings)
    if not attention:
        block = settings.block_size or DEFAULT_BLOCK_TOKENS
        return tuple(replace(state, block_tokens=_span(block, model, settings, caches=caches)) for state in states)
    token = max(layer.token_bytes for layer in attention)
    largest = max(state.page_bytes for state in states)
    unit = _unit(attention, model, settings, states)
    block = max(attention[0].block_tokens, unit * -(-largest // (unit * token)))
    if settings.device == "xpu" and any(layer.kind == "gated_delta" for layer in model.state_layers):
        block = -(-block // XPU_GATED_DELTA_TOKENS) * XPU_GATED_DELTA_TOKENS
    page, span = block * token, _span(block, model, settings, caches=caches)
    grown = tuple(replace(one, block_tokens=block, page_bytes=block * one.token_bytes) for one in attention)
    return grown + tuple(replace(state, page_bytes=page, block_tokens=span) for state in states)


def _span(block: int, model: ModelSpec, settings: VllmSettings, *, caches: bool) -> int:
    """Tokens that a page of a state counts for: a block where prefixes are cached, else the longest request."""
    return block if caches else longest_request(model, settings)


def _unit(
    attention: tuple[CacheLayer, ...], model: ModelSpec, settings: VllmSettings, states: tuple[CacheLayer, ...]
) -> int:
    """Tokens that the enlarged block is a multiple of."""
    unit = attention[0].block_tokens
    if any(layer.kind == "latent" for layer in attention):
        unit = max(unit, LATENT_STATE_ALIGNMENT.at(settings.version))
    if any(state.kind == "states" for state in states):
        unit = lcm(unit, *(layer.chunk_tokens or CHUNK_TOKENS for layer in model.state_layers))
    return unit


def _state_layer(layer: StateLayer, model: ModelSpec, settings: VllmSettings) -> CacheLayer:
    ranks = settings.tensor_parallel
    convolution = -(-layer.convolution_elements // ranks)
    convolution += convolution // CONVOLUTION_POSITIONS * settings.draft_tokens
    base = DTYPE_BYTES.get(settings.dtype or "", 2)
    recurrent = -(-layer.recurrent_elements // ranks) * _state_bytes(layer, model, settings, base)
    kind, blocks = _state_blocks(layer, model, settings)
    return CacheLayer(kind, 0, 0, convolution * base + recurrent, state_blocks=blocks, layer=layer.layer)


def _state_bytes(layer: StateLayer, model: ModelSpec, settings: VllmSettings, base: int) -> int:
    asked = settings.mamba_state_dtype or model.state_data_type
    asked = asked or ARCHITECTURE_STATE_DTYPES.get(model.architecture) or STATE_DTYPES.get(layer.kind)
    return DTYPE_BYTES.get(asked or "", base)


def _state_blocks(layer: StateLayer, model: ModelSpec, settings: VllmSettings) -> tuple[str, int]:
    """The kind, and pages of one request: the running state, one for each guessed token, and those kept for reuse."""
    drafts = settings.draft_tokens
    if not caches_prefixes(model, settings):
        return "state", 1 + drafts
    if layer.kind in EVERY_BLOCK_STATE_KINDS.at(settings.version):
        return "states", drafts if EVERY_BLOCK_STATES_AND_DRAFTS.at(settings.version) else 0
    return "state", 2 + drafts + (1 if layer.kind in CHECKPOINT_STATE_KINDS.at(settings.version) else 0)
