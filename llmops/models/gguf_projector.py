"""Projectors: GGUF files beside a model that turn pictures or sound into its embeddings (`--mmproj`)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from llmops.core.errors import UnreadableInput
from llmops.core.model import ModelSpec, TensorGroup
from llmops.core.units import MIB
from llmops.models.gguf_file import read_gguf_file
from llmops.models.gguf_reader import Allowance, file_bytes, unreadable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from llmops.host import Host
    from llmops.models.gguf_file import Value

_ARCHITECTURE = "clip"
_FLOAT_BYTES = 4
# Vectors of one patch that an encoder holds at once, low and high; and beside its widest product. Published: Gemma 3
# 1132 MiB with the scores of 16 heads (6.0), Qwen3-VL 248.10 MiB for 92 x 92 patches with flash attention (6.7).
_VECTORS, _BESIDE = (6, 7), 2
# Pictures may be larger than the one that the engine reserves for at its start.
_LARGER_PICTURES = 4
# Encoders that merge patches take pictures as they are: 46 x 46 merged patches are reserved for, 4,096 are the most
# (tools/mtmd/clip.cpp, set_warmup_n_tokens and set_limit_image_tokens).
_MERGES = "vision.spatial_merge_size"
_RESERVED_PATCHES, _MOST_PATCHES = 46 * 46 * 4, 4096 * 4
_SOUND_TOKENS = 1_500  # half a minute for encoders of the Whisper kind
_MOST_TOKENS = 65_536
# Where a file does not say how its encoder is built: from a small one to Gemma 3's without flash attention.
UNKNOWN_GRAPH_BYTES = (64 * MIB, 1_200 * MIB)


@dataclass(frozen=True)
class Projector:
    """What a projector takes: its weights, and low and high end of the graph that runs for one picture or sound."""

    stored_bytes: int
    tensors: int
    graph_bytes: tuple[int, int]


def read_projector(host: Host, path: str, allowance: Allowance | None = None) -> Projector:
    """Raise UnreadableInput for a file that is none, NoPermission where it may not be read."""
    file = read_gguf_file(host, path, allowance or Allowance())
    if file.metadata.get("general.architecture") != _ARCHITECTURE:
        raise unreadable(path, "is no projector for pictures or sound", "name the mmproj file of the model")
    return Projector(sum(tensor.stored_bytes for tensor in file.tensors), len(file.tensors), graph_of(file.metadata))


def read_or_weigh(host: Host, paths: Sequence[str]) -> tuple[Projector, ...]:
    """The same of several, or what the size of a file tells that is none; raise where one is not there.

    They share what the headers of one model may hold.
    """
    allowance = Allowance()
    found = {path: _read_or_weigh(host, path, allowance) for path in dict.fromkeys(paths)}
    return tuple(found[path] for path in paths)


def _read_or_weigh(host: Host, path: str, allowance: Allowance) -> Projector:
    try:
        return read_projector(host, path, allowance)
    except UnreadableInput:
        return Projector(file_bytes(host, path), 1, UNKNOWN_GRAPH_BYTES)


def graph_of(metadata: Mapping[str, Value], prefix: str = _ARCHITECTURE) -> tuple[int, int]:
    """Bytes of the graph of an encoder whose keys begin so: low and high.

    Low is the picture that is reserved for, with flash attention. High is every head's scores (without it) for a
    picture of the size that the file says, or the largest picture.
    """
    ranges = [_graph(metadata, prefix, *encoder) for encoder in _encoders(metadata, prefix)]
    if not ranges:
        return UNKNOWN_GRAPH_BYTES
    return max(low for low, _ in ranges), max(high for _, high in ranges)


def _encoders(metadata: Mapping[str, Value], prefix: str) -> list[tuple[str, tuple[int, int, int]]]:
    """Each encoder of the file that says how it is built, with the patches of one picture or sound.

    They are those of the file's own size, those that are reserved for, and the most.
    """
    found = []
    side, patch = (_number(metadata, f"{prefix}.vision.{name}") for name in ("image_size", "patch_size"))
    if patch and side >= patch and _number(metadata, f"{prefix}.vision.embedding_length"):
        own = min((side // patch) ** 2, _MOST_TOKENS)
        merges = _number(metadata, f"{prefix}.{_MERGES}") or "qwen" in str(metadata.get("clip.projector_type", prefix))
        found.append(
            ("vision", (own, _RESERVED_PATCHES, _MOST_PATCHES) if merges else (own, own, own * _LARGER_PICTURES))
        )
    if _number(metadata, f"{prefix}.audio.embedding_length"):
        found.append(("audio", (_SOUND_TOKENS,) * 3))
    return found


def _graph(metadata: Mapping[str, Value], prefix: str, kind: str, patches: tuple[int, int, int]) -> tuple[int, int]:
    names = ("embedding_length", "feed_forward_length", "attention.head_count")
    width, inner, heads = (_number(metadata, f"{prefix}.{kind}.{name}") for name in names)
    own, reserved, most = patches
    low, high = (_FLOAT_BYTES * max(vectors * width, _BESIDE * width + inner) for vectors in _VECTORS)
    return low * reserved, max(high * own + _FLOAT_BYTES * heads * own**2, high * most)


def _number(metadata: Mapping[str, Value], key: str) -> int:
    """A size as the file gives it, 0 where it gives none that can be."""
    value = metadata.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 < value <= 1 << 20 else 0


def with_projectors(model: ModelSpec, projectors: Sequence[Projector]) -> ModelSpec:
    """The model with the weights and the graph of what is loaded beside it; encoders run one after the other."""
    extra = sum(projector.stored_bytes for projector in projectors)
    if not extra:
        return model
    count = sum(projector.tensors for projector in projectors)
    low, high = (max(projector.graph_bytes[end] for projector in projectors) for end in range(2))
    return replace(
        model,
        tensors=(*model.tensors, TensorGroup("encoder", "F16", count, extra // 2, extra, 0)),
        weights_bytes=model.weights_bytes + extra,
        file_bytes=model.file_bytes + extra,
        encoder_weights_bytes=model.encoder_weights_bytes + extra,
        encoder_graph_bytes=(low, high),
    )
