"""Families that keep caches for more layers than their file holds (loops, a layer that routes), and Talkie."""

from __future__ import annotations

from dataclasses import replace

from tests.doubles import gguf_files as made
from tests.truth.shapes.pieces import EPSILON, attention, feed_forward, heads
from tests.truth.shapes.shape import Block, Shape, shape


def without_norms(block: Block) -> Block:
    """The same layer with norms that have no weights."""
    return {name: size for name, size in block.items() if "norm" not in name}


def nanbeige(
    *,
    layers: int = 32,
    loops: int = 2,
    embedding: int = 2560,
    count: int = 20,
    kv_heads: int = 4,
    length: int = 128,
    width: int = 10_496,
    vocabulary: int = 166_144,
    context: int = 262_144,
) -> Shape:
    """Nanbeige 4.2: all layers several times over, each time with caches of their own."""
    block = attention(embedding, count, kv_heads, length) | feed_forward(embedding, width)
    keys = {**EPSILON, **heads(count, kv_heads, length), "feed_forward_length": width, "num_loops": loops}
    return shape(
        "nanbeige",
        layers=layers,
        embedding=embedding,
        vocabulary=vocabulary,
        context=context,
        keys={**keys, "rope.dimension_count": length},
        blocks=[block] * layers,
    )


def hrm_text(
    *,
    stack: int = 16,
    high: int = 2,
    low: int = 2,
    embedding: int = 1536,
    count: int = 12,
    length: int = 128,
    width: int = 4096,
    vocabulary: int = 65_536,
    context: int = 4096,
) -> Shape:
    """HRM-Text: a low and a high stack in turn; the file counts every pass, and holds each stack once."""
    block = dict(without_norms(attention(embedding, count, count, length) | feed_forward(embedding, width)))
    block |= {"attn_gate.weight": (embedding, count * length)}
    keys = {**EPSILON, **heads(count, count, length), "feed_forward_length": width, "rope.dimension_count": length}
    keys |= {"hrm.layers_per_stack": stack, "hrm.h_cycles": high, "hrm.l_cycles": low}
    return shape(
        "hrm_text",
        layers=stack * high * (low + 1),
        embedding=embedding,
        vocabulary=vocabulary,
        context=context,
        keys=keys,
        blocks=[block] * (2 * stack),
        norm="hrm.z_l_init",
    )


def granite_switch(
    *,
    layers: int = 40,
    embedding: int = 4096,
    count: int = 32,
    kv_heads: int = 8,
    length: int = 128,
    width: int = 12_800,
    adapters: int = 12,
    rank: int = 32,
    vocabulary: int = 100_352,
    context: int = 131_072,
) -> Shape:
    """Granite Switch: adapters that tokens choose, by a head of attention after the last layer."""
    queries, keys = count * length, kv_heads * length
    block: dict[str, tuple[int, ...]] = {
        "attn_norm.weight": (embedding,),
        "attn_qkv.weight": (embedding, queries + 2 * keys),
        "attn_output.weight": (queries, embedding),
        **feed_forward(embedding, width),
    }
    adapted = {
        "attn_q": (embedding, queries),
        "attn_k": (embedding, keys),
        "attn_v": (embedding, keys),
        "attn_output": (queries, embedding),
        "ffn_gate": (embedding, width),
        "ffn_up": (embedding, width),
        "ffn_down": (width, embedding),
    }
    for name, (into, out) in adapted.items():
        block |= {f"{name}.lora_a": (into, rank, adapters + 1), f"{name}.lora_b": (rank, out, adapters + 1)}
    tokens = made.Array(made.U32, tuple(range(10, 10 + adapters)))
    own = {**EPSILON, **heads(count, kv_heads, length), "feed_forward_length": width, "logit_scale": 8.0}
    own |= {"adapters.count": adapters, "adapters.lora_rank": rank, "rope.dimension_count": length}
    own |= {"adapters.token_ids_activate": tokens, "adapters.token_ids_substitute": tokens}
    return shape(
        "graniteswitch",
        layers=layers,
        embedding=embedding,
        vocabulary=vocabulary,
        context=context,
        keys=own,
        blocks=[block] * layers,
        tied=True,
    )


def talkie(
    *,
    layers: int = 40,
    embedding: int = 5120,
    count: int = 40,
    length: int = 128,
    width: int = 13_824,
    vocabulary: int = 65_536,
    context: int = 2048,
) -> Shape:
    """Talkie: plain layers whose norms have no weights."""
    block = dict(without_norms(attention(embedding, count, count, length) | feed_forward(embedding, width)))
    block |= {"attn_q_norm.weight": (1, count), "layer_output_scale.weight": (1,)}
    keys = {**EPSILON, **heads(count, count, length), "feed_forward_length": width, "logit_scale": 1.0}
    whole = shape(
        "talkie",
        layers=layers,
        embedding=embedding,
        vocabulary=vocabulary,
        context=context,
        keys={**keys, "rope.dimension_count": length},
        blocks=[block] * layers,
    )
    return replace(whole, tensors=tuple(tensor for tensor in whole.tensors if tensor.name != "output_norm.weight"))
