"""Weights of the parts that read pictures or sound, and of what leads from them to the language model."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from llmops.models.hf_config import ConfigFacts
from llmops.models.hf_defaults import language_facts
from llmops.models.hf_families import unknown
from llmops.models.hf_weights import Weight


@dataclass(frozen=True)
class _Encoder:
    facts: ConfigFacts
    whole: ConfigFacts
    hidden: int
    layers: int
    name: str

    def matrix(self, name: str, rows: int, columns: int, *, bias: bool = False, copies: int = 1) -> Iterator[Weight]:
        yield Weight(f"{self.name}.{name}", "encoder", rows, columns, copies, copies)
        if bias:
            yield from self.vector(f"{name}.bias", rows, copies)

    def vector(self, name: str, rows: int, copies: int = 1) -> Iterator[Weight]:
        if rows and copies:
            yield Weight(f"{self.name}.{name}", "encoder", rows, 0, copies, copies)

    def integer(self, *keys: str, default: int | None = None) -> int:
        """The first of the keys that is there; the default, or UnreadableInput, without any."""
        return self.facts.integer(self.facts.first_of(*keys), default, least=1)

    @property
    def text_hidden(self) -> int:
        return language_facts(self.whole).integer("hidden_size", least=1)


def encoder_weights(facts: ConfigFacts) -> Iterator[Weight]:
    """The weights of every encoder; one of an unknown kind is counted as the largest usual form of its sizes."""
    for part in facts.encoders():
        yield from _RULES.get(_kind(part), _unknown)(_opened(facts, part))


def uncounted_encoders(facts: ConfigFacts) -> tuple[str, ...]:
    """The kinds of encoders whose weights are only estimated."""
    return tuple(part.model_type or "?" for part in facts.encoders() if _kind(part) not in _RULES)


def _kind(part: ConfigFacts) -> str:
    """Newer files call the kind of Qwen's encoders by a name of its own."""
    if part.has("vt_hidden_size"):
        return "moonvit"
    return part.model_type.removesuffix("_vision")


def _opened(facts: ConfigFacts, part: ConfigFacts) -> _Encoder:
    hidden = part.integer(part.first_of("hidden_size", "embed_dim", "vt_hidden_size"), 0)
    layers_key = part.first_of("depth", "num_hidden_layers", "vt_num_hidden_layers", "conf_num_hidden_layers")
    layers = part.integer(layers_key, 0)
    if layers > 512:
        raise part.wrong("num_hidden_layers", layers)
    return _Encoder(part, facts, hidden, layers, part.where.rstrip(".").removesuffix("_config") + "_tower")


def _block(part: _Encoder, length: int, *, bias: bool, gated: bool) -> Iterator[Weight]:
    """Attention of equal heads and a feed-forward layer, as every vision transformer has them."""
    hidden, layers = part.hidden, part.layers
    for name in ("q_proj", "k_proj", "v_proj", "o_proj"):
        yield from part.matrix(f"layers.*.attn.{name}", hidden, hidden, bias=bias, copies=layers)
    for name in ("gate_proj", "up_proj") if gated else ("up_proj",):
        yield from part.matrix(f"layers.*.mlp.{name}", length, hidden, bias=bias, copies=layers)
    yield from part.matrix("layers.*.mlp.down_proj", hidden, length, bias=bias, copies=layers)


def _patches(part: _Encoder, *, frames: int = 1, bias: bool = False) -> Iterator[Weight]:
    side = part.integer("patch_size")
    channels = part.integer("in_channels", "num_channels", "in_chans", default=3)
    yield from part.matrix("patch_embedding", part.hidden, channels * frames * side * side, bias=bias)


def _siglip(part: _Encoder) -> Iterator[Weight]:
    yield from _patches(part, bias=True)
    side = part.integer("image_size") // part.integer("patch_size")
    yield from part.matrix("position_embedding", max(side * side, 1), part.hidden)
    yield from _block(part, part.integer("intermediate_size"), bias=True, gated=False)
    yield from part.vector("norms", 2 * part.hidden, 2 * part.layers + 1)
    yield from part.matrix("projector", part.text_hidden, part.hidden)
    yield from part.vector("projector.norm", part.hidden)


def _pixtral(part: _Encoder) -> Iterator[Weight]:
    yield from _patches(part)
    yield from _block(part, part.integer("intermediate_size"), bias=False, gated=True)
    yield from part.vector("norms", part.hidden, 2 * part.layers + 2)
    merge = part.whole.integer("spatial_merge_size", 1, least=1)
    if part.whole.model_type == "mistral3":
        yield from part.matrix("projector.merging", part.hidden, part.hidden * merge * merge)
    yield from part.matrix("projector.linear_1", part.text_hidden, part.hidden)
    yield from part.matrix("projector.linear_2", part.text_hidden, part.text_hidden)


def _qwen3(part: _Encoder) -> Iterator[Weight]:
    yield from _patches(part, frames=part.integer("temporal_patch_size", default=2), bias=True)
    yield from part.matrix("pos_embed", part.integer("num_position_embeddings", default=2304), part.hidden)
    yield from _block(part, part.integer("intermediate_size"), bias=True, gated=False)
    yield from part.vector("norms", 2 * part.hidden, 2 * part.layers)
    merged = part.hidden * part.integer("spatial_merge_size", default=2) ** 2
    deep = len(part.facts.items("deepstack_visual_indexes") or ())
    yield from _merger(part, merged, 1 + deep)
    yield from part.vector("merger.norm", 2 * part.hidden)
    yield from part.vector("deepstack.norm", 2 * merged, deep)


def _merger(part: _Encoder, merged: int, copies: int = 1) -> Iterator[Weight]:
    out = part.integer("out_hidden_size", default=part.text_hidden)
    yield from part.matrix("merger.linear_fc1", merged, merged, bias=True, copies=copies)
    yield from part.matrix("merger.linear_fc2", out, merged, bias=True, copies=copies)


def _qwen2(part: _Encoder) -> Iterator[Weight]:
    hidden = part.facts.integer("embed_dim", part.hidden, least=1)  # its hidden_size is the language model's
    inner = _Encoder(part.facts, part.whole, hidden, part.layers, part.name)
    yield from _patches(inner, frames=inner.integer("temporal_patch_size", default=2))
    ratio = int(inner.facts.number("mlp_ratio", 4.0))
    yield from _block(inner, ratio * hidden, bias=True, gated=False)
    yield from inner.vector("norms", 2 * hidden, 2 * inner.layers + 1)
    merged = hidden * inner.integer("spatial_merge_size", default=2) ** 2
    yield from inner.matrix("merger.linear_fc1", merged, merged, bias=True)
    yield from inner.matrix("merger.linear_fc2", part.hidden, merged, bias=True)


def _qwen25(part: _Encoder) -> Iterator[Weight]:
    yield from _patches(part, frames=part.integer("temporal_patch_size", default=2))
    yield from _block(part, part.integer("intermediate_size"), bias=True, gated=True)
    yield from part.vector("norms", part.hidden, 2 * part.layers + 1)
    yield from _merger(part, part.hidden * part.integer("spatial_merge_size", default=2) ** 2)


def _gemma4(part: _Encoder) -> Iterator[Weight]:
    yield from _patches(part)
    yield from part.matrix("position_embedding", 2 * part.integer("position_embedding_size"), part.hidden)
    yield from _block(part, part.integer("intermediate_size"), bias=False, gated=True)
    yield from part.vector("norms", part.hidden, 4 * part.layers)
    yield from part.vector("head_norms", part.integer("head_dim"), 2 * part.layers)
    yield from part.matrix("embed_vision", part.text_hidden, part.hidden)


def _gemma4_audio(part: _Encoder) -> Iterator[Weight]:
    """A conformer: two feed-forward layers, attention with relative keys and a convolution in each layer."""
    hidden = part.hidden
    first, second = part.facts.integers("subsampling_conv_channels", least=1) or (128, 32)
    yield from part.vector("subsample", first * 9 + first + second * first * 9 + second)
    yield from part.matrix("input_proj", hidden, hidden)
    yield from _conformer(part, part.integer("conv_kernel_size"), part.integer("num_attention_heads"))
    out = part.integer("output_proj_dims")
    yield from part.matrix("output_proj", out, hidden, bias=True)
    yield from part.matrix("embed_audio", part.text_hidden, out)


def _conformer(part: _Encoder, kernel: int, heads: int) -> Iterator[Weight]:
    hidden, layers = part.hidden, part.layers
    for rows, columns in ((4 * hidden, hidden), (hidden, 4 * hidden)):
        yield from part.matrix("layers.*.feed_forward", rows, columns, copies=2 * layers)
    yield from part.matrix("layers.*.attn", hidden, hidden, copies=5 * layers)
    yield from part.matrix("layers.*.lconv", hidden, hidden, copies=3 * layers)
    yield from part.vector("layers.*.depthwise", hidden * kernel, layers)
    yield from part.vector("norms", hidden, 9 * layers)
    yield from part.vector("per_dim_scale", hidden // heads, layers)


def _gemma3n_audio(part: _Encoder) -> Iterator[Weight]:
    """The conformer of Gemma 4's audio encoder under older names, and a vocabulary of its own."""
    hidden = part.hidden
    first, second = part.facts.integers("sscp_conv_channel_size", least=1) or (128, 32)
    yield from part.vector("subsample", first * 9 + first + second * first * 9 + second)
    yield from part.matrix("input_proj", hidden, hidden)
    yield from _conformer(part, part.integer("conf_conv_kernel_size"), part.integer("conf_num_attention_heads"))
    yield from _embedder(part, part.facts.integer("vocab_size", 128))


def _gemma3n(part: _Encoder) -> Iterator[Weight]:
    """A convolutional network that the file names, whose sizes are in the name alone."""
    named = _NAMED_NETWORKS.get(part.facts.text("architecture") or "")
    if named is None:
        raise unknown(part.facts, "how many weights its encoder has")
    yield from part.matrix("timm_model", named, 1)
    yield from _embedder(part, part.facts.integer("vocab_size", 128))


def _embedder(part: _Encoder, vocabulary: int) -> Iterator[Weight]:
    yield from part.matrix("embedding", vocabulary, part.hidden)
    yield from part.matrix("embedding_projection", part.text_hidden, part.hidden)
    yield from part.vector("norms", part.hidden, 2)


def _moonvit(part: _Encoder) -> Iterator[Weight]:
    """Kimi: a table of positions for a square of patches, plain blocks, and a projector of two layers."""
    hidden, merge = part.hidden, part.facts.integers("merge_kernel_size", least=1) or (2, 2)
    yield from _patches(part, bias=True)
    positions = part.integer("init_pos_emb_height", default=64) * part.integer("init_pos_emb_width", default=64)
    yield from part.matrix("pos_emb", positions, hidden)
    inner = part.facts.integer("qkv_hidden_size", hidden, least=1)
    for rows, columns, copies in ((inner, hidden, 3), (hidden, inner, 1)):
        yield from part.matrix("blocks.*.attn", rows, columns, bias=True, copies=copies * part.layers)
    length = part.integer("vt_intermediate_size", "intermediate_size")
    yield from part.matrix("blocks.*.mlp.fc0", length, hidden, bias=True, copies=part.layers)
    yield from part.matrix("blocks.*.mlp.fc1", hidden, length, bias=True, copies=part.layers)
    yield from part.vector("norms", 2 * hidden, 2 * part.layers + 2)
    merged = hidden * merge[0] * merge[-1]
    yield from part.matrix("projector.linear_1", merged, merged, bias=True)
    yield from part.matrix("projector.linear_2", part.text_hidden, merged, bias=True)


def _unknown(part: _Encoder) -> Iterator[Weight]:
    if not (part.hidden and part.layers):
        raise unknown(part.facts, "how many weights its encoder has")
    length = part.facts.integer("intermediate_size", 4 * part.hidden, least=1)
    yield from _block(part, length, bias=True, gated=True)
    yield from part.matrix("projector", part.text_hidden, 4 * part.hidden)


# Parameters of networks that a file has by name alone (timm): rounded up.
_NAMED_NETWORKS = {"mobilenetv5_300m_enc": 300_000_000}
_RULES: dict[str, Callable[[_Encoder], Iterator[Weight]]] = {
    **dict.fromkeys(("qwen3_vl", "qwen3_vl_moe", "qwen3_5", "qwen3_5_moe"), _qwen3),
    "gemma3n": _gemma3n,
    "gemma3n_audio": _gemma3n_audio,
    "gemma4_audio": _gemma4_audio,
    "moonvit": _moonvit,
    "gemma4": _gemma4,
    "pixtral": _pixtral,
    "qwen2_5_vl": _qwen25,
    "qwen2_vl": _qwen2,
    "siglip_vision_model": _siglip,
}
