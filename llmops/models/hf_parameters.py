"""Every weight of a model from its config.json alone: exact counts for when no weights are there to be read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from llmops.core.model import AttentionLayer, StateLayer
from llmops.models.hf_config import ConfigFacts
from llmops.models.hf_defaults import language_facts
from llmops.models.hf_families import family_of, layers_of, unknown
from llmops.models.hf_heads import query_heads
from llmops.models.hf_layers import Layers
from llmops.models.hf_overrides import layer_overrides
from llmops.models.hf_parameters_encoders import encoder_weights
from llmops.models.hf_parameters_experts import feed_forward, routed, shared, sparse_layers
from llmops.models.hf_parameters_extras import (
    block_feed_forward,
    double_width,
    layer_extras,
    model_extras,
    plain_length,
    single_purpose,
)
from llmops.models.hf_parameters_layers import Place, attention, latent_attention, state
from llmops.models.hf_traits import TRAITS, Traits
from llmops.models.hf_weights import Parameters, Weight


def parameters_of(facts: ConfigFacts) -> Parameters:
    """All weights that the file implies; UnknownArchitecture where the family's weights are not known."""
    part = language_facts(facts)
    traits = TRAITS.get(family_of(part))
    if traits is None:
        raise unknown(part, "how many parameters it has")
    model = _Model.of(part, traits)
    weights = (
        *_ends(model),
        *model_extras(model.place()),
        *_all_layers(model),
        *_draft(model),
        *encoder_weights(facts),
    )
    return Parameters(tuple(weight for weight in weights if weight.parameters))


@dataclass(frozen=True)
class _Model:
    """The language model while its weights are listed; `own_caches` layers have keys and values of their own."""

    facts: ConfigFacts
    traits: Traits
    layers: Layers
    attention: dict[int | None, AttentionLayer]
    states: dict[int | None, StateLayer]
    sparse: tuple[bool, ...]
    own_caches: int

    @classmethod
    def of(cls, facts: ConfigFacts, traits: Traits) -> _Model:
        # Layers without a cache of their own, and models that look both ways, have the same weights as others.
        plain = {**facts.values, "num_kv_shared_layers": 0, "use_bidirectional_attention": None}
        layers = layers_of(ConfigFacts(facts.path, plain, facts.where, facts.whole if facts.where else None))
        attention: dict[int | None, AttentionLayer] = {}
        for layer in layers.attention_layers:
            attention.setdefault(layer.layer, layer)  # an indexer's key follows the layer that it serves
        return cls(
            facts,
            traits,
            layers,
            attention,
            {layer.layer: layer for layer in layers.state_layers},
            sparse_layers(facts, layers.count),
            layers.count - facts.integer("num_kv_shared_layers", 0),
        )

    def place(self, layer: int | None = None) -> Place:
        root = "language_model.model." if self.facts.where else "model."
        return Place(self.facts, self.traits, root if layer is None else f"{root}layers.{layer}.", layer)


def _ends(model: _Model) -> Iterator[Weight]:
    facts, traits, place = model.facts, model.traits, model.place()
    hidden, vocabulary = place.hidden, facts.integer("vocab_size", least=1)
    yield Weight(f"{place.prefix}embed_tokens", "embedding", vocabulary, hidden)
    if traits.learned_positions is not None:
        rows = facts.integer("max_position_embeddings", least=1) + traits.learned_positions
        yield Weight(f"{place.prefix}embed_positions", "embedding", rows, hidden)
    norms = int(traits.final_norm) + int(traits.embedding_norm)
    yield from place.vector("norm", "norm", hidden * (1 + traits.norm_bias), norms)
    if not facts.switch("tie_word_embeddings", default=False):
        yield Weight("lm_head", "output", vocabulary, hidden)
    if place.has(traits.output_bias):
        yield Weight("lm_head.bias", "output", vocabulary)


def _all_layers(model: _Model) -> Iterator[Weight]:
    for layer in range(model.layers.count):
        yield from _layer(model, layer, model.place(layer))


def _layer(model: _Model, layer: int, place: Place) -> Iterator[Weight]:
    traits = model.traits
    yield from _mixer(model, layer, place)
    if model.facts.model_type == "nemotron_h":
        yield from single_purpose(place)
    elif model.facts.has("block_configs"):
        yield from block_feed_forward(place)
    else:
        yield from _feed_forward(model, layer, place)
        yield from place.vector("norms", "norm", place.hidden * (1 + traits.norm_bias), _norms(place))
    yield from layer_extras(place)


def _norms(place: Place) -> int:
    more = place.traits.post_norms and place.facts.switch("use_post_norm", default=False)
    return place.traits.norms + 2 * more


def _mixer(model: _Model, layer: int, place: Place) -> Iterator[Weight]:
    held = model.states.get(layer)
    if held is not None:
        yield from state(place, held.kind)
    cached = model.attention.get(layer)
    if cached is None:
        return
    if model.facts.has("kv_lora_rank"):
        yield from latent_attention(place)
    else:
        heads = _query_heads(model.facts, layer, model.layers.count, cached)
        yield from attention(place, heads, cached, own_cache=layer < model.own_caches)


def _query_heads(facts: ConfigFacts, layer: int, layers: int, cached: AttentionLayer) -> int:
    heads = query_heads(facts)
    if cached.window_tokens is not None:
        setting = facts.part("attention_other_setting")
        heads = setting.integer("num_attention_heads", heads, least=1) if setting is not None else heads
        for key in ("swa_num_attention_heads", "num_sliding_attention_heads"):
            heads = facts.integer(key, heads, least=1)
    override = layer_overrides(facts, layers).get(layer)
    if override is not None:
        return override.integer("num_attention_heads", heads, least=1)
    return facts.per_layer("num_attention_heads_per_layer", layers, heads, least=1)[layer]


def _feed_forward(model: _Model, layer: int, place: Place) -> Iterator[Weight]:
    sparse = model.sparse[layer]
    # Gemma 4 and LongCat-Flash: experts beside the dense layer.
    both = place.facts.switch("enable_moe_block", default=place.facts.model_type == "longcat_flash")
    if sparse:
        yield from routed(place)
    if sparse or not place.traits.dense:
        yield from shared(place)
    if (not sparse and place.traits.dense) or both:
        wide = double_width(place.facts, shares_cache=layer >= model.own_caches)
        yield from feed_forward(place, plain_length(place, layer, model.layers.count) * wide)


def _draft(model: _Model) -> Iterator[Weight]:
    """One more layer like the last for each draft layer, what joins its inputs, and where the file repeats them, both
    ends of the model."""
    last = model.layers.count - 1
    attending = max((layer for layer in model.attention if layer is not None), default=None)
    if not model.layers.draft_layers or attending is None:
        return
    place = model.place(last)
    hidden = place.hidden
    rows = [
        *_mixer(model, attending, replace(place, layer=attending)),
        *_feed_forward(model, last, place),
        *place.vector("norms", "norm", hidden, model.traits.norms + 3),
        *place.matrix("eh_proj", "draft", hidden, 2 * hidden),
    ]
    if model.traits.draft_copies:
        ends = ("embed_tokens", "shared_head.head")
        rows += [Weight(name, "draft", model.facts.integer("vocab_size", least=1), hidden) for name in ends]
    for number in range(model.layers.draft_layers):
        for weight in rows:
            module = f"mtp.layers.{number}.{weight.module.removeprefix(place.prefix)}"
            yield replace(weight, module=module, role="draft", layer=None)
