"""The weights on one card of a vLLM server: layers over stages, each over a tensor-parallel group, experts further."""

from __future__ import annotations

from dataclasses import replace

from llmops.core.layer_weights import layer_weights
from llmops.core.memory.vllm_experts import expert_share, whole_shared_experts
from llmops.core.memory.vllm_groups import stage_layers
from llmops.core.memory.vllm_settings import VllmSettings
from llmops.core.model import ModelSpec
from llmops.core.units import MIB

# In bytes: low, high, and why they differ.
Span = tuple[int, int, str]

# `Model loading took` lay between 0.999 and 1.003 of the weights over the ranks in nine logs of 0.10 to 0.31; tables of
# rotations, scales and padded vocabularies are not in the files.
LOADED_SHARE = (0.995, 1.01)
LOADED_EXTRA_BYTES = 64 * MIB
# A size that was computed from config.json, where its quantised layers are not listed.
COMPUTED_QUANTISED_SHARE = (0.97, 1.06)
# MLA keeps the projections into its latent vectors whole on every rank: up to four times the row for each layer.
LATENT_PROJECTION_ROWS = 4


def card_weights(model: ModelSpec, settings: VllmSettings, rank: int) -> Span:
    """Bytes of weights on the card of one rank of all; exact where a first boot printed them."""
    if settings.weights_rank_bytes is not None:
        return settings.weights_rank_bytes, settings.weights_rank_bytes, "printed by the engine"
    ranks, stage = settings.tensor_parallel, settings.stage(rank)
    stored, model = model.weights_bytes, as_loaded(model)
    share, experts = stage_bytes(model, settings, stage), stage_expert_bytes(model, settings, stage)
    held = (share - experts) / ranks + experts * expert_share(model, settings, rank)
    low, high = LOADED_SHARE
    why = "rotation tables and padding are added when weights are loaded"
    if model.weights_bytes < stored:
        why += "; 32-bit matrices are loaded in 16 bits"
    if model.weights_basis == "config" and model.quantization_method:
        low, high = COMPUTED_QUANTISED_SHARE
        why = "computed from config.json, which does not say which layers are quantised"
    copied = _copied_bytes(model, settings) if ranks > 1 else 0
    if copied:
        why += "; some projections are whole on every card"
    if experts and settings.expert_ranks > 1:
        what = "whole experts lie on" if settings.expert_parallel else "experts are divided among"
        why += f"; {what} {settings.expert_ranks} cards"
    copied += int(whole_shared_experts(model, settings) * share)
    drafted = (_role_bytes(model, "draft") or share // max(model.layers, 1)) * bool(settings.draft_layers)
    most = int((held + drafted / ranks) * high) + copied + LOADED_EXTRA_BYTES
    return int(held * low), most, why


def as_loaded(model: ModelSpec) -> ModelSpec:
    """The model with its 32-bit matrices in 16 bits, for `--dtype auto` never is float32 (config/model.py).

    The scales of quantised matrices are 32-bit matrices too and stay so.
    """
    if model.quantization_method is not None:
        return model
    groups = tuple(
        replace(group, stored_bytes=group.stored_bytes - group.matrix_bytes // 2, matrix_bytes=group.matrix_bytes // 2)
        if group.storage_type == "F32"
        else group
        for group in model.tensors
    )
    saved = sum(group.stored_bytes for group in model.tensors) - sum(group.stored_bytes for group in groups)
    return replace(model, tensors=groups, weights_bytes=model.weights_bytes - saved)


def stage_bytes(model: ModelSpec, settings: VllmSettings, stage: int) -> int:
    """Weights of one pipeline stage: its layers, embeddings and encoders on the first, the output on the last.

    Layers that only guess next tokens stay in the file.
    """
    stages = settings.pipeline_parallel
    served = model.weights_bytes - _role_bytes(model, "draft")
    if stages == 1:
        return served
    inputs, outputs = _role_bytes(model, "input"), _role_bytes(model, "output")
    first = inputs + _role_bytes(model, "other", "encoder")
    own = int((served - first - outputs) * _layers_share(model, settings, stage))
    if stage == 0:
        own += first
    if stage == stages - 1:
        own += inputs if model.tied_output else outputs
    return own


def stage_expert_bytes(model: ModelSpec, settings: VllmSettings, stage: int) -> int:
    """Routed experts of one stage: a part of `stage_bytes`."""
    if not model.experts:
        return 0
    return sum(experts for _, experts in layer_weights(model)[_layers_of(model, settings, stage)])


def _layers_share(model: ModelSpec, settings: VllmSettings, stage: int) -> float:
    """The share of a stage in the weights of all layers; by their number where they are not known."""
    here, sizes = _layers_of(model, settings, stage), [size for size, _ in layer_weights(model)]
    whole = sum(sizes)
    return sum(sizes[here]) / whole if whole else (here.stop - here.start) / model.layers


def _layers_of(model: ModelSpec, settings: VllmSettings, stage: int) -> slice:
    counts = stage_layers(model.layers, settings)
    first = sum(counts[:stage])
    return slice(first, first + counts[stage])


def _role_bytes(model: ModelSpec, *roles: str) -> int:
    return sum(group.stored_bytes for group in model.tensors if group.role in roles)


def _copied_bytes(model: ModelSpec, settings: VllmSettings) -> int:
    """Bytes that every rank keeps beyond its share: latent projections, and heads copied to several ranks."""
    each = model.weights_bytes / max(model.parameters, 1)
    ranks = settings.tensor_parallel
    elements = 0.0
    for layer in model.attention_layers:
        if layer.is_latent:
            elements += LATENT_PROJECTION_ROWS * layer.key_length * model.embedding_length
        elif layer.kv_heads < ranks:
            row = (layer.key_length + layer.value_length) * model.embedding_length
            elements += row * (1 - layer.kv_heads / ranks)
    return int(elements * each)
