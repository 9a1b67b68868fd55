"""GGUF files to a ModelSpec: all parts found and checked, weights summed, the cache by the rule of the family."""

from __future__ import annotations

from reprlib import repr as brief
from typing import TYPE_CHECKING, Any

from llmops.core.model import ModelSpec
from llmops.models.ggml_types import FILE_TYPE_GUESSED, FILE_TYPES
from llmops.models.gguf_facts import Facts
from llmops.models.gguf_families import caches_of
from llmops.models.gguf_file import GgufFile, Value, read_gguf_file
from llmops.models.gguf_reader import Allowance, unreadable
from llmops.models.gguf_shapes import layer_shapes
from llmops.models.gguf_tensors import Weights, weigh

if TYPE_CHECKING:
    from collections.abc import Mapping

    from llmops.host import Host

MAX_PARTS = 1_000
MAX_NAME_LENGTH = 256
# general.type of files that are parts of a model, not models (gguf-py, GGUFType).
NOT_A_MODEL = {
    "adapter": "a LoRA adapter",
    "mmproj": "a multimodal projector",
    "imatrix": "an importance matrix",
    "vocab": "a vocabulary",
}


def read_gguf(host: Host, path: str) -> ModelSpec:
    """Read a model by its only or first file.

    Raises UnreadableInput (missing, truncated, damaged, not a model), UnknownArchitecture or NoPermission.
    """
    return spec_of_files(path, read_files(host, path))


def spec_of_files(path: str, files: tuple[GgufFile, ...]) -> ModelSpec:
    """The model that the headers of its files describe, first file first."""
    first = files[0]
    _require_model(first)
    facts = Facts(path, first.metadata)
    caches = caches_of(facts)
    experts, experts_used = _experts(facts)
    tensors = [tensor for file in files for tensor in file.tensors]
    weights = weigh(tensors, facts.layers, experts, experts_used)
    if not weights.vocabulary_rows:
        raise unreadable(path, "holds no token embeddings: it is not a whole model")
    return ModelSpec(
        reference=path,
        format="gguf",
        architecture=facts.architecture,
        name=_shown_name(facts),
        layers=facts.layers,
        attention_layers=caches.attention,
        state_layers=caches.state,
        draft_layers=facts.blocks - facts.layers,
        embedding_length=facts.integer("embedding_length", least=1),
        feed_forward_length=max(facts.per_layer("feed_forward_length", (0,))),
        attention_heads=max(facts.per_layer("attention.head_count", (0,))),
        vocabulary_size=facts.items("tokenizer.ggml.tokens") or facts.integer("vocab_size", weights.vocabulary_rows),
        context_tokens_trained=facts.integer("context_length", least=1),
        parameters=weights.parameters,
        active_parameters=weights.active_parameters,
        weights_bytes=weights.stored_bytes,
        active_weights_bytes=weights.active_bytes,
        file_bytes=sum(file.size_bytes for file in files),
        quantization=_quantization(facts, weights),
        tensors=weights.groups,
        experts=experts,
        experts_used=experts_used,
        expert_feed_forward_length=_expert_length(facts, weights) if experts else 0,
        tied_output=weights.tied_output,
        has_chat_template=facts.has("tokenizer.chat_template"),
        source_paths=tuple(file.path for file in files),
        tokenizer_merges=facts.items("tokenizer.ggml.merges"),
        layer_shapes=layer_shapes(tensors, facts.layers),
        layer_weights=weights.layer_weights,
        **_encoder(first, weights),
    )


def _encoder(first: GgufFile, weights: Weights) -> dict[str, Any]:
    """Weights and graph of an encoder that the file holds beside the language model."""
    stored = sum(group.stored_bytes for group in weights.groups if group.role == "encoder")
    if not stored:
        return {}
    from llmops.models.gguf_projector import graph_of

    architecture = str(first.metadata.get("general.architecture"))
    return {"encoder_weights_bytes": stored, "encoder_graph_bytes": graph_of(first.metadata, architecture)}


def is_embedding(metadata: Mapping[str, Value]) -> bool:
    """Whether a model turns texts into vectors instead of answering: it says how it pools (gguf-py, PoolingType)."""
    return f"{metadata.get('general.architecture')}.pooling_type" in metadata


def read_files(host: Host, path: str) -> tuple[GgufFile, ...]:
    """The headers of all files of a model, its first one first; raises UnreadableInput or NoPermission."""
    allowance = Allowance()
    first = read_gguf_file(host, path, allowance)
    count = _split_number(first, "split.count", 1)
    if count <= 1:
        return (first,)
    number = _split_number(first, "split.no", 0)
    stem = path.removesuffix(_part_suffix(number, count))
    if count > MAX_PARTS or stem == path:
        raise unreadable(
            path,
            f"is part {number + 1} of {count}, but its name does not end in {_part_suffix(number, count)}",
            "give the parts their original names back: the engine finds them by name",
        )
    if number:
        raise unreadable(
            path, f"is part {number + 1} of {count}", f"name the first part: {stem}{_part_suffix(0, count)}"
        )
    rest = tuple(_read_part(host, stem + _part_suffix(part, count), part, count, allowance) for part in range(1, count))
    files = (first, *rest)
    _check_split(files)
    return files


def _part_suffix(number: int, count: int) -> str:
    return f"-{number + 1:05d}-of-{count:05d}.gguf"


def _split_number(file: GgufFile, key: str, default: int) -> int:
    value = file.metadata.get(key, default)
    if not isinstance(value, int) or value < 0:
        raise unreadable(file.path, f"{key} is {brief(value)}, which cannot be")
    return value


def _read_part(host: Host, path: str, part: int, count: int, allowance: Allowance) -> GgufFile:
    if _is_missing(host, path):
        raise unreadable(
            path, f"is missing: part {part + 1} of {count}", "download it again beside the first part: all are needed"
        )
    file = read_gguf_file(host, path, allowance)
    if _split_number(file, "split.no", -1 if part else 0) != part:
        raise unreadable(file.path, f"says it is part {brief(file.metadata.get('split.no'))}, not {part}")
    return file._replace(metadata={})  # those of the first part count


def _is_missing(host: Host, path: str) -> bool:
    """Whether there is no such file; what else keeps it from being read is for the reader to say."""
    try:
        host.status(path)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return False


def _check_split(files: tuple[GgufFile, ...]) -> None:
    found = sum(len(file.tensors) for file in files)
    expected = _split_number(files[0], "split.tensors.count", found)
    names = {tensor.name for file in files for tensor in file.tensors}
    if found != expected or len(names) != found:
        raise unreadable(files[0].path, f"its {len(files)} parts hold {len(names)} tensors, not {expected}")


def _require_model(file: GgufFile) -> None:
    kind = file.metadata.get("general.type", "model")
    if file.metadata.get("general.architecture") == "clip":
        kind = "mmproj"
    if kind != "model":
        what = NOT_A_MODEL.get(str(kind), f"a {brief(kind)}")
        raise unreadable(file.path, f"is {what}, not a language model", "name the model file that it belongs to")
    if not file.tensors and "split.count" not in file.metadata:
        raise unreadable(file.path, "holds a vocabulary and no weights", "name the model file that it belongs to")


def _shown_name(facts: Facts) -> str | None:
    """The name as a terminal may show it: what would move its cursor or hide text is replaced."""
    name = facts.text("general.name")
    if name is None:
        return None
    return "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in name[:MAX_NAME_LENGTH])


def _experts(facts: Facts) -> tuple[int, int]:
    """Routed experts, and how many of them a token uses (the most of any layer); one expert is a dense model."""
    experts = facts.integer("expert_count", 0)
    if experts <= 1:
        return 0, 0
    used = max(facts.per_layer("expert_used_count", (0,)))
    if not 0 < used <= experts:
        raise facts.wrong("expert_used_count", used)
    return experts, used


def _quantization(facts: Facts, weights: Weights) -> str:
    named = FILE_TYPES.get(facts.integer("general.file_type", FILE_TYPE_GUESSED) & ~FILE_TYPE_GUESSED)
    if named is not None and facts.has("general.file_type"):
        return named
    by_type: dict[str, int] = {}
    for group in weights.groups:
        by_type[group.storage_type] = by_type.get(group.storage_type, 0) + group.stored_bytes
    return max(by_type, key=lambda name: by_type[name]).upper()


def _expert_length(facts: Facts, weights: Weights) -> int:
    """As the tensors have it; files with one tensor for each expert give it in their metadata only."""
    given = facts.per_layer("expert_feed_forward_length", facts.per_layer("feed_forward_length", (0,)))
    return weights.expert_feed_forward_length or max(given)
