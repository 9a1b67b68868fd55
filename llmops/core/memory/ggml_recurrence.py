"""Layers with a state of fixed size in a graph: gated delta rule, Mamba, Mamba 2, short convolution.

From src/models/delta-net-base.cpp, mamba-base.cpp and lfm2.cpp of llama.cpp b11434.
"""

from __future__ import annotations

from typing import NamedTuple

from llmops.core.memory.ggml_layers import FLOAT_BYTES, Scope


def recurrent(scope: Scope, normed: int) -> int:
    """The state part of a layer, by the matrices that it has."""
    if scope.has("shortconv.in_proj"):
        return short_convolution(scope, normed)
    if scope.has("ssm_x"):
        return mamba(scope, normed)
    if scope.has("ssm_conv1d_q"):
        return kimi_delta(scope, normed)
    if scope.has("time_mix_output"):
        return time_mix(scope, normed)
    if scope.has("ssm_in") and not scope.has("ssm_ba"):
        return mamba2(scope, normed)
    return gated_delta(scope, normed)


def _remembered(scope: Scope) -> int:
    """What the convolutions of all sequences remember, gathered from the cache."""
    return scope.graph.new(FLOAT_BYTES * scope.convolution_floats * scope.sequences)


def _convolution_input(scope: Scope, channels: int, source: int, remembered: int) -> int:
    """The vectors of the batch behind those that each sequence remembers; the last ones are stored again."""
    size = FLOAT_BYTES * (scope.tokens * channels + scope.convolution_floats * scope.sequences)
    joined = scope.graph.new(size, remembered, source)
    scope.graph.read(joined)
    return joined


def gated_delta(scope: Scope, normed: int) -> int:
    """Qwen3-Next and 3.5: queries, keys and values through one convolution, then the fused delta rule."""
    channels = scope.outputs("ssm_conv1d")
    remembered = _remembered(scope)
    if scope.has("attn_qkv"):
        mixed, gate = scope.product("attn_qkv", normed), normed
    else:
        gate = scope.product("ssm_in", normed)
        mixed = _taken_apart(scope, gate)
    joined = _convolution_input(scope, channels, mixed, remembered)
    state = scope.graph.new(FLOAT_BYTES * scope.state_floats * scope.sequences)
    convolved = scope.over(channels, scope.rows(channels, joined))
    return _delta_rule(scope, normed, gate, convolved, state)


def _taken_apart(scope: Scope, whole: int) -> int:
    """Queries, keys and values copied out of the one projection of older conversions."""
    keys, inner = _key_width(scope), scope.inputs("ssm_out")
    pair = scope.rows(2 * keys, scope.rows(keys, whole), scope.rows(keys, whole))
    return scope.rows(2 * keys + inner, pair, scope.rows(inner, whole))


def _delta_rule(scope: Scope, normed: int, gate: int, convolved: int, state: int) -> int:
    """Normed queries and keys, values, and the state before and after; the output is gated."""
    inner = scope.inputs("ssm_out")
    first, second = _normed_heads(scope, convolved), _normed_heads(scope, convolved)
    size = FLOAT_BYTES * (scope.tokens * inner + scope.state_floats * scope.sequences)
    rates = [scope.product(name, normed) for name in ("ssm_alpha", "ssm_beta", "ssm_ba") if scope.has(name)]
    result = scope.graph.new(size, first, second, convolved, *rates, state)
    scope.graph.read(result)
    output = scope.rows(inner, result)
    gated = scope.over(inner, output, scope.rows(inner, gate))
    return scope.rows(scope.embedding, gated)


def _key_width(scope: Scope) -> int:
    """The width of all queries, and that of all keys: what the convolution has beside the values."""
    return max(0, scope.outputs("ssm_conv1d") - scope.inputs("ssm_out")) // 2


def _normed_heads(scope: Scope, convolved: int) -> int:
    """Queries or keys; Qwen3-Next repeats them for every head of values."""
    keys, inner = _key_width(scope), scope.inputs("ssm_out")
    normed = scope.rows(keys, convolved)
    return scope.rows(inner, normed) if scope.has("ssm_ba") and keys != inner else normed


def kimi_delta(scope: Scope, normed: int) -> int:
    """Kimi Linear: queries, keys and values each through a convolution of their own."""
    inner = scope.inputs("attn_output")
    remembered = _remembered(scope)
    parts = []
    for name in ("attn_q", "attn_k", "attn_v"):
        joined = scope.graph.new(
            FLOAT_BYTES * (scope.tokens * inner + scope.convolution_floats * scope.sequences // 3),
            remembered,
            scope.product(name, normed),
        )
        scope.graph.read(joined)
        parts.append(scope.over(inner, scope.rows(inner, joined)))
    state = scope.graph.new(FLOAT_BYTES * scope.state_floats * scope.sequences)
    decay = scope.rows(inner, normed)
    first, second = scope.rows(inner, parts[0]), scope.rows(inner, parts[1])
    size = FLOAT_BYTES * (scope.tokens * inner + scope.state_floats * scope.sequences)
    result = scope.graph.new(size, first, second, parts[2], decay, state)
    output = scope.rows(inner, result)
    scope.graph.read(result)
    gated = scope.over(inner, output, scope.rows(inner, normed))
    return scope.product("attn_output", gated)


def mamba2(scope: Scope, normed: int) -> int:
    """One projection for everything, a convolution over a part of it, the scan, a gate."""
    return scan_output(scope, mamba2_scan(scope, normed))


def mamba2_scan(scope: Scope, normed: int) -> Scanned:
    """The part of it up to the scan."""
    channels = scope.outputs("ssm_conv1d")
    remembered = _remembered(scope)
    projected = scope.product("ssm_in", normed)
    joined = _convolution_input(scope, channels, projected, remembered)
    convolved = scope.over(channels, scope.rows(channels, joined))
    return _scan(scope, convolved, projected)


def mamba(scope: Scope, normed: int) -> int:
    """The first Mamba: the steps have a projection of their own."""
    inner = scope.inputs("ssm_out")
    remembered = _remembered(scope)
    projected = scope.product("ssm_in", normed)
    joined = _convolution_input(scope, inner, projected, remembered)
    convolved = scope.over(inner, scope.rows(inner, joined))
    steps = scope.rows(inner, scope.product("ssm_x", convolved))
    return scan_output(scope, _scan(scope, convolved, projected, steps))


class Scanned(NamedTuple):
    """The tensors that the end of a Mamba layer reads."""

    scanned: int
    convolved: int
    projected: int


def _scan(scope: Scope, convolved: int, projected: int, *steps: int) -> Scanned:
    """Outputs of all tokens and the states after them in one tensor; the states of other sequences are copied."""
    size = FLOAT_BYTES * (scope.tokens * scope.inputs("ssm_out") + scope.state_floats * scope.sequences)
    scanned = scope.graph.new(size, convolved, *steps)
    scope.graph.read(scanned)
    scope.graph.read(scope.graph.new(FLOAT_BYTES * scope.state_floats * (scope.sequences - 1)))
    return Scanned(scanned, convolved, projected)


def scan_output(scope: Scope, scan: Scanned) -> int:
    """What passes the scan by, the gate from the projection, the output matrix."""
    inner = scope.inputs("ssm_out")
    output = scope.rows(inner, scan.scanned, scope.rows(inner, scan.convolved))
    gate = scope.rows(inner, scan.projected)
    return scope.product("ssm_out", scope.rows(inner, gate, output))


def short_convolution(scope: Scope, normed: int) -> int:
    """LFM2: two gates around a convolution over a few tokens."""
    width = scope.embedding
    three = scope.product("shortconv.in_proj", normed)
    remembered = _remembered(scope)
    joined = _convolution_input(scope, width, scope.rows(width, three), remembered)
    gated = scope.rows(width, three, scope.rows(width, joined))
    return scope.product("shortconv.out_proj", gated)


def time_mix(scope: Scope, normed: int) -> int:
    """RWKV: the token before, mixed five ways, and a state of one matrix for each head (src/models/rwkv6-base.cpp)."""
    width = scope.embedding
    before = scope.rows(width, _remembered(scope), normed)
    change = scope.over(width, before, normed)
    five = scope.rows(5 * width, scope.rows(width, change, normed))
    mixed = scope.rows(5 * width, five, change, normed)
    decay = scope.rows(width, mixed)
    keys, values, asked = (scope.rows(width, mixed) for _ in range(3))
    state = scope.graph.new(FLOAT_BYTES * scope.state_floats * scope.sequences)
    size = FLOAT_BYTES * (scope.tokens * width + scope.state_floats * scope.sequences)
    result = scope.graph.new(size, keys, values, asked, decay, state)
    scope.graph.read(result)
    output = scope.rows(width, result)
    return scope.product("time_mix_output", scope.over(width, output, scope.rows(width, mixed)))
