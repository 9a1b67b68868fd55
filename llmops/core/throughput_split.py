"""Speed of a model of which the processor keeps a part: times of card and processor add up, step by step.

A token passes the layers one after the other, whoever computes them: bytes on cards are read at the cards' rate, bytes
on the host at the host's. Prompts are computed on the card, which copies the host's matrices over its link for every
piece of 32 tokens and more (ggml-backend.cpp, op_offload).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from llmops.core.layer_weights import layer_weights, output_role
from llmops.core.model import ModelSpec
from llmops.core.throughput_classes import Triple
from llmops.core.throughput_model import RateModel
from llmops.core.throughput_work import Work

# From pageable memory over PCIe 3 x8 to pinned memory over PCIe 4 x16; matrices of a mapped file are pageable.
LINK_BYTES_PER_SECOND: Triple = (3e9, 8e9, 24e9)
# Handing a layer's vectors from card to processor or back and waiting for them.
CROSSING_SECONDS: Triple = (60e-6, 25e-6, 10e-6)


@dataclass(frozen=True)
class HostPart:
    """What of a model the processor computes: shares of the weights outside and inside of experts, and of the layers.

    `bytes` are all of it, which a prompt copies to the card; `crossings`: how often a step changes sides.
    """

    weights: float
    experts: float
    layers: float
    bytes: int
    crossings: int


def host_part(model: ModelSpec, gpu_layers: int | None, cpu_expert_layers: int) -> HostPart | None:
    """The part of the first layers that `-ngl` leaves on the host, and of the experts that `--n-cpu-moe` does.

    None where everything is on cards.
    """
    sizes = layer_weights(model)
    offered = model.layers + model.draft_layers + 1
    whole = max(0, min(model.layers, offered - (offered if gpu_layers is None else gpu_layers)))
    routed = max(whole, min(cpu_expert_layers, model.layers)) if any(experts for _, experts in sizes) else whole
    if not routed:
        return None
    output = sum(group.stored_bytes for group in model.tensors if group.role == output_role(model))
    dense = [size - experts for size, experts in sizes]
    experts = [experts for _, experts in sizes]
    return HostPart(
        weights=sum(dense[:whole]) / max(1, sum(dense) + output),
        experts=sum(experts[:routed]) / max(1, sum(experts)),
        layers=whole / model.layers,
        bytes=sum(dense[:whole]) + sum(experts[:routed]),
        crossings=(1 if whole else 0) + 2 * (routed - whole),
    )


def divided(cost: Work, part: HostPart) -> tuple[Work, Work]:
    """The work of the cards and that of the processor; prompts are the cards' work."""
    active = cost.shared_bytes + cost.expert_share * cost.expert_bytes
    on_host = part.weights * cost.shared_bytes + part.experts * cost.expert_share * cost.expert_bytes
    computed = on_host / active if active else 0.0
    host = replace(
        cost,
        shared_bytes=cost.shared_bytes * part.weights,
        expert_bytes=cost.expert_bytes * part.experts,
        stream_bytes=cost.stream_bytes * part.layers,
        operations=cost.operations * computed,
        kernels=round(cost.kernels * max(part.layers, computed)),
        prompt_operations=0.0,
        prompt_expert_operations=0.0,
    )
    card = replace(
        cost,
        shared_bytes=cost.shared_bytes - host.shared_bytes,
        expert_bytes=cost.expert_bytes - host.expert_bytes,
        stream_bytes=cost.stream_bytes - host.stream_bytes,
        operations=cost.operations - host.operations,
        kernels=cost.kernels - host.kernels,
    )
    return card, host


def joined(card: RateModel, host: RateModel, part: HostPart, end: int, piece_tokens: int) -> RateModel:
    """One step of both, one after the other; `end` is 0 low, 1 likely, 2 high."""
    copying = part.bytes / LINK_BYTES_PER_SECOND[end] / piece_tokens
    return RateModel(
        fixed_seconds=card.fixed_seconds + host.fixed_seconds + part.crossings * CROSSING_SECONDS[end],
        weights_seconds=card.weights_seconds + host.weights_seconds,
        expert_seconds=card.expert_seconds + host.expert_seconds,
        expert_share=card.expert_share,
        stream_seconds=card.stream_seconds + host.stream_seconds,
        prefill_tokens_per_second=1.0 / (1.0 / card.prefill_tokens_per_second + copying),
        arithmetic_seconds=card.arithmetic_seconds + host.arithmetic_seconds,
        overlap=min(card.overlap, host.overlap),
        unshared_reads=max(card.unshared_reads, host.unshared_reads),
        unshared_streams=max(card.unshared_streams, host.unshared_streams),
    )
