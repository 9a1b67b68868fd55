"""Feed-forward weights of one layer, dense or experts, and which layers have which."""

from __future__ import annotations

from collections.abc import Iterator

from llmops.models.gguf_facts import MAX_LAYERS
from llmops.models.hf_config import ConfigFacts
from llmops.models.hf_heads import layer_words, numbered
from llmops.models.hf_parameters_layers import MOST_EXPERTS, Place
from llmops.models.hf_weights import Weight

# Nemotron 3 (modeling_nemotron_h.py: fc1_latent_proj, fc2_latent_proj), Kimi K3 (vllm/models/kimi_k3).
_LATENT_LENGTHS = ("moe_latent_size", "routed_expert_hidden_size")
_SHARED_COUNTS = ("n_shared_experts", "num_shared_experts", "moe_num_shared_experts", "num_shared_expert")


def experts(facts: ConfigFacts) -> tuple[int, int]:
    """Routed experts of a layer, and how many of them a token uses; (0, 0) for a dense model."""
    count = _most(facts, "num_experts", 0)
    if count <= 1:
        return 0, 0
    used = _most(facts, "num_experts_per_tok")
    if not 0 < used <= count <= MOST_EXPERTS:
        raise facts.wrong(facts.find("num_experts_per_tok")[0], used)
    return count, used


def _most(facts: ConfigFacts, key: str, default: int | None = None) -> int:
    """One number, or the greatest of a list for all layers, which in published files are equal."""
    items = facts.integers(key) if isinstance(facts.find(key)[1], list) else None
    return facts.integer(key, default) if items is None else max(items, default=0)


def expert_length(facts: ConfigFacts) -> int:
    """Feed-forward length of one routed expert."""
    if facts.has("expert_ffn_hidden_size"):
        return facts.integer("expert_ffn_hidden_size", least=1)
    return _most(facts, "moe_intermediate_size", 0) or _most(facts, "intermediate_size")


def sparse_layers(facts: ConfigFacts, layers: int) -> tuple[bool, ...]:
    """Which layers have experts, by whichever of the families' keys the file has."""
    if not experts(facts)[0]:
        return (False,) * layers
    words = layer_words(facts, layers, "mlp_layer_types")
    if words is not None:
        return tuple(word != "dense" for word in words)
    if facts.model_type == "longcat_flash":  # the experts stand beside the first half of each layer
        return tuple(layer % 2 == 0 for layer in range(layers))
    listed = _enumerated(facts) or numbered(facts, "moe_layers")
    if listed is not None:
        return tuple(layer in listed for layer in range(layers))
    dense = numbered(facts, "mlp_only_layers") or frozenset()
    first = facts.integer("first_k_dense_replace", facts.integer("num_dense_layers", 0))
    rest = _frequency(facts, layers)
    return tuple(layer >= first and layer not in dense and rest[layer] for layer in range(layers))


def _enumerated(facts: ConfigFacts) -> frozenset[int] | None:
    """The layers of a list that is written as one text; None where there is none."""
    text = facts.find("moe_layers_enum")[1]
    if not isinstance(text, str):
        return numbered(facts, "moe_layers_enum")
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if len(parts) > MAX_LAYERS or not all(part.isdecimal() and len(part) <= 4 for part in parts):
        raise facts.wrong("moe_layers_enum", text)
    return frozenset(int(part) for part in parts)


def _frequency(facts: ConfigFacts, layers: int) -> tuple[bool, ...]:
    if facts.has("expert_layer_period"):
        period, offset = facts.integer("expert_layer_period", least=1), facts.integer("expert_layer_offset", 0)
        return tuple(layer % period == offset for layer in range(layers))
    if isinstance(facts.find("moe_layer_freq")[1], list):
        return tuple(bool(number) for number in facts.per_layer("moe_layer_freq", layers))
    if facts.has("moe_layer_freq"):
        period = facts.integer("moe_layer_freq", least=1)
        return tuple(layer % period == 0 for layer in range(layers))
    return tuple(_is_last_of_step(facts, layer) for layer in range(layers))


def _is_last_of_step(facts: ConfigFacts, layer: int) -> bool:
    steps = ("moe_layer_interval", "decoder_sparse_step", "interleave_moe_layer_step")
    step = next((facts.integer(key, least=1) for key in steps if facts.has(key)), 1)
    return layer >= facts.integer("moe_layer_start_index", 0) and (layer + 1) % step == 0


def feed_forward(place: Place, length: int, role: str = "feed_forward", module: str = "") -> Iterator[Weight]:
    """Gate (where there is one), up and down of a dense layer or of the shared experts."""
    traits, hidden = place.traits, place.hidden
    module = module or traits.mlp
    bias = traits.mlp_bias
    if not length:
        return
    if traits.gated:
        yield from place.matrix(f"{module}.gate_proj", role, length, hidden, bias=bias)
    yield from place.matrix(f"{module}.up_proj", role, length, hidden, bias=bias)
    yield from place.matrix(f"{module}.down_proj", role, hidden, length, bias=bias)
    if traits.sub_norms:
        yield from place.vector(f"{module}.ffn_sub_norm", "norm", length)


def latent_length(facts: ConfigFacts) -> int:
    """The length that tokens are brought to for the routed experts; 0 where these take them as they are."""
    key = next((name for name in _LATENT_LENGTHS if facts.has(name)), None)
    return facts.integer(key) if key else 0


def routed(place: Place) -> Iterator[Weight]:
    """Router and routed experts of one layer."""
    facts, hidden, traits = place.facts, place.hidden, place.traits
    count, used = experts(facts)
    length = expert_length(facts)
    choices = count + facts.integer("zero_expert_num", 0)  # LongCat-Flash: some choices pass a token on as it is
    yield from place.matrix(f"{traits.mlp}.gate", "router", choices, hidden, bias=traits.expert_bias)
    if traits.correction:
        yield from place.vector(f"{traits.mlp}.gate.e_score_correction_bias", "router", choices)
    latent = latent_length(facts)
    inner = latent or hidden
    shapes = [("up_proj", length, inner), ("down_proj", inner, length)]
    if traits.gated:
        shapes.insert(0, ("gate_proj", length, inner))
    if latent:
        yield from place.matrix(f"{traits.mlp}.fc1_latent_proj", "feed_forward", latent, hidden)
        yield from place.matrix(f"{traits.mlp}.fc2_latent_proj", "feed_forward", hidden, latent)
    for name, rows, columns in shapes:
        module = f"{place.prefix}{traits.expert_module}.*.{name}"
        yield Weight(module, "experts", rows, columns, count, used, place.layer)
        if traits.expert_bias:
            yield Weight(f"{module}.bias", "experts", rows, 0, count, used, place.layer)


def shared_length(place: Place) -> int:
    """Feed-forward length of the experts that every token uses, 0 without any."""
    facts = place.facts
    if place.traits.shared_as_dense:
        return facts.integer("intermediate_size", least=1)
    for key in ("shared_expert_intermediate_size", "shared_intermediate_size", "share_expert_dim", "share_expert_dims"):
        if facts.has(key):
            return facts.integer(key)
    name = next((key for key in _SHARED_COUNTS if facts.has(key)), None)
    count = min(_most(facts, name), MOST_EXPERTS) if name else 0
    key = "moe_shared_expert_intermediate_size"
    return count * (facts.integer(key) if facts.has(key) else expert_length(facts)) if count else 0


def shared(place: Place) -> Iterator[Weight]:
    """The shared experts of one layer and what weighs them."""
    length = shared_length(place)
    yield from feed_forward(place, length, "shared_experts", f"{place.traits.mlp}.shared_experts")
    if length and place.traits.shared_gate:
        yield from place.matrix(f"{place.traits.mlp}.shared_expert_gate", "router", 1, place.hidden)
