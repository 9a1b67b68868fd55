"""Families with a state of fixed size in some or all layers: gated delta, Mamba, short convolution, RWKV."""

from __future__ import annotations

from tests.truth.shapes.latent import projections
from tests.truth.shapes.pieces import (
    EPSILON,
    attention,
    expert_keys,
    experts,
    feed_forward,
    heads,
    next_token,
    query_key_norms,
)
from tests.truth.shapes.shape import Block, Dimensions, Shape, shape


def state_keys(kernel: int, inner: int, state: int, rank: int, groups: int | None) -> dict[str, object]:
    """The keys of a state-space layer."""
    keys: dict[str, object] = {"ssm.conv_kernel": kernel, "ssm.inner_size": inner, "ssm.state_size": state}
    return keys | {"ssm.time_step_rank": rank} | ({} if groups is None else {"ssm.group_count": groups})


def gated_delta(
    embedding: int, kernel: int, key_heads: int, value_heads: int, length: int, *, fused: bool
) -> dict[str, Dimensions]:
    """Linear attention of Qwen3-Next (`fused`) and Qwen3.5."""
    keys, values = key_heads * length, value_heads * length
    block: dict[str, Dimensions] = {
        "attn_qkv.weight": (embedding, 2 * keys + values),
        "attn_gate.weight": (embedding, values),
        "ssm_conv1d.weight": (kernel, 2 * keys + values),
        "ssm_dt.bias": (value_heads,),
        "ssm_a": (value_heads,),
        "ssm_norm.weight": (length,),
        "ssm_out.weight": (values, embedding),
    }
    if fused:
        return block | {"ssm_ba.weight": (embedding, 2 * value_heads)}
    return block | {"ssm_beta.weight": (embedding, value_heads), "ssm_alpha.weight": (embedding, value_heads)}


def qwen_hybrid(
    architecture: str = "qwen3next",
    *,
    layers: int = 48,
    draft_layers: int = 0,
    interval: int = 4,
    embedding: int = 2048,
    count: int = 16,
    kv_heads: int = 2,
    length: int = 256,
    kernel: int = 4,
    key_heads: int = 16,
    value_heads: int = 32,
    state: int = 128,
    expert_count: int = 512,
    used: int = 10,
    expert_width: int = 512,
    width: int = 5120,
    vocabulary: int = 151_936,
    context: int = 262_144,
) -> Shape:
    """Qwen3-Next, `qwen35`, and `qwen35moe` with experts: the last layer of each interval attends."""
    fused = architecture == "qwen3next"
    common: dict[str, Dimensions] = {"attn_norm.weight": (embedding,), "post_attention_norm.weight": (embedding,)}
    if architecture == "qwen35":
        common |= feed_forward(embedding, width, norm=False)
    else:
        common |= experts(embedding, expert_width, expert_count, shared=expert_width, norm=False)
        common |= {"ffn_gate_inp_shexp.weight": (embedding,)}
    full = attention(embedding, count, kv_heads, length) | query_key_norms(length) | common
    full |= {"attn_q.weight": (embedding, 2 * count * length)}
    linear = gated_delta(embedding, kernel, key_heads, value_heads, state, fused=fused) | common
    keys = {**EPSILON, **heads(count, kv_heads, length), "feed_forward_length": width}
    keys |= state_keys(kernel, value_heads * state, state, value_heads, key_heads)
    keys |= {"full_attention_interval": interval, "rope.dimension_count": length // 4}
    keys |= {} if architecture == "qwen35" else expert_keys(expert_count, used, expert_width)
    keys |= {} if architecture == "qwen35" else {"expert_shared_feed_forward_length": expert_width}
    keys |= {} if fused else {"rope.dimension_sections": [11, 11, 10, 0]}
    keys |= {"nextn_predict_layers": draft_layers} if draft_layers else {}
    blocks: list[Block] = [full if (layer + 1) % interval == 0 else linear for layer in range(layers)]
    return shape(
        architecture,
        layers=layers + draft_layers,
        embedding=embedding,
        vocabulary=vocabulary,
        context=context,
        keys=keys,
        blocks=[*blocks, *[full | next_token(embedding)] * draft_layers],
    )


def mamba2_layer(
    embedding: int, kernel: int, inner: int, state: int, ssm_heads: int, groups: int
) -> dict[str, Dimensions]:
    """One Mamba-2 mixer."""
    channels = inner + 2 * groups * state
    return {
        "attn_norm.weight": (embedding,),
        "ssm_in.weight": (embedding, inner + channels + ssm_heads),
        "ssm_conv1d.weight": (kernel, channels),
        "ssm_conv1d.bias": (channels,),
        "ssm_dt.bias": (ssm_heads,),
        "ssm_a": (1, ssm_heads),
        "ssm_d": (1, ssm_heads),
        "ssm_norm.weight": (inner // groups, groups),
        "ssm_out.weight": (inner, embedding),
    }


def mamba1_layer(embedding: int, kernel: int, state: int, rank: int, *, norms: bool) -> dict[str, Dimensions]:
    """One Mamba mixer, with Jamba's norms where asked."""
    inner = 2 * embedding
    block: dict[str, Dimensions] = {
        "attn_norm.weight": (embedding,),
        "ssm_in.weight": (embedding, 2 * inner),
        "ssm_conv1d.weight": (kernel, inner),
        "ssm_conv1d.bias": (inner,),
        "ssm_x.weight": (inner, rank + 2 * state),
        "ssm_dt.weight": (rank, inner),
        "ssm_dt.bias": (inner,),
        "ssm_a": (state, inner),
        "ssm_d": (inner,),
        "ssm_out.weight": (inner, embedding),
    }
    if norms:
        block |= {"ssm_dt_norm.weight": (rank,), "ssm_b_norm.weight": (state,), "ssm_c_norm.weight": (state,)}
    return block


def mamba(
    *,
    layers: int = 64,
    embedding: int = 2560,
    kernel: int = 4,
    state: int = 16,
    rank: int = 160,
    vocabulary: int = 50_280,
    context: int = 1_048_576,
) -> Shape:
    """Mamba: no attention at all."""
    keys = {**EPSILON, **state_keys(kernel, 2 * embedding, state, rank, None), "attention.head_count": 0}
    return shape(
        "mamba",
        layers=layers,
        embedding=embedding,
        vocabulary=vocabulary,
        context=context,
        keys={**keys, "feed_forward_length": 0},
        blocks=[mamba1_layer(embedding, kernel, state, rank, norms=False)] * layers,
        tied=True,
    )


def mamba2(
    *,
    layers: int = 64,
    embedding: int = 4096,
    kernel: int = 4,
    inner: int = 8192,
    state: int = 128,
    ssm_heads: int = 128,
    groups: int = 8,
    vocabulary: int = 32_768,
    context: int = 1_048_576,
) -> Shape:
    """Mamba-2, such as Codestral Mamba."""
    keys = {**EPSILON, **state_keys(kernel, inner, state, ssm_heads, groups), "attention.head_count": 0}
    return shape(
        "mamba2",
        layers=layers,
        embedding=embedding,
        vocabulary=vocabulary,
        context=context,
        keys={**keys, "feed_forward_length": 0},
        blocks=[mamba2_layer(embedding, kernel, inner, state, ssm_heads, groups)] * layers,
    )


def granite_hybrid(
    *,
    layers: int = 40,
    attends: tuple[int, ...] = (5, 15, 25, 35),
    embedding: int = 1536,
    count: int = 12,
    kv_heads: int = 4,
    length: int = 128,
    kernel: int = 4,
    state: int = 128,
    ssm_heads: int = 48,
    groups: int = 1,
    expert_count: int = 64,
    used: int = 6,
    width: int = 512,
    shared: int = 1024,
    vocabulary: int = 100_352,
    context: int = 1_048_576,
) -> Shape:
    """Granite 4 hybrid: Mamba-2, with a few layers that attend."""
    counts = [kv_heads if layer in attends else 0 for layer in range(layers)]
    end = experts(embedding, width, expert_count, shared=shared) if expert_count else feed_forward(embedding, width)
    full = attention(embedding, count, kv_heads, length) | dict(end)
    mixer = mamba2_layer(embedding, kernel, 2 * embedding, state, ssm_heads, groups) | dict(end)
    keys = {**EPSILON, **heads(count, counts, length), **state_keys(kernel, 2 * embedding, state, ssm_heads, groups)}
    keys |= {"feed_forward_length": width, "rope.dimension_count": length, "logit_scale": 8.0}
    if expert_count:
        keys |= {"expert_count": expert_count, "expert_used_count": used, "expert_shared_feed_forward_length": shared}
    return shape(
        "granitehybrid",
        layers=layers,
        embedding=embedding,
        vocabulary=vocabulary,
        context=context,
        keys=keys,
        blocks=[full if own else mixer for own in counts],
        tied=True,
    )


def nemotron_h(
    architecture: str = "nemotron_h",
    *,
    pattern: str = "M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M-",
    embedding: int = 4480,
    count: int = 40,
    kv_heads: int = 8,
    length: int = 128,
    kernel: int = 4,
    inner: int = 10_240,
    state: int = 128,
    ssm_heads: int = 128,
    groups: int = 8,
    width: int = 15_680,
    expert_count: int = 128,
    used: int = 6,
    shared: int = 3712,
    vocabulary: int = 131_072,
    context: int = 131_072,
) -> Shape:
    """Nemotron-H: each layer is a mixer (M), attention (*) or a feed-forward part (-); `_moe` has experts there."""
    routed = architecture == "nemotron_h_moe"
    norm: Block = {"attn_norm.weight": (embedding,)}
    end = feed_forward(embedding, width, gate=False, norm=False)
    if routed:
        end = experts(embedding, width, expert_count, shared=shared, gate=False, norm=False, bias=True)
    kinds: dict[str, Block] = {
        "M": mamba2_layer(embedding, kernel, inner, state, ssm_heads, groups),
        "*": attention(embedding, count, kv_heads, length),
        "-": dict(norm) | dict(end),
    }
    keys = {
        **EPSILON,
        **heads(count, [kv_heads if kind == "*" else 0 for kind in pattern], length),
        **state_keys(kernel, inner, state, ssm_heads, groups),
        "feed_forward_length": [width if kind == "-" else 0 for kind in pattern],
        "attention.layer_norm_epsilon": 1e-5,
        "rope.dimension_count": length,
    }
    keys |= expert_keys(expert_count, used, width, shared=1) if routed else {}
    keys |= {"expert_shared_feed_forward_length": shared} if routed else {}
    return shape(
        architecture,
        layers=len(pattern),
        embedding=embedding,
        vocabulary=vocabulary,
        context=context,
        keys=keys,
        blocks=[kinds[kind] for kind in pattern],
    )


def jamba(
    *,
    layers: int = 32,
    interval: int = 8,
    embedding: int = 4096,
    count: int = 32,
    kv_heads: int = 8,
    kernel: int = 4,
    state: int = 16,
    rank: int = 256,
    width: int = 14_336,
    expert_count: int = 16,
    used: int = 2,
    vocabulary: int = 65_536,
    context: int = 262_144,
) -> Shape:
    """Jamba: one layer of each interval attends, every other one has experts."""
    counts = [kv_heads if layer % interval == interval // 2 else 0 for layer in range(layers)]
    full = attention(embedding, count, kv_heads, embedding // count)
    mixer = mamba1_layer(embedding, kernel, state, rank, norms=True)
    ends = (dict(feed_forward(embedding, width)), dict(experts(embedding, width, expert_count)))
    keys = {**EPSILON, **state_keys(kernel, 2 * embedding, state, rank, None), "feed_forward_length": width}
    keys |= {"attention.head_count": count, "attention.head_count_kv": counts}
    return shape(
        "jamba",
        layers=layers,
        embedding=embedding,
        vocabulary=vocabulary,
        context=context,
        keys={**keys, "expert_count": expert_count, "expert_used_count": used},
        blocks=[(full if own else mixer) | ends[layer % 2] for layer, own in enumerate(counts)],
    )


def lfm2(
    architecture: str = "lfm2",
    *,
    attends: tuple[int, ...] = (2, 5, 8, 10, 12, 14),
    layers: int = 16,
    embedding: int = 2048,
    count: int = 32,
    kv_heads: int = 8,
    kernel: int = 3,
    width: int = 8192,
    dense: int = 2,
    expert_count: int = 32,
    used: int = 4,
    expert_width: int = 1792,
    vocabulary: int = 65_536,
    context: int = 128_000,
) -> Shape:
    """LFM2: short convolutions, some layers attend; `lfm2moe` has experts after the first layers."""
    length = embedding // count
    counts = [kv_heads if layer in attends else 0 for layer in range(layers)]
    full = attention(embedding, count, kv_heads, length) | query_key_norms(length)
    short: dict[str, Dimensions] = {
        "attn_norm.weight": (embedding,),
        "shortconv.conv.weight": (kernel, embedding),
        "shortconv.in_proj.weight": (embedding, 3 * embedding),
        "shortconv.out_proj.weight": (embedding, embedding),
    }
    plain, routed = feed_forward(embedding, width), experts(embedding, expert_width, expert_count, bias=True)
    dense = dense if architecture == "lfm2moe" else layers
    keys = {**EPSILON, "attention.head_count": count, "attention.head_count_kv": counts, "shortconv.l_cache": kernel}
    if architecture == "lfm2moe":
        keys |= {**expert_keys(expert_count, used, expert_width), "leading_dense_block_count": dense}
        keys |= {"expert_gating_func": 2}
    return shape(
        architecture,
        layers=layers,
        embedding=embedding,
        vocabulary=vocabulary,
        context=context,
        keys={**keys, "feed_forward_length": width},
        blocks=[
            (full if own else short) | dict(plain if layer < dense else routed) for layer, own in enumerate(counts)
        ],
        tied=True,
        norm="token_embd_norm.weight",
    )


def falcon_h1(
    *,
    layers: int = 44,
    embedding: int = 3072,
    count: int = 12,
    kv_heads: int = 2,
    length: int = 128,
    kernel: int = 4,
    inner: int = 3072,
    state: int = 256,
    ssm_heads: int = 24,
    groups: int = 1,
    width: int = 12_288,
    vocabulary: int = 130_048,
    context: int = 262_144,
) -> Shape:
    """Falcon-H1: every layer has a Mamba-2 mixer and attention side by side."""
    block = mamba2_layer(embedding, kernel, inner, state, ssm_heads, groups)
    block |= attention(embedding, count, kv_heads, length) | dict(feed_forward(embedding, width, norm=False))
    keys = {**EPSILON, **heads(count, kv_heads, length), **state_keys(kernel, inner, state, ssm_heads, groups)}
    return shape(
        "falcon-h1",
        layers=layers,
        embedding=embedding,
        vocabulary=vocabulary,
        context=context,
        keys={**keys, "feed_forward_length": width, "rope.dimension_count": length},
        blocks=[block | {"ffn_norm": (embedding,)}] * layers,
    )


def kimi_linear(
    *,
    layers: int = 27,
    interval: int = 4,
    embedding: int = 2304,
    count: int = 32,
    rank: int = 512,
    rope: int = 64,
    plain: int = 128,
    value: int = 128,
    kernel: int = 4,
    delta: int = 128,
    expert_count: int = 256,
    used: int = 8,
    expert_width: int = 1024,
    width: int = 9216,
    vocabulary: int = 163_840,
    context: int = 1_048_576,
) -> Shape:
    """Kimi Linear: delta attention, and a compressed cache in the last layer of each interval."""
    counts = [1 if (layer + 1) % interval == 0 else 0 for layer in range(layers)]
    all_heads = count * delta
    linear: dict[str, Dimensions] = {
        "attn_norm.weight": (embedding,),
        **{f"ssm_conv1d_{name}.weight": (kernel, 1, all_heads) for name in "qkv"},
        **{f"attn_{name}.weight": (embedding, all_heads) for name in "qkv"},
        "ssm_f_a.weight": (embedding, delta),
        "ssm_f_b.weight": (delta, all_heads),
        "ssm_beta.weight": (embedding, count),
        "ssm_a": (1, count),
        "ssm_dt.bias": (all_heads,),
        "ssm_g_a.weight": (embedding, delta),
        "ssm_g_b.weight": (delta, all_heads),
        "ssm_norm.weight": (delta,),
        "attn_output.weight": (all_heads, embedding),
    }
    full = projections(embedding, count, rank, rope, plain, value, 0, split=True)
    first = dict(feed_forward(embedding, width))
    routed = dict(experts(embedding, expert_width, expert_count, shared=expert_width, bias=True))
    keys = {**EPSILON, **expert_keys(expert_count, used, expert_width, shared=1), "feed_forward_length": width}
    keys |= {"attention.head_count": count, "attention.head_count_kv": counts, "attention.kv_lora_rank": rank}
    keys |= {"attention.key_length": rank + rope, "attention.value_length": rank, "rope.dimension_count": rope}
    keys |= {"attention.key_length_mla": plain + rope, "attention.value_length_mla": value}
    keys |= {"ssm.conv_kernel": kernel, "kda.head_dim": delta, "leading_dense_block_count": 1}
    return shape(
        "kimi-linear",
        layers=layers,
        embedding=embedding,
        vocabulary=vocabulary,
        context=context,
        keys={**keys, "expert_gating_func": 2},
        blocks=[(full if own else linear) | (routed if layer else first) for layer, own in enumerate(counts)],
    )


def plamo2(
    *,
    layers: int = 32,
    embedding: int = 4096,
    count: int = 32,
    kv_heads: int = 4,
    length: int = 128,
    kernel: int = 4,
    state: int = 64,
    ssm_heads: int = 64,
    inner: int = 8192,
    width: int = 16_384,
    vocabulary: int = 100_000,
    context: int = 10_485_760,
) -> Shape:
    """PLaMo 2: Mamba and attention in turn."""
    counts = [kv_heads if layer % 2 else 0 for layer in range(layers)]
    step = max(64, embedding // 16)
    common: dict[str, Dimensions] = {
        "attn_norm.weight": (embedding,),
        "post_attention_norm": (embedding,),
        "ffn_norm.weight": (embedding,),
        "ffn_up.weight": (embedding, 2 * width),
        "ffn_down.weight": (width, embedding),
        "post_ffw_norm": (embedding,),
    }
    mixer: Block = {
        "ssm_in.weight": (embedding, 2 * inner),
        "ssm_conv1d.weight": (kernel, inner),
        "ssm_x.weight": (inner, step + 2 * state),
        "ssm_dt.weight": (step, ssm_heads),
        "ssm_dt.bias": (ssm_heads,),
        "ssm_a": (ssm_heads,),
        "ssm_d": (ssm_heads,),
        "ssm_out.weight": (inner, embedding),
        "ssm_dt_norm": (step,),
        "ssm_b_norm": (state,),
        "ssm_c_norm": (state,),
    }
    full: Block = {
        "attn_qkv.weight": (embedding, (count + 2 * kv_heads) * length),
        "attn_q_norm.weight": (length, count),
        "attn_k_norm.weight": (length, kv_heads),
        "attn_output.weight": (count * length, embedding),
    }
    keys = {**EPSILON, **heads(count, counts, length), **state_keys(kernel, inner, state, ssm_heads, 0)}
    return shape(
        "plamo2",
        layers=layers,
        embedding=embedding,
        vocabulary=vocabulary,
        context=context,
        keys={**keys, "feed_forward_length": width, "rope.dimension_count": length},
        blocks=[common | dict(full if own else mixer) for own in counts],
        tied=True,
    )


def rwkv6(
    *,
    layers: int = 24,
    embedding: int = 2048,
    head_size: int = 64,
    mix: int = 32,
    decay: int = 64,
    width: int = 7168,
    vocabulary: int = 65_536,
    context: int = 1_048_576,
) -> Shape:
    """RWKV 6."""
    one: Dimensions = (embedding, 1, 1)
    block: dict[str, Dimensions] = {
        **{f"attn_norm{end}.{part}": (embedding,) for end in ("", "_2") for part in ("weight", "bias")},
        "time_mix_w1.weight": (embedding, 5 * mix),
        "time_mix_w2.weight": (mix, embedding, 5),
        "time_mix_lerp_x.weight": one,
        "time_mix_lerp_fused.weight": (embedding, 1, 1, 5),
        "time_mix_first.weight": (head_size, embedding // head_size),
        "time_mix_decay.weight": (embedding,),
        "time_mix_decay_w1.weight": (embedding, decay),
        "time_mix_decay_w2.weight": (decay, embedding),
        **{f"time_mix_{name}.weight": (embedding, embedding) for name in ("key", "value", "receptance", "gate")},
        "time_mix_ln.weight": (embedding,),
        "time_mix_ln.bias": (embedding,),
        "time_mix_output.weight": (embedding, embedding),
        "channel_mix_lerp_k.weight": one,
        "channel_mix_lerp_r.weight": one,
        "channel_mix_key.weight": (embedding, width),
        "channel_mix_value.weight": (width, embedding),
        "channel_mix_receptance.weight": (embedding, embedding),
    }
    outer: Block = {
        "token_embd_norm.weight": (embedding,),
        "token_embd_norm.bias": (embedding,),
        "output_norm.bias": (embedding,),
    }
    keys = {"attention.layer_norm_epsilon": 1e-5, "wkv.head_size": head_size, "time_mix_extra_dim": mix}
    keys |= {"time_decay_extra_dim": decay, "feed_forward_length": width, "attention.head_count": 0}
    return shape(
        "rwkv6",
        layers=layers,
        embedding=embedding,
        vocabulary=vocabulary,
        context=context,
        keys={**keys, "rescale_every_n_layers": 6},
        blocks=[block] * layers,
        outer=outer,
    )
