"""A Hugging Face checkpoint as the GGUF file that it would become: what llama.cpp's engines are sized by."""

from __future__ import annotations

from dataclasses import replace

from llmops.core.errors import Unsupported
from llmops.core.model import ModelSpec, TensorGroup

# convert_hf_to_gguf.py writes 16 bits unless it is told otherwise, also of checkpoints in 8 or 4 bits, which it
# unpacks; it keeps MXFP4 as it is.
_KEPT = frozenset({"mxfp4"})
_BYTES = 2
# The model types whose windows llama.cpp keeps (load_hparams in src/models/*.cpp); of every other family it keeps all
# tokens, whatever config.json says of windows: Phi-3, Mistral, Qwen2, ...
_WINDOWED = frozenset(
    {
        "afmoe", "cohere2", "cohere2_moe", "exaone_moe", "gemma2", "gemma3_text", "gemma3n_text", "gemma4_text",
        "gpt_oss", "laguna", "llama4_text", "mellum", "mimo_v2_flash", "olmo3",
    }
)  # fmt: skip


def as_converted(model: ModelSpec) -> tuple[ModelSpec, tuple[str, ...]]:
    """The model in 16 bits, and what is assumed; a GGUF model as it is."""
    if model.format == "gguf":
        return model, ()
    model = _with_kept_windows(model)
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


def _with_kept_windows(model: ModelSpec) -> ModelSpec:
    """The model with the caches that llama.cpp gives it."""
    if model.architecture in _WINDOWED or all(layer.window_tokens is None for layer in model.attention_layers):
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
