"""The weights of one layer: attention, compressed attention, states, feed-forward and experts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from llmops.core.model import AttentionLayer
from llmops.models.hf_config import ConfigFacts
from llmops.models.hf_families_state import kimi_delta_sizes, mamba2_heads, mamba2_inner, mamba_inner
from llmops.models.hf_heads import MOST_HEAD_LENGTH, bounded, query_heads
from llmops.models.hf_traits import Bias, Traits
from llmops.models.hf_weights import Weight

MOST_EXPERTS = 65_536
_MIXERS = frozenset({"self_attn", "mamba"})


@dataclass(frozen=True)
class Place:
    """Where weights belong: the facts and traits of the model, the module's prefix and the layer's number."""

    facts: ConfigFacts
    traits: Traits
    prefix: str
    layer: int | None

    @property
    def hidden(self) -> int:
        """Elements of the stream between layers."""
        return self.facts.integer("hidden_size", least=1)

    def has(self, bias: Bias) -> bool:
        """Whether a bias is there: always, never, or as the file says."""
        return self.facts.switch(bias, default=False) if isinstance(bias, str) else bias

    def matrix(self, module: str, role: str, rows: int, columns: int, *, bias: Bias = False) -> Iterator[Weight]:
        """One matrix and, where it has one, its bias."""
        name = f"{self.prefix}{self._named(module)}"
        yield Weight(name, role, rows, columns, layer=self.layer)
        if self.has(bias):
            yield Weight(f"{name}.bias", role, rows, layer=self.layer)

    def _named(self, module: str) -> str:
        """The module's name in files whose layers call everything the same."""
        first, dot, rest = module.partition(".")
        return f"{self.traits.mixer}.{rest}" if dot and self.traits.mixer and first in _MIXERS else module

    def vector(self, module: str, role: str, rows: int, copies: int = 1) -> Iterator[Weight]:
        """Equal vectors; none where they would be empty."""
        if rows and copies:
            yield Weight(f"{self.prefix}{module}", role, rows, 0, copies, copies, self.layer)


def attention(place: Place, heads: int, cached: AttentionLayer, *, own_cache: bool = True) -> Iterator[Weight]:
    """Queries, keys, values and output of one layer; a layer that uses another's cache has no keys and values."""
    traits, hidden = place.traits, place.hidden
    queries = heads * cached.key_length
    yield from place.matrix(
        "self_attn.q_proj", "attention", queries * (2 if _doubled(place) else 1), hidden, bias=traits.qkv_bias
    )
    if own_cache:
        keys = cached.kv_heads * cached.key_length
        yield from place.matrix("self_attn.k_proj", "attention", keys, hidden, bias=traits.qkv_bias)
        if not _values_are_keys(place, cached):
            values = cached.kv_heads * cached.value_length
            yield from place.matrix("self_attn.v_proj", "attention", values, hidden, bias=traits.qkv_bias)
    inner = heads * cached.value_length
    yield from place.matrix("self_attn.o_proj", "attention", hidden, inner, bias=traits.o_bias)
    if traits.gate in {"per_head", "full"}:
        yield from place.matrix("self_attn.g_proj", "attention", heads if traits.gate == "per_head" else inner, hidden)
    yield from place.vector(
        "self_attn.norms", "norm", _norm_elements(place, heads, cached, kv_heads=cached.kv_heads if own_cache else 0)
    )
    if traits.sinks == "all" or (traits.sinks == "windows" and cached.window_tokens is not None):
        yield from place.vector("self_attn.sinks", "attention", heads)
    if traits.sub_norms:
        yield from place.vector("self_attn.attn_sub_norm", "norm", hidden)


def _doubled(place: Place) -> bool:
    return place.traits.gate == "doubled" and place.facts.switch("attn_output_gate", default=True)


def _values_are_keys(place: Place, cached: AttentionLayer) -> bool:
    return cached.window_tokens is None and place.facts.switch("attention_k_eq_v", default=False)


def _norm_elements(place: Place, heads: int, cached: AttentionLayer, *, kv_heads: int) -> int:
    kind, _, condition = place.traits.qk_norm.partition("_")
    if condition and not place.facts.switch("use_qk_norm", default=False):
        return 0
    if kind == "full":
        return (heads + kv_heads) * cached.key_length
    return (1 + bool(kv_heads)) * cached.key_length if kind == "head" else 0


def latent_attention(place: Place) -> Iterator[Weight]:
    """MLA: queries (through a low rank or not), the latent, what unfolds it, the output, and the indexer."""
    facts, hidden = place.facts, place.hidden
    heads = query_heads(facts)
    rank, rotary = (bounded(facts, key, most=MOST_HEAD_LENGTH) for key in ("kv_lora_rank", "qk_rope_head_dim"))
    plain = bounded(facts, "qk_nope_head_dim", most=MOST_HEAD_LENGTH)
    value = bounded(facts, "v_head_dim", hidden // heads, most=MOST_HEAD_LENGTH)
    low = facts.integer("q_lora_rank", 0)
    if low:
        yield from place.matrix("self_attn.q_a_proj", "attention", low, hidden)
        yield from place.matrix("self_attn.q_b_proj", "attention", heads * (plain + rotary), low)
    else:
        yield from place.matrix("self_attn.q_proj", "attention", heads * (plain + rotary), hidden)
    yield from place.matrix("self_attn.kv_a_proj_with_mqa", "attention", rank + rotary, hidden)
    yield from place.matrix("self_attn.kv_b_proj", "attention", heads * (plain + value), rank)
    yield from place.matrix("self_attn.o_proj", "attention", hidden, heads * value)
    yield from place.vector("self_attn.norms", "norm", low + rank)
    if place.traits.gate == "per_head":
        yield from place.matrix("self_attn.g_proj", "attention", heads, hidden)
    if facts.switch("mla_use_output_gate", default=False):
        yield from place.matrix("self_attn.g_proj", "attention", heads * value, hidden)
    if place.traits.indexer:
        length = bounded(facts, "index_head_dim", most=MOST_HEAD_LENGTH)
        index_heads = bounded(facts, "index_n_heads", most=MOST_HEAD_LENGTH)
        yield from place.matrix("self_attn.indexer.wq_b", "attention", index_heads * length, low)
        yield from place.matrix("self_attn.indexer.wk", "attention", length, hidden)
        yield from place.matrix("self_attn.indexer.weights_proj", "attention", index_heads, hidden)
        yield from place.vector("self_attn.indexer.k_norm", "norm", 2 * length)


def state(place: Place, kind: str) -> Iterator[Weight]:
    """The weights of a layer that holds a state, by its kind."""
    return {
        "gated_delta": _gated_delta,
        "kimi_delta": _kimi_delta,
        "mamba": _mamba,
        "mamba2": _mamba2,
        "short_convolution": _short_convolution,
    }[kind](place)


def _gated_delta(place: Place) -> Iterator[Weight]:
    facts, hidden = place.facts, place.hidden
    keys = facts.integer("linear_num_key_heads") * facts.integer("linear_key_head_dim")
    heads, length = facts.integer("linear_num_value_heads"), facts.integer("linear_value_head_dim")
    values = heads * length
    yield from place.matrix("linear_attn.in_proj_qkv", "state", 2 * keys + values, hidden)
    yield from place.matrix("linear_attn.in_proj_z", "state", values, hidden)
    yield from place.matrix("linear_attn.in_proj_ba", "state", 2 * heads, hidden)
    yield from place.matrix("linear_attn.out_proj", "state", hidden, values)
    kernel = facts.integer("linear_conv_kernel_dim")
    yield from place.vector("linear_attn.conv1d", "state", (2 * keys + values) * kernel + 2 * heads + length)


def _kimi_delta(place: Place) -> Iterator[Weight]:
    facts, hidden = place.facts, place.hidden
    heads, length, kernel = kimi_delta_sizes(facts)
    inner = heads * length
    for name in ("q_proj", "k_proj", "v_proj"):
        yield from place.matrix(f"self_attn.{name}", "state", inner, hidden)
    for name in ("f", "g"):  # forget and output gate: through a low rank in Kimi-Linear, at once in Bailing
        if facts.model_type == "bailing_hybrid" or (name == "g" and _has_full_gate(facts)):
            yield from place.matrix(f"self_attn.{name}_proj", "state", inner, hidden)
        else:
            yield from place.matrix(f"self_attn.{name}_a_proj", "state", length, hidden)
            yield from place.matrix(f"self_attn.{name}_b_proj", "state", inner, length)
    yield from place.matrix("self_attn.b_proj", "state", heads, hidden)
    yield from place.matrix("self_attn.o_proj", "state", hidden, inner)
    yield from place.vector("self_attn.conv1d", "state", 3 * inner * kernel + inner + heads + length)


def _has_full_gate(facts: ConfigFacts) -> bool:
    part = facts.part("linear_attn_config")
    return part is not None and part.switch("use_full_rank_gate", default=False)


def _mamba(place: Place) -> Iterator[Weight]:
    facts, hidden, inner = place.facts, place.hidden, mamba_inner(place.facts)
    states = facts.integer("mamba_d_state", facts.integer("state_size", 16), least=1)
    given = facts.find("mamba_dt_rank")[1] or facts.find("time_step_rank")[1]
    rank = -(-hidden // 16) if given in (None, "auto") else facts.whole_number("mamba_dt_rank", given, 1)
    kernel = facts.integer("mamba_d_conv", facts.integer("conv_kernel", 4), least=1)
    yield from place.matrix("mamba.in_proj", "state", 2 * inner, hidden)
    yield from place.matrix("mamba.x_proj", "state", rank + 2 * states, inner)
    yield from place.matrix("mamba.dt_proj", "state", inner, rank)
    yield from place.matrix("mamba.out_proj", "state", hidden, inner)
    yield from place.vector("mamba.conv1d", "state", inner * (kernel + 1) + inner * states + 2 * inner)
    if facts.model_type == "jamba":
        yield from place.vector("mamba.norms", "norm", rank + 2 * states)


def _mamba2(place: Place) -> Iterator[Weight]:
    facts, hidden, inner = place.facts, place.hidden, mamba2_inner(place.facts)
    heads = mamba2_heads(facts)
    groups = facts.integer("mamba_n_groups", facts.integer("n_groups", facts.integer("mamba_ngroups", 1)))
    states = facts.integer("mamba_d_state", facts.integer("ssm_state_size", facts.integer("state_size", 0)), least=1)
    channels = inner + 2 * groups * states
    kernel = facts.integer("mamba_d_conv", facts.integer("conv_kernel", 4), least=1)
    yield from place.matrix("mamba.in_proj", "state", inner + channels + heads, hidden)
    yield from place.matrix("mamba.out_proj", "state", hidden, inner)
    normed = facts.switch("mamba_rms_norm", default=facts.model_type != "falcon_h1")
    yield from place.vector("mamba.conv1d", "state", channels * (kernel + 1) + 3 * heads + (inner if normed else 0))


def _short_convolution(place: Place) -> Iterator[Weight]:
    hidden = place.hidden
    yield from place.matrix("conv.in_proj", "state", 3 * hidden, hidden)
    yield from place.matrix("conv.out_proj", "state", hidden, hidden)
    yield from place.vector("conv.conv", "state", hidden * place.facts.integer("conv_L_cache", least=1))
