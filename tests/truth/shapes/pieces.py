"""Tensors of the parts that layers are made of; names and order of dimensions as llama.cpp b11434 loads them."""

from __future__ import annotations

from tests.truth.shapes.shape import Dimensions

EPSILON = {"attention.layer_norm_rms_epsilon": 1e-6}


def heads(count: int, kv_heads: object, key: int, value: int | None = None) -> dict[str, object]:
    """The keys of head counts and lengths."""
    return {
        "attention.head_count": count,
        "attention.head_count_kv": kv_heads,
        "attention.key_length": key,
        "attention.value_length": key if value is None else value,
    }


def attention(embedding: int, count: int, kv_heads: int, key: int, value: int | None = None) -> dict[str, Dimensions]:
    """Queries, keys, values and output of one layer."""
    value = key if value is None else value
    return {
        "attn_norm.weight": (embedding,),
        "attn_q.weight": (embedding, count * key),
        "attn_k.weight": (embedding, kv_heads * key),
        "attn_v.weight": (embedding, kv_heads * value),
        "attn_output.weight": (count * value, embedding),
    }


def query_key_norms(length: int) -> dict[str, Dimensions]:
    """The norms inside attention."""
    return {"attn_q_norm.weight": (length,), "attn_k_norm.weight": (length,)}


def post_norms(embedding: int) -> dict[str, Dimensions]:
    """The norms after attention and after the feed-forward part."""
    return {"post_attention_norm.weight": (embedding,), "post_ffw_norm.weight": (embedding,)}


def feed_forward(embedding: int, width: int, *, gate: bool = True, norm: bool = True) -> dict[str, Dimensions]:
    """A dense feed-forward part."""
    block: dict[str, Dimensions] = {"ffn_norm.weight": (embedding,)} if norm else {}
    block |= {"ffn_gate.weight": (embedding, width)} if gate else {}
    return block | {"ffn_up.weight": (embedding, width), "ffn_down.weight": (width, embedding)}


def experts(
    embedding: int,
    width: int,
    count: int,
    *,
    shared: int = 0,
    gate: bool = True,
    norm: bool = True,
    bias: bool = False,
) -> dict[str, Dimensions]:
    """Routed experts, with shared ones of `shared` width in all."""
    block: dict[str, Dimensions] = {"ffn_norm.weight": (embedding,)} if norm else {}
    block |= {"ffn_gate_inp.weight": (embedding, count)}
    block |= {"exp_probs_b.bias": (count,)} if bias else {}
    names = ("gate", "up") if gate else ("up",)
    block |= {f"ffn_{name}_exps.weight": (embedding, width, count) for name in names}
    block |= {"ffn_down_exps.weight": (width, embedding, count)}
    if shared:
        block |= {f"ffn_{name}_shexp.weight": (embedding, shared) for name in names}
        block |= {"ffn_down_shexp.weight": (shared, embedding)}
    return block


def expert_keys(count: int, used: int, width: int, *, shared: int = 0) -> dict[str, object]:
    """The keys of routed experts, with the number of shared ones."""
    keys: dict[str, object] = {"expert_count": count, "expert_used_count": used, "expert_feed_forward_length": width}
    return keys | ({"expert_shared_count": shared} if shared else {})


def next_token(embedding: int) -> dict[str, Dimensions]:
    """What a layer that only guesses a further token has besides its attention and experts."""
    return {
        "nextn.eh_proj.weight": (2 * embedding, embedding),
        "nextn.enorm.weight": (embedding,),
        "nextn.hnorm.weight": (embedding,),
        "nextn.shared_head_norm.weight": (embedding,),
    }
