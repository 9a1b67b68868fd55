"""Families whose heads share one compressed vector (MLA), in both conversions, with and without an indexer."""

from __future__ import annotations

from tests.truth.shapes.pieces import EPSILON, expert_keys, experts, feed_forward, next_token
from tests.truth.shapes.shape import Dimensions, Shape, shape


def projections(
    embedding: int, count: int, rank: int, rope: int, plain: int, value: int, query_rank: int, *, split: bool
) -> dict[str, Dimensions]:
    """Queries, the compressed vector and the way back from it; `split` is the newer conversion."""
    block: dict[str, Dimensions] = {"attn_norm.weight": (embedding,), "attn_kv_a_norm.weight": (rank,)}
    if query_rank:
        block |= {"attn_q_a_norm.weight": (query_rank,), "attn_q_a.weight": (embedding, query_rank)}
        block |= {"attn_q_b.weight": (query_rank, count * (plain + rope))}
    else:
        block |= {"attn_q.weight": (embedding, count * (plain + rope))}
    block |= {"attn_kv_a_mqa.weight": (embedding, rank + rope)}
    if split:
        block |= {"attn_k_b.weight": (plain, rank, count), "attn_v_b.weight": (rank, value, count)}
    else:
        block |= {"attn_kv_b.weight": (rank, count * (plain + value))}
    return block | {"attn_output.weight": (count * value, embedding)}


def latent_keys(count: int, rank: int, rope: int, plain: int, value: int, *, split: bool) -> dict[str, object]:
    """Head keys: one key-value head as long as the vector, or as many full heads as there are queries."""
    keys: dict[str, object] = {"attention.head_count": count, "attention.kv_lora_rank": rank}
    keys |= {"rope.dimension_count": rope, "attention.head_count_kv": 1 if split else count}
    if split:
        keys |= {"attention.key_length": rank + rope, "attention.value_length": rank}
        return keys | {"attention.key_length_mla": plain + rope, "attention.value_length_mla": value}
    return keys | {"attention.key_length": plain + rope, "attention.value_length": value}


def deepseek2(
    architecture: str = "deepseek2",
    *,
    layers: int = 61,
    draft_layers: int = 0,
    embedding: int = 7168,
    count: int = 128,
    rank: int = 512,
    rope: int = 64,
    plain: int = 128,
    value: int = 128,
    query_rank: int = 1536,
    expert_count: int = 256,
    used: int = 8,
    expert_width: int = 2048,
    shared: int = 1,
    width: int = 18_432,
    dense: int = 3,
    vocabulary: int = 129_280,
    context: int = 163_840,
    split: bool = True,
    indexer: tuple[int, int] = (64, 128),
) -> Shape:
    """DeepSeek V2/V3 and Kimi K2; `deepseek32` and `glm-dsa` have an indexer of (heads, length)."""
    common = projections(embedding, count, rank, rope, plain, value, query_rank, split=split)
    keys = {**EPSILON, **latent_keys(count, rank, rope, plain, value, split=split), "feed_forward_length": width}
    keys |= expert_keys(expert_count, used, expert_width, shared=shared)
    keys |= {"leading_dense_block_count": dense, "expert_gating_func": 2}
    keys |= {"attention.q_lora_rank": query_rank} if query_rank else {}
    if architecture != "deepseek2":
        common |= indexer_tensors(embedding, query_rank, *indexer)
        keys |= {"attention.indexer.head_count": indexer[0], "attention.indexer.key_length": indexer[1]}
        keys |= {"attention.indexer.top_k": 2048}
    keys |= {"nextn_predict_layers": draft_layers} if draft_layers else {}
    first = common | dict(feed_forward(embedding, width))
    routed = common | dict(experts(embedding, expert_width, expert_count, shared=shared * expert_width, bias=True))
    guesses = [routed | dict(next_token(embedding))] * draft_layers
    return shape(
        architecture,
        layers=layers + draft_layers,
        embedding=embedding,
        vocabulary=vocabulary,
        context=context,
        keys=keys,
        blocks=[*[first] * dense, *[routed] * (layers - dense), *guesses],
    )


def indexer_tensors(embedding: int, query_rank: int, count: int, length: int) -> dict[str, Dimensions]:
    """What chooses the tokens that sparse attention looks at."""
    return {
        "indexer.k_norm.weight": (length,),
        "indexer.k_norm.bias": (length,),
        "indexer.proj.weight": (embedding, count),
        "indexer.attn_k.weight": (embedding, length),
        "indexer.attn_q_b.weight": (query_rank, count * length),
    }


def minicpm3(
    *,
    layers: int = 62,
    embedding: int = 2560,
    count: int = 40,
    rank: int = 256,
    rope: int = 32,
    plain: int = 64,
    value: int = 64,
    query_rank: int = 768,
    width: int = 6400,
    vocabulary: int = 73_448,
    context: int = 32_768,
) -> Shape:
    """MiniCPM3: compressed in its weights, cached as full heads."""
    block = projections(embedding, count, rank, rope, plain, value, query_rank, split=False)
    keys = {**EPSILON, **latent_keys(count, rank, rope, plain, value, split=False), "feed_forward_length": width}
    return shape(
        "minicpm3",
        layers=layers,
        embedding=embedding,
        vocabulary=vocabulary,
        context=context,
        keys={**keys, "attention.q_lora_rank": query_rank},
        blocks=[block | dict(feed_forward(embedding, width))] * layers,
        tied=True,
    )


def plm(
    *,
    layers: int = 32,
    embedding: int = 2048,
    count: int = 16,
    rank: int = 512,
    rope: int = 64,
    plain: int = 128,
    value: int = 128,
    width: int = 8192,
    vocabulary: int = 151_936,
    context: int = 4096,
) -> Shape:
    """PLM: compressed in its weights, cached as full heads."""
    block = projections(embedding, count, rank, rope, plain, value, 0, split=False)
    keys = {**EPSILON, **latent_keys(count, rank, rope, plain, value, split=False), "feed_forward_length": width}
    return shape(
        "plm",
        layers=layers,
        embedding=embedding,
        vocabulary=vocabulary,
        context=context,
        keys=keys,
        blocks=[block | dict(feed_forward(embedding, width, gate=False))] * layers,
        tied=True,
    )
