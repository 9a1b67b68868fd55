"""A Hugging Face model directory to a ModelSpec: config.json says the layers, the headers of tensors the weights."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from llmops.core.errors import UnreadableInput
from llmops.core.model import ModelSpec
from llmops.models.gguf_reader import unreadable
from llmops.models.hf_config import read_config
from llmops.models.hf_context import context_notes, context_tokens
from llmops.models.hf_defaults import language_facts
from llmops.models.hf_encoder import encoder_shape
from llmops.models.hf_families import layers_of
from llmops.models.hf_files import CONFIG, MOST_NAMED, SUFFIX, ModelDirectory
from llmops.models.hf_parameters_experts import expert_length, experts
from llmops.models.hf_quantization import FOREIGN, quantization_of
from llmops.models.hf_stored import Stored, stored_tensors
from llmops.models.hf_tensors import HfWeights, PackedBits, Shape, weigh_kinds
from llmops.models.hf_tokenizer import has_chat_template
from llmops.models.json_file import AGAIN

if TYPE_CHECKING:
    from llmops.host import Host
    from llmops.models.hf_config import ConfigFacts
    from llmops.models.hf_layers import Layers
    from llmops.models.hf_scheme import Quantization

MOST_PACKED = 8_192  # the largest models have 3,000, of every layer's matrices
# What config.json calls the types of safetensors; where both weigh the same, the first.
_SAID_TYPES = {
    **{name: name for name in ("bfloat16", "float16", "float32")},
    "half": "float16",
    "float": "float32",
}
DATA_TYPES = {"BF16": "bfloat16", "F16": "float16", "F32": "float32"}


def read_hf_file(host: Host, path: str) -> ModelSpec:
    """The model that a config.json, an index or one of the .safetensors files is a part of."""
    place = PurePosixPath(path)
    directory = ModelDirectory(host, str(place.parent))
    if place.name.endswith(SUFFIX) and not directory.has(CONFIG):
        raise unreadable(path, f"has no {CONFIG} beside it", "name a directory that holds both")
    return _read(directory, str(place.parent))


def read_hf_directory(host: Host, path: str, reference: str | None = None) -> ModelSpec:
    """Read a model by its directory; `reference` is what the user called it.

    Raises UnreadableInput (missing, truncated, damaged, no model), UnknownArchitecture or NoPermission.
    """
    return _read(ModelDirectory(host, path), reference or path)


@dataclass(frozen=True)
class _Found:
    directory: ModelDirectory
    reference: str
    facts: ConfigFacts
    layers: Layers
    weights: HfWeights
    stored: Stored
    quantization: Quantization | None
    notes: tuple[str, ...]


def _read(directory: ModelDirectory, reference: str) -> ModelSpec:
    _require_model(directory)
    whole = read_config(directory.host, directory.file(CONFIG))
    facts = language_facts(whole)
    layers = layers_of(whole)
    stored = stored_tensors(directory)
    quantization = quantization_of(whole, _separate(directory))
    notes = (*layers.notes, *context_notes(facts, layers))
    if quantization is not None and quantization.method in FOREIGN:
        notes += (f"its weights are in the form of {quantization.method}, which neither vLLM nor llama.cpp loads",)
    if stored.paths:
        bits = _packed_bits(directory.path, quantization)
        weights = weigh_kinds(stored.headers.kinds(), Shape(layers.count, *experts(facts)), bits)
        _require_whole(directory, weights)
    else:
        from llmops.models.hf_estimate import estimated_weights

        estimate = estimated_weights(whole, quantization)
        weights = replace(estimate.weights, stored_bytes=max(estimate.high_bytes, estimate.weights.stored_bytes))
        notes += estimate.notes
        if directory.other_weights():
            notes += ("its weights are in files of another form (.bin, .pt), whose sizes are not read",)
    return _spec(_Found(directory, reference, facts, layers, weights, stored, quantization, notes))


def _packed_bits(path: str, quantization: Quantization | None) -> PackedBits:
    """What the checkpoint says of its packed matrices; asked of more than any model has, UnreadableInput."""
    left = MOST_PACKED

    def bits(tensor: str) -> int | None:
        nonlocal left
        left -= 1
        if left < 0:
            raise unreadable(path, f"has more than {MOST_PACKED} kinds of packed tensors", AGAIN)
        return quantization.packed_bits(tensor) if quantization is not None else None

    return bits


def _separate(directory: ModelDirectory) -> ConfigFacts | None:
    """What ModelOpt writes beside config.json."""
    name = "hf_quant_config.json"
    return read_config(directory.host, directory.file(name)) if directory.has(name) else None


def _processor(directory: ModelDirectory) -> ConfigFacts | None:
    """What prepares pictures; None where it says nothing that can be read, since only a range depends on it."""
    name = "preprocessor_config.json"
    if not directory.has(name):
        return None
    try:
        return read_config(directory.host, directory.file(name))
    except UnreadableInput:
        return None


def _require_whole(directory: ModelDirectory, weights: HfWeights) -> None:
    if not any(group.role == "repeating" for group in weights.groups):
        raise unreadable(
            directory.path, "its tensors are no layers of a language model", "name the directory of a whole model"
        )


def _spec(found: _Found) -> ModelSpec:
    facts, layers, weights = found.facts, found.layers, found.weights
    count, used = experts(facts)
    quantization = found.quantization
    return ModelSpec(
        reference=found.reference,
        format="safetensors" if found.stored.paths else "config",
        architecture=facts.model_type,
        name=found.directory.shown_name,
        layers=layers.count,
        attention_layers=layers.attention_layers,
        embedding_length=facts.integer("hidden_size", least=1),
        feed_forward_length=_feed_forward_length(facts, layers.count),
        attention_heads=facts.integer("num_attention_heads", 0),
        vocabulary_size=facts.integer("vocab_size", weights.vocabulary_rows or None, least=1),
        context_tokens_trained=context_tokens(facts, layers),
        parameters=weights.parameters,
        active_parameters=weights.active_parameters,
        weights_bytes=weights.stored_bytes,
        active_weights_bytes=weights.active_bytes,
        file_bytes=found.stored.file_bytes or weights.stored_bytes,
        quantization=quantization.label if quantization is not None else _plain_label(facts, weights),
        tensors=weights.groups,
        experts=count,
        experts_used=used,
        expert_feed_forward_length=expert_length(facts) if count else 0,
        tied_output=weights.tied_output,
        has_chat_template=has_chat_template(found.directory),
        source_paths=found.stored.paths or (found.directory.file(CONFIG),),
        state_layers=layers.state_layers,
        weights_basis="tensors" if found.stored.paths else "config",
        data_type=_data_type(facts, weights),
        quantization_method=quantization.method if quantization is not None else None,
        cache_data_type=quantization.cache_data_type if quantization is not None else None,
        quantization_block=quantization.block if quantization is not None else (0, 0),
        state_data_type=layers.state_data_type,
        encoder_weights_bytes=weights.encoder_bytes,
        encoder=encoder_shape(facts.whole, _processor(found.directory)),
        draft_layers=layers.draft_layers if weights.draft_bytes else 0,
        notes=found.notes,
        classes=facts.whole.architectures,
        has_own_code=facts.whole.has_own_code,
    )


def _feed_forward_length(facts: ConfigFacts, layers: int) -> int:
    """The longest of any layer; 0 where config.json gives none of its own (a ratio, or blocks of different lengths)."""
    _, value = facts.find("intermediate_size")
    return max(facts.per_layer("intermediate_size", layers, 0)) if value is not None else 0


def _data_type(facts: ConfigFacts, weights: HfWeights) -> str:
    """The type that the model computes in: as config.json says, else that of most of its unquantised weights."""
    said = (facts.text("dtype") or "").removeprefix("torch.")
    if said in _SAID_TYPES:
        return _SAID_TYPES[said]
    sizes = dict.fromkeys(DATA_TYPES, 0)
    for group in weights.groups:
        if group.storage_type in sizes:
            sizes[group.storage_type] += group.stored_bytes
    return DATA_TYPES[max(sizes, key=lambda name: sizes[name])]


def _plain_label(facts: ConfigFacts, weights: HfWeights) -> str:
    """The type of most of the weights, as people write it."""
    sizes: dict[str, int] = {}
    for group in weights.groups:
        sizes[group.storage_type] = sizes.get(group.storage_type, 0) + group.stored_bytes
    return max(sizes, key=lambda name: sizes[name]).lower() if sizes else _data_type(facts, weights)


def _require_model(directory: ModelDirectory) -> None:
    """Raise UnreadableInput for a directory that is no model, saying what it is instead."""
    quantised = directory.ending(".gguf")
    if quantised and not directory.ending(SUFFIX):
        more = f" and {len(quantised) - MOST_NAMED} more" if len(quantised) > MOST_NAMED else ""
        raise unreadable(
            directory.path,
            f"is a directory of GGUF files: {', '.join(quantised[:MOST_NAMED])}{more}",
            "name the one to serve, of a split model its first part",
        )
    if directory.has("adapter_config.json") and not directory.has(CONFIG):
        raise unreadable(directory.path, "holds an adapter (LoRA), not a model", "name the model that it belongs to")
    if not directory.has(CONFIG):
        raise unreadable(directory.path, f"is not a model: it holds no {CONFIG}", _instead(directory))


def _instead(directory: ModelDirectory) -> str:
    """What to do about a directory without a config.json, by what else it holds."""
    if directory.has("params.json"):
        return f"it has Mistral's own form (params.json), which is not read: get the {CONFIG} of the model too"
    if "snapshots" in directory.names and "refs" in directory.names:
        return "it is a repository in a cache: name the model as on the hub, org/name, or one of its snapshots"
    return directory.download_hint()
