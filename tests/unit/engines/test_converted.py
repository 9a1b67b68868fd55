"""A checkpoint as the GGUF file that it would become."""

from __future__ import annotations

from dataclasses import replace

import pytest

from llmops.core.errors import Unsupported
from llmops.engines.converted import as_converted, require_converted
from tests.unit.core.example_models import eight_billion_16_bit

GGUF = eight_billion_16_bit()
CHECKPOINT = replace(GGUF, reference="/models/qwen3", format="safetensors", quantization="bf16")


def test_a_gguf_file_stays_as_it_is() -> None:
    assert as_converted(GGUF) == (GGUF, ())
    require_converted("llama-server", GGUF)
    require_converted("llama-server", None)


def test_16_bits_stay_16_bits() -> None:
    converted, said = as_converted(CHECKPOINT)
    assert (converted.weights_bytes, converted.active_weights_bytes) == (GGUF.weights_bytes, GGUF.active_weights_bytes)
    assert [group.stored_bytes for group in converted.tensors] == [group.stored_bytes for group in GGUF.tensors]
    assert "in 16 bits" in said[0]


def test_8_bits_are_unpacked_to_16() -> None:
    half = tuple(
        replace(group, storage_type="F8_E4M3", stored_bytes=group.elements, matrix_bytes=group.elements)
        for group in GGUF.tensors
    )
    quantised = replace(CHECKPOINT, tensors=half, weights_bytes=GGUF.parameters, quantization_method="fp8")
    converted, _ = as_converted(quantised)
    assert converted.weights_bytes == GGUF.weights_bytes
    assert sum(group.stored_bytes for group in converted.tensors) == GGUF.weights_bytes


def test_mxfp4_is_kept() -> None:
    quantised = replace(CHECKPOINT, weights_bytes=GGUF.parameters // 2, quantization_method="mxfp4")
    converted, said = as_converted(quantised)
    assert converted == quantised
    assert "kept" in said[0]


def test_it_cannot_be_loaded_before_it_is_converted() -> None:
    with pytest.raises(Unsupported, match=r"needs a \.gguf file") as refusal:
        require_converted("llama-server", CHECKPOINT)
    assert refusal.value.hint is not None
    assert "convert_hf_to_gguf.py /models/qwen3" in refusal.value.hint


@pytest.mark.parametrize(
    ("architecture", "name", "window_tokens"),
    [("phi3", "phi3", None), ("mistral", "llama", None), ("gpt_oss", "gpt-oss", 128), ("helium", "helium", None)],
)
def test_only_families_with_windows_in_llama_cpp_keep_them(
    architecture: str, name: str, window_tokens: int | None
) -> None:
    layers = tuple(replace(layer, window_tokens=128) for layer in GGUF.attention_layers)
    converted, _ = as_converted(replace(CHECKPOINT, architecture=architecture, attention_layers=layers))
    assert converted.architecture == name
    assert {layer.window_tokens for layer in converted.attention_layers} == {window_tokens}
