"""A Hugging Face checkpoint as the GGUF file that it would become: what llama.cpp's engines are sized by."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from llmops.core.errors import Unsupported
from llmops.core.model import ModelSpec, TensorGroup
from llmops.models import read_model
from llmops.models.gguf_families import WINDOWED
from llmops.models.gguf_names import gguf_name

if TYPE_CHECKING:
    from llmops.host import Host

# convert_hf_to_gguf.py writes 16 bits unless it is told otherwise, also of checkpoints in 8 or 4 bits, which it
# unpacks; it keeps MXFP4 as it is.
_KEPT = frozenset({"mxfp4"})
_BYTES = 2


def read_converted(host: Host, reference: str, stores: Sequence[str] = ()) -> tuple[ModelSpec, tuple[str, ...]]:
    """What `read_model` reads, as converted, with the layers that llama.cpp builds its graph from."""
    model = read_model(host, reference, stores)
    if model.format == "gguf":
        return model, ()
    from llmops.models.hf_shapes import with_layer_shapes

    return as_converted(with_layer_shapes(host, model))


def as_converted(model: ModelSpec) -> tuple[ModelSpec, tuple[str, ...]]:
    """The model in 16 bits, and what is assumed; a GGUF model as it is."""
    if model.format == "gguf":
        return model, ()
    model = _in_its_words(model)
    if model.quantization_method in _KEPT:
        return model, (f"{model.reference} is sized as if converted to GGUF, its {model.quantization} weights kept",)
    # Packed values count as fewer elements, and scales as some more, than the matrices that they stand for.
    counted = sum(group.elements for group in model.tensors)
    share = model.parameters / counted if counted else 1.0
    tensors = tuple(_in_16_bits(group, share) for group in model.tensors)
    weights = model.parameters * _BYTES
    input_bytes = sum(group.stored_bytes for group in tensors if group.role == "input")
    active = model.active_parameters * _BYTES
    converted = replace(
        model,
        tensors=tensors,
        weights_bytes=weights,
        active_weights_bytes=active if model.tied_output else max(0, active - input_bytes),
        file_bytes=weights,
        quantization="F16",
    )
    said = f"{model.reference} is sized as if converted to GGUF in 16 bits; in 4 or 8 bits its file is smaller"
    return converted, (said,)


def _in_its_words(model: ModelSpec) -> ModelSpec:
    """The model as llama.cpp calls it, with the caches that it gives it.

    It keeps the windows of the families that it knows to have some; of every other family it keeps all tokens, whatever
    config.json says of windows: Phi-3, Mistral, Qwen2, ...
    """
    name = gguf_name(model.architecture, has_experts=model.experts > 0) or model.architecture
    model = replace(model, architecture=name)
    if name in WINDOWED or all(layer.window_tokens is None for layer in model.attention_layers):
        return model
    layers = tuple(replace(layer, window_tokens=None, is_chunked=False) for layer in model.attention_layers)
    return replace(model, attention_layers=layers)


def _in_16_bits(group: TensorGroup, share: float) -> TensorGroup:
    elements = round(group.elements * share)
    stored = elements * _BYTES
    matrix = stored if group.matrix_bytes else 0
    return replace(group, storage_type="F16", elements=elements, stored_bytes=stored, matrix_bytes=matrix)


def require_converted(engine: str, model: ModelSpec | None) -> None:
    """Raise Unsupported for a model that this engine cannot load as it is."""
    if model is not None and model.format != "gguf":
        raise Unsupported(
            f"{engine} needs a .gguf file, and {model.reference} is a Hugging Face checkpoint",
            hint=f"convert it: python convert_hf_to_gguf.py {model.reference} --outfile model.gguf (in llama.cpp),"
            " then give --model model.gguf",
        )
