"""What the tensors of a model weigh: by role and storage type, all of them and those that one token reads."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import NamedTuple

from llmops.core.model import TensorGroup
from llmops.models.gguf_file import Tensor

EMBEDDING = "token_embd.weight"
OUTPUT = "output.weight"
_INPUT = ("token_embd", "position_embd", "token_types", "per_layer_token_embd")
_OUTPUT = ("output", "output_norm")
# An encoder of pictures or sound inside the model's own file, as Ollama's library has them.
_ENCODER = frozenset({"v", "mm", "a"})
# What no generated token is multiplied with.
_PASSIVE = frozenset({"draft", "encoder"})
_EXPERT_SUFFIXES = ("_exps", "_chexps")
_EXPERT_MATRICES = ("ffn_gate", "ffn_up", "ffn_down")


class Weights(NamedTuple):
    """Sizes of one model's tensors; active is what one decoded token reads."""

    groups: tuple[TensorGroup, ...]
    parameters: int
    active_parameters: int
    stored_bytes: int
    active_bytes: int
    tied_output: bool
    vocabulary_rows: int
    expert_feed_forward_length: int
    layer_weights: tuple[tuple[int, int], ...]


def weigh(tensors: Collection[Tensor], layers: int, experts: int, experts_used: int) -> Weights:
    """Sum tensors over all files of a model; `layers` are the layers of the main model, without draft layers.

    A token reads every repeating tensor (of the experts their used share) and the output matrix, which is the
    token embedding where there is no other; of the input embedding it reads one row, counted as nothing.
    """
    groups = _groups(tensors, layers)
    routed = [one for one in tensors if experts and is_expert(one.name) and role_of(one.name, layers) == "repeating"]
    idle_elements = sum(one.elements - one.elements * experts_used // experts for one in routed)
    idle_bytes = sum(one.stored_bytes - one.stored_bytes * experts_used // experts for one in routed)
    lengths = (one.dimensions[0] for one in routed if "ffn_down_exps" in one.name and len(one.dimensions) > 1)
    by_name = {one.name: one for one in tensors if one.name in (EMBEDDING, OUTPUT)}
    tied, embedding = OUTPUT not in by_name, by_name.get(EMBEDDING)
    read_bytes = sum(group.stored_bytes for group in groups if group.role in ("repeating", "output")) - idle_bytes
    parameters = sum(group.elements for group in groups)
    passive_elements = sum(group.elements for group in groups if group.role in _PASSIVE)
    return Weights(
        groups=groups,
        parameters=parameters,
        active_parameters=parameters - passive_elements - idle_elements,
        stored_bytes=sum(group.stored_bytes for group in groups),
        active_bytes=read_bytes + (embedding.stored_bytes if tied and embedding else 0),
        tied_output=tied,
        vocabulary_rows=embedding.dimensions[1] if embedding and len(embedding.dimensions) > 1 else 0,
        expert_feed_forward_length=max(lengths, default=0),
        layer_weights=layer_weights(tensors, layers),
    )


def _groups(tensors: Iterable[Tensor], layers: int) -> tuple[TensorGroup, ...]:
    """Number, elements, bytes and bytes in matrices of each role and storage type."""
    sums: dict[tuple[str, str], list[int]] = {}
    for tensor in tensors:
        matrix_bytes = tensor.stored_bytes if len(tensor.dimensions) > 1 else 0
        row = sums.setdefault((role_of(tensor.name, layers), tensor.storage_type), [0, 0, 0, 0])
        for column, amount in enumerate((1, tensor.elements, tensor.stored_bytes, matrix_bytes)):
            row[column] += amount
    return tuple(TensorGroup(*key, *row) for key, row in sorted(sums.items()))


def layer_weights(tensors: Iterable[Tensor], layers: int) -> tuple[tuple[int, int], ...]:
    """(bytes, those of them in routed experts) of each of the first `layers` layers."""
    found = [[0, 0] for _ in range(layers)]
    for tensor in tensors:
        if role_of(tensor.name, layers) == "repeating":
            row = found[int(tensor.name.split(".", 2)[1])]
            row[0] += tensor.stored_bytes
            row[1] += tensor.stored_bytes if is_expert(tensor.name) else 0
    return tuple((size, routed) for size, routed in found)


def role_of(name: str, layers: int) -> str:
    """`repeating`, `input`, `output`, `encoder`, `other`, or `draft` for layers after the last of the main model."""
    parts = name.split(".", 2)
    if parts[0] == "blk" and len(parts) == 3 and parts[1].isdecimal():
        return "repeating" if int(parts[1]) < layers else "draft"
    if parts[0] in _INPUT or parts[0].startswith("token_embd"):
        return "input"
    if parts[0] in _ENCODER and len(parts) > 1:
        return "encoder"
    return "output" if parts[0] in _OUTPUT else "other"


def is_expert(name: str) -> bool:
    """Whether a tensor belongs to routed experts: all of them stacked, or (in old files) one by its number."""
    parts = name.split(".")
    if len(parts) == 5:
        return parts[2] in _EXPERT_MATRICES and parts[3].isdecimal()
    return len(parts) > 2 and parts[2].endswith(_EXPERT_SUFFIXES)
