"""Families with plain keys and values: full attention, windows, chunks, shared caches, head counts by layer."""

from __future__ import annotations

from collections.abc import Sequence

from tests.truth.shapes.pieces import (
    EPSILON,
    attention,
    expert_keys,
    experts,
    feed_forward,
    heads,
    next_token,
    post_norms,
    query_key_norms,
)
from tests.truth.shapes.shape import Block, Shape, shape

WINDOW = "attention.sliding_window"
PATTERN = "attention.sliding_window_pattern"
OPENELM_HEADS = tuple((12 + 4 * (number // 7), 3 + number // 7) for number in range(28))
DECI_KV_HEADS = tuple(8 if number % 3 == 0 else 0 for number in range(80))


def llama(
    *,
    layers: int = 32,
    embedding: int = 4096,
    count: int = 32,
    kv_heads: int = 8,
    length: int = 128,
    width: int = 14_336,
    vocabulary: int = 128_256,
    context: int = 131_072,
    tied: bool = False,
) -> Shape:
    """Llama, Mistral and what shares their architecture."""
    block = attention(embedding, count, kv_heads, length) | feed_forward(embedding, width)
    keys = {**EPSILON, **heads(count, kv_heads, length), "feed_forward_length": width}
    keys |= {"rope.dimension_count": length}
    return shape(
        "llama",
        layers=layers,
        embedding=embedding,
        vocabulary=vocabulary,
        context=context,
        keys=keys,
        blocks=[block] * layers,
        tied=tied,
    )


def qwen3(
    *,
    layers: int = 36,
    embedding: int = 4096,
    count: int = 32,
    kv_heads: int = 8,
    length: int = 128,
    width: int = 12_288,
    vocabulary: int = 151_936,
    context: int = 40_960,
) -> Shape:
    """Dense Qwen3."""
    block = attention(embedding, count, kv_heads, length) | query_key_norms(length) | feed_forward(embedding, width)
    return shape(
        "qwen3",
        layers=layers,
        embedding=embedding,
        vocabulary=vocabulary,
        context=context,
        keys={**EPSILON, **heads(count, kv_heads, length), "feed_forward_length": width},
        blocks=[block] * layers,
    )


def qwen3moe(
    *,
    layers: int = 48,
    embedding: int = 2048,
    count: int = 32,
    kv_heads: int = 4,
    length: int = 128,
    expert_count: int = 128,
    used: int = 8,
    width: int = 768,
    vocabulary: int = 151_936,
    context: int = 40_960,
) -> Shape:
    """Qwen3 with experts in every layer."""
    block = attention(embedding, count, kv_heads, length) | query_key_norms(length)
    block |= experts(embedding, width, expert_count)
    keys = {**EPSILON, **heads(count, kv_heads, length), "feed_forward_length": 3 * embedding}
    return shape(
        "qwen3moe",
        layers=layers,
        embedding=embedding,
        vocabulary=vocabulary,
        context=context,
        keys={**keys, **expert_keys(expert_count, used, width)},
        blocks=[block] * layers,
    )


def gemma(
    architecture: str = "gemma3",
    *,
    layers: int = 48,
    embedding: int = 3840,
    count: int = 16,
    kv_heads: int = 8,
    length: int = 256,
    width: int = 15_360,
    window: int = 1024,
    vocabulary: int = 262_208,
    context: int = 131_072,
) -> Shape:
    """Gemma 2 and 3: the windows follow a period that the file does not name."""
    norms = query_key_norms(length) if architecture == "gemma3" else {}
    block = attention(embedding, count, kv_heads, length) | norms | post_norms(embedding)
    block |= feed_forward(embedding, width)
    return shape(
        architecture,
        layers=layers,
        embedding=embedding,
        vocabulary=vocabulary,
        context=context,
        keys={**EPSILON, **heads(count, kv_heads, length), "feed_forward_length": width, WINDOW: window},
        blocks=[block] * layers,
        tied=True,
    )


def gemma3n(
    *,
    layers: int = 35,
    embedding: int = 2048,
    count: int = 8,
    kv_heads: int = 2,
    length: int = 256,
    width: int = 16_384,
    window: int = 512,
    vocabulary: int = 262_144,
    context: int = 32_768,
) -> Shape:
    """Gemma 3n: only its first 20 layers keep keys and values."""
    inner, streams, rank = 256, 4, 64
    block = attention(embedding, count, kv_heads, length) | query_key_norms(length) | post_norms(embedding)
    block |= feed_forward(embedding, width)
    block |= {
        "inp_gate.weight": (embedding, inner),
        "proj.weight": (inner, embedding),
        "post_norm.weight": (embedding,),
        "altup_correct_coef.weight": (streams, streams),
        "altup_correct_scale.weight": (embedding,),
        "altup_predict_coef.weight": (streams, streams * streams),
        "altup_router.weight": (embedding, streams),
        "altup_router_norm.weight": (embedding,),
        "laurel_l.weight": (embedding, rank),
        "laurel_r.weight": (rank, embedding),
        "laurel_post_norm.weight": (embedding,),
    }
    outer: Block = {
        "altup_proj.weight": (embedding, embedding, streams - 1),
        "altup_unembd_proj.weight": (embedding, embedding, streams - 1),
        "per_layer_token_embd.weight": (inner * layers, vocabulary),
        "per_layer_model_proj.weight": (embedding, inner * layers),
        "per_layer_proj_norm.weight": (inner,),
    }
    return shape(
        "gemma3n",
        layers=layers,
        embedding=embedding,
        vocabulary=vocabulary,
        context=context,
        keys={**EPSILON, **heads(count, kv_heads, length), "feed_forward_length": width, WINDOW: window},
        blocks=[block] * layers,
        outer=outer,
        tied=True,
    )


def gemma4(
    *,
    layers: int = 42,
    embedding: int = 2560,
    count: int = 8,
    kv_heads: tuple[int, int] = (2, 2),
    lengths: tuple[int, int] = (512, 256),
    width: int = 10_240,
    window: int = 512,
    period: int = 6,
    shared: int = 18,
    inner: int = 256,
    expert_count: int = 0,
    used: int = 8,
    expert_width: int = 704,
    vocabulary: int = 262_144,
    context: int = 131_072,
) -> Shape:
    """Gemma 4: pairs are (full, windowed); the last `shared` layers use the cache of earlier ones."""
    inside = [layer % period != period - 1 for layer in range(layers)]
    blocks = []
    for within in inside:
        own, length = kv_heads[within], lengths[within]
        block = attention(embedding, count, own, length) | query_key_norms(length) | post_norms(embedding)
        block |= feed_forward(embedding, width)
        if inner:
            block |= {"inp_gate.weight": (embedding, inner), "proj.weight": (inner, embedding)}
            block |= {"post_norm.weight": (embedding,)}
        if expert_count:
            block |= experts(embedding, expert_width, expert_count, norm=False)
            block |= {"ffn_gate_inp.scale": (embedding,), "pre_ffw_norm_2.weight": (embedding,)}
            block |= {"post_ffw_norm_1.weight": (embedding,), "post_ffw_norm_2.weight": (embedding,)}
        blocks.append(block)
    outer: dict[str, tuple[int, ...]] = {"rope_freqs.weight": (lengths[0] // 2,)}
    if inner:
        outer |= {"per_layer_token_embd.weight": (inner * layers, vocabulary)}
        outer |= {"per_layer_model_proj.weight": (embedding, inner * layers), "per_layer_proj_norm.weight": (inner,)}
    keys = {
        **EPSILON,
        **heads(count, [kv_heads[within] for within in inside], lengths[0]),
        **(expert_keys(expert_count, used, expert_width) if expert_count else {}),
        "feed_forward_length": width,
        "attention.key_length_swa": lengths[1],
        "attention.value_length_swa": lengths[1],
        "rope.dimension_count": lengths[0],
        "rope.dimension_count_swa": lengths[1],
        "attention.shared_kv_layers": shared,
        "embedding_length_per_layer_input": inner,
        WINDOW: window,
        PATTERN: inside,
    }
    return shape(
        "gemma4",
        layers=layers,
        embedding=embedding,
        vocabulary=vocabulary,
        context=context,
        keys=keys,
        blocks=blocks,
        outer=outer,
        tied=True,
    )


def gpt_oss(
    *,
    layers: int = 24,
    embedding: int = 2880,
    count: int = 64,
    kv_heads: int = 8,
    length: int = 64,
    window: int = 128,
    expert_count: int = 32,
    used: int = 4,
    width: int = 2880,
    vocabulary: int = 201_088,
    context: int = 131_072,
) -> Shape:
    """gpt-oss: every other layer has a window."""
    block = attention(embedding, count, kv_heads, length) | experts(embedding, width, expert_count, norm=False)
    block |= {
        "post_attention_norm.weight": (embedding,),
        "attn_sinks.weight": (count,),
        "attn_q.bias": (count * length,),
        "attn_k.bias": (kv_heads * length,),
        "attn_v.bias": (kv_heads * length,),
        "attn_output.bias": (embedding,),
        "ffn_gate_inp.bias": (expert_count,),
        "ffn_gate_exps.bias": (width, expert_count),
        "ffn_up_exps.bias": (width, expert_count),
        "ffn_down_exps.bias": (embedding, expert_count),
    }
    keys = {**EPSILON, **heads(count, kv_heads, length), **expert_keys(expert_count, used, width), WINDOW: window}
    return shape(
        "gpt-oss",
        layers=layers,
        embedding=embedding,
        vocabulary=vocabulary,
        context=context,
        keys={**keys, "feed_forward_length": width},
        blocks=[block] * layers,
    )


def cohere2(
    *,
    layers: int = 32,
    embedding: int = 4096,
    count: int = 32,
    kv_heads: int = 8,
    width: int = 14_336,
    window: int = 4096,
    vocabulary: int = 256_000,
    context: int = 132_096,
) -> Shape:
    """Command R7B: three layers of four have a window."""
    length = embedding // count
    block = attention(embedding, count, kv_heads, length) | feed_forward(embedding, width, norm=False)
    keys = {**heads(count, kv_heads, length), "feed_forward_length": width, WINDOW: window, "logit_scale": 0.25}
    return shape(
        "cohere2",
        layers=layers,
        embedding=embedding,
        vocabulary=vocabulary,
        context=context,
        keys={**keys, "attention.layer_norm_epsilon": 1e-5},
        blocks=[block] * layers,
        tied=True,
    )


def llama4(
    *,
    layers: int = 48,
    embedding: int = 5120,
    count: int = 40,
    kv_heads: int = 8,
    length: int = 128,
    expert_count: int = 16,
    width: int = 8192,
    vocabulary: int = 202_048,
    context: int = 10_485_760,
) -> Shape:
    """Llama 4 with experts in every layer: three layers of four keep chunks of 8,192 tokens."""
    block = attention(embedding, count, kv_heads, length) | experts(embedding, width, expert_count, shared=width)
    keys = {**EPSILON, **heads(count, kv_heads, length), **expert_keys(expert_count, 1, width)}
    return shape(
        "llama4",
        layers=layers,
        embedding=embedding,
        vocabulary=vocabulary,
        context=context,
        keys={**keys, "feed_forward_length": 2 * width, "interleave_moe_layer_step": 1},
        blocks=[block] * layers,
    )


def phi3(
    *,
    layers: int = 32,
    embedding: int = 3072,
    count: int = 32,
    kv_heads: int = 32,
    width: int = 8192,
    window: int = 2047,
    vocabulary: int = 32_064,
    context: int = 4096,
) -> Shape:
    """Phi-3: its window is ignored."""
    length = embedding // count
    fused = (count + 2 * kv_heads) * length
    block = {
        "attn_norm.weight": (embedding,),
        "attn_qkv.weight": (embedding, fused),
        "attn_output.weight": (embedding, embedding),
        "ffn_norm.weight": (embedding,),
        "ffn_up.weight": (embedding, 2 * width),
        "ffn_down.weight": (width, embedding),
    }
    keys = {"attention.head_count": count, "attention.head_count_kv": kv_heads, "feed_forward_length": width}
    return shape(
        "phi3",
        layers=layers,
        embedding=embedding,
        vocabulary=vocabulary,
        context=context,
        keys={**EPSILON, **keys, "rope.dimension_count": length, WINDOW: window},
        blocks=[block] * layers,
    )


def glm4moe(
    *,
    layers: int = 46,
    draft_layers: int = 1,
    embedding: int = 4096,
    count: int = 96,
    kv_heads: int = 8,
    length: int = 128,
    expert_count: int = 128,
    used: int = 8,
    expert_width: int = 1408,
    width: int = 10_944,
    vocabulary: int = 151_552,
    context: int = 131_072,
) -> Shape:
    """GLM-4.5-Air: the last layers only guess further tokens."""
    common = attention(embedding, count, kv_heads, length) | {"post_attention_norm.weight": (embedding,)}
    dense = common | feed_forward(embedding, width, norm=False)
    routed = common | experts(embedding, expert_width, expert_count, shared=expert_width, norm=False, bias=True)
    keys = {**EPSILON, **heads(count, kv_heads, length), "feed_forward_length": width}
    keys |= expert_keys(expert_count, used, expert_width, shared=1)
    return shape(
        "glm4moe",
        layers=layers + draft_layers,
        embedding=embedding,
        vocabulary=vocabulary,
        context=context,
        keys={**keys, "leading_dense_block_count": 1, "nextn_predict_layers": draft_layers},
        blocks=[dense, *[routed] * (layers - 1), *[routed | next_token(embedding)] * draft_layers],
    )


def openelm(
    *,
    counts: Sequence[tuple[int, int]] = OPENELM_HEADS,
    embedding: int = 2048,
    length: int = 64,
    vocabulary: int = 32_000,
    context: int = 2048,
) -> Shape:
    """OpenELM: (heads, key-value heads) and feed-forward widths of each layer's own."""
    widths = [embedding // 2 + 256 * layer for layer in range(len(counts))]
    blocks = [
        {
            "attn_norm.weight": (embedding,),
            "attn_qkv.weight": (embedding, (count + 2 * kv_heads) * length),
            **query_key_norms(length),
            "attn_output.weight": (count * length, embedding),
            **feed_forward(embedding, width),
        }
        for (count, kv_heads), width in zip(counts, widths, strict=True)
    ]
    keys = {
        **EPSILON,
        "attention.head_count": [count for count, _ in counts],
        "attention.head_count_kv": [kv_heads for _, kv_heads in counts],
        "attention.key_length": length,
        "attention.value_length": length,
        "feed_forward_length": widths,
    }
    return shape(
        "openelm",
        layers=len(counts),
        embedding=embedding,
        vocabulary=vocabulary,
        context=context,
        keys=keys,
        blocks=blocks,
        tied=True,
    )


def deci(
    *,
    kv_heads: Sequence[int] = DECI_KV_HEADS,
    embedding: int = 8192,
    count: int = 64,
    length: int = 128,
    width: int = 28_672,
    vocabulary: int = 128_256,
    context: int = 131_072,
) -> Shape:
    """Nemotron by architecture search: layers without key-value heads have no attention."""
    blocks = [
        (attention(embedding, count, own, length) if own else {}) | dict(feed_forward(embedding, width))
        for own in kv_heads
    ]
    keys = {**EPSILON, **heads(count, list(kv_heads), length), "rope.dimension_count": length}
    keys |= {"attention.head_count": [count if own else 0 for own in kv_heads]}
    return shape(
        "deci",
        layers=len(kv_heads),
        embedding=embedding,
        vocabulary=vocabulary,
        context=context,
        keys={**keys, "feed_forward_length": [width] * len(kv_heads)},
        blocks=blocks,
    )
