"""The reader on the real small model: what the file itself says, in numbers read with another program."""

from __future__ import annotations

from pathlib import Path

import pytest

from llmops.host.local import LocalHost
from llmops.models import read_model

pytestmark = pytest.mark.engines


def test_the_real_small_model(model_path: str) -> None:
    """Values of gemma-3-270m Q4_K_M: llama-server prints 235.16 MiB of weights and 268.10 M parameters for it."""
    spec = read_model(LocalHost(), model_path)
    if spec.architecture != "gemma3" or spec.layers != 18:
        pytest.skip(f"LLMOPS_TEST_MODEL is another model ({spec.architecture}, {spec.layers} layers)")
    assert (spec.quantization, spec.vocabulary_size, spec.context_tokens_trained) == ("Q4_K_M", 262_144, 32_768)
    assert (spec.embedding_length, spec.feed_forward_length, spec.attention_heads) == (640, 2048, 4)
    assert (spec.parameters, spec.weights_bytes) == (268_098_176, 246_587_904)
    assert round(spec.weights_bytes / 1024**2, 2) == 235.16
    assert spec.tied_output
    assert spec.active_weights_bytes == spec.weights_bytes
    assert spec.file_bytes == Path(model_path).stat().st_size
    full = [number for number, layer in enumerate(spec.attention_layers) if layer.window_tokens is None]
    assert full == [5, 11, 17]
    assert {layer.window_tokens for layer in spec.attention_layers} == {512, None}
    assert {(layer.kv_heads, layer.key_length, layer.value_length) for layer in spec.attention_layers} == {
        (1, 256, 256)
    }
    assert spec.cache_bytes_per_token == 3 * 2 * 256 * 2
