"""Which tensors the layers of a model have, alike layers together: what a computing graph is built from."""

from __future__ import annotations

from collections.abc import Iterable

from llmops.core.model import LayerShape
from llmops.models.gguf_file import Tensor

_SUFFIX = ".weight"


def layer_shapes(tensors: Iterable[Tensor], layers: int) -> tuple[LayerShape, ...]:
    """The distinct sets of weights of the first `layers` layers, in the order of their first layer.

    Old files hold one tensor for each expert; the first of them stands for all.
    """
    found: list[dict[str, tuple[int, ...]]] = [{} for _ in range(layers)]
    for tensor in tensors:
        parts = tensor.name.removesuffix(_SUFFIX).split(".")
        if parts[0] != "blk" or not tensor.name.endswith(_SUFFIX):
            continue
        if len(parts) < 3 or not parts[1].isdecimal() or int(parts[1]) >= layers:
            continue
        expert = len(parts) == 4 and parts[3].isdecimal()
        name = f"{parts[2]}_exps" if expert else ".".join(parts[2:])
        found[int(parts[1])].setdefault(name, tensor.dimensions)
    alike: dict[tuple[tuple[str, tuple[int, ...]], ...], list[int]] = {}
    for layer, weights in enumerate(found):
        alike.setdefault(tuple(sorted(weights.items())), []).append(layer)
    return tuple(LayerShape(tuple(numbers), weights) for weights, numbers in alike.items())
