"""Weights that only some families have: per-layer inputs, layers of one purpose, blocks of different widths."""

from __future__ import annotations

from collections.abc import Iterator

from llmops.models.hf_config import ConfigFacts
from llmops.models.hf_heads import layer_words
from llmops.models.hf_parameters_experts import experts, feed_forward, routed, shared
from llmops.models.hf_parameters_layers import Place
from llmops.models.hf_weights import Weight

_FOUR_TIMES_HIDDEN = frozenset({"bloom", "falcon", "gpt2", "gpt_bigcode", "gptj", "mpt"})
_NAS_MULTIPLE = 256


def plain_length(place: Place, layer: int, layers: int) -> int:
    """Feed-forward length of a dense layer."""
    facts = place.facts
    if facts.model_type == "lfm2":
        return _adjusted(facts)
    if facts.has("intermediate_size_mlp"):
        return facts.integer("intermediate_size_mlp", least=1)
    if facts.model_type in _FOUR_TIMES_HIDDEN and not facts.has("intermediate_size"):
        return 4 * place.hidden
    return facts.per_layer("intermediate_size", layers, least=1)[layer]


def _adjusted(facts: ConfigFacts) -> int:
    """LFM2: two thirds of the given length, scaled and rounded up, unless the file says to take it as it is."""
    length = facts.integer("block_ff_dim", facts.integer("intermediate_size", 0), least=1)
    if not facts.switch("block_auto_adjust_ff_dim", default=True):
        return length
    length = int(facts.number("block_ffn_dim_multiplier", 1.0) * (2 * length // 3))
    multiple = facts.integer("block_multiple_of", 256, least=1)
    return -(-length // multiple) * multiple


def double_width(facts: ConfigFacts, *, shares_cache: bool) -> int:
    """Gemma 4: layers that use another's cache may have feed-forward layers of twice the length."""
    return 2 if shares_cache and facts.switch("use_double_wide_mlp", default=False) else 1


def single_purpose(place: Place) -> Iterator[Weight]:
    """Nemotron-H: a layer is attention, a state, a feed-forward layer or experts, with one norm."""
    yield from place.vector("norm", "norm", place.hidden)
    layer = place.layer or 0
    pattern = place.facts.text("hybrid_override_pattern")
    words = layer_words(place.facts, layer + 1, "layers_block_type") if pattern is None else tuple(pattern)
    if words is None or len(words) <= layer:
        raise place.facts.missing("hybrid_override_pattern")
    word = words[layer]
    if word in {"-", "mlp"}:
        yield from feed_forward(place, place.facts.integer("intermediate_size", least=1))
    elif word in {"E", "moe"}:
        yield from routed(place)
        yield from shared(place)


def block_feed_forward(place: Place) -> Iterator[Weight]:
    """Nemotron-NAS: each block has a width of its own, one matrix instead, or nothing."""
    blocks, layer = place.facts.parts("block_configs") or (), place.layer or 0
    if len(blocks) <= layer:
        raise place.facts.wrong("block_configs", f"a list of {len(blocks)}")
    block = blocks[layer]
    attending, part = block.part("attention"), block.part("ffn")
    if attending is not None and attending.switch("replace_with_linear", default=False):
        yield from place.matrix("self_attn.linear_attn", "attention", place.hidden, place.hidden)
    has_attention = attending is not None and not attending.switch("no_op", default=False)
    has_ffn = part is not None and not part.switch("no_op", default=False)
    yield from place.vector("norms", "norm", place.hidden, int(has_attention) + int(has_ffn))
    if part is None or not has_ffn:
        return
    if part.switch("replace_with_linear", default=False):
        yield from place.matrix("mlp.linear_mlp", "feed_forward", place.hidden, place.hidden)
        return
    length = part.integer("intermediate_size", 0)
    if not length:
        length = int(2 * part.number("ffn_mult") * place.hidden / 3)
        length = -(-length // _NAS_MULTIPLE) * _NAS_MULTIPLE
    yield from feed_forward(place, length)


def layer_extras(place: Place) -> Iterator[Weight]:
    """What Gemma 3n and 4 and Apertus have in each layer besides."""
    facts, hidden = place.facts, place.hidden
    length = facts.integer("hidden_size_per_layer_input", 0) if place.traits.per_layer_inputs else 0
    if length:
        yield from place.matrix("per_layer_input_gate", "feed_forward", length, hidden)
        yield from place.matrix("per_layer_projection", "feed_forward", hidden, length)
        yield from place.vector("post_per_layer_input_norm", "norm", hidden)
    if facts.switch("enable_moe_block", default=False):
        yield from place.vector("router.scale", "router", hidden + experts(facts)[0])
        yield from place.vector("expert_norms", "norm", hidden, 3)
    if facts.has("laurel_rank"):
        yield from _altup_and_laurel(place)
    if facts.model_type == "apertus":
        yield from place.vector("mlp.act_fn", "feed_forward", 1, 2)


def _altup_and_laurel(place: Place) -> Iterator[Weight]:
    facts, hidden = place.facts, place.hidden
    inputs = facts.integer("altup_num_inputs", 4, least=1)
    rank = facts.integer("laurel_rank", least=1)
    yield from place.matrix("laurel.linear_left", "feed_forward", rank, hidden)
    yield from place.matrix("laurel.linear_right", "feed_forward", hidden, rank)
    yield from place.matrix("altup.modality_router", "router", inputs, hidden)
    yield from place.matrix("altup.prediction_coefs", "router", inputs * inputs, inputs)
    yield from place.matrix("altup.correction_coefs", "router", inputs, inputs)
    yield from place.vector("altup.norms", "norm", hidden, 3)


def model_extras(place: Place) -> Iterator[Weight]:
    """Tables and projections of per-layer inputs (Gemma 3n and 4), and of the alternating streams (Gemma 3n)."""
    facts, hidden = place.facts, place.hidden
    length = facts.integer("hidden_size_per_layer_input", 0) if place.traits.per_layer_inputs else 0
    if length:
        columns = facts.layers() * length
        rows = facts.integer("vocab_size_per_layer_input", facts.integer("vocab_size"), least=1)
        yield from place.matrix("embed_tokens_per_layer", "embedding", rows, columns)
        yield from place.matrix("per_layer_model_projection", "feed_forward", columns, hidden)
        yield from place.vector("per_layer_projection_norm", "norm", length)
    if facts.has("laurel_rank"):
        for number in range(facts.integer("altup_num_inputs", 4, least=1) - 1):
            yield from place.matrix(f"altup_projections.{number}", "feed_forward", hidden, hidden)
            yield from place.matrix(f"altup_unembed_projections.{number}", "feed_forward", hidden, hidden)
