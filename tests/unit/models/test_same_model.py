"""One model in two forms, a GGUF file and a Hugging Face directory, is the same model to everything that plans."""

from __future__ import annotations

from pathlib import Path

import pytest

from llmops.core.model import ModelSpec
from llmops.models import read_model
from tests.truth.hf_configs import CONFIGS, SAME_MODEL
from tests.truth.shapes.published import PUBLISHED
from tests.unit.models.hub import HubDisk

HOST = HubDisk().as_host()


def both(name: str, directory: str, place: Path) -> tuple[ModelSpec, ModelSpec]:
    gguf = PUBLISHED[name]().write(place / "model.gguf")
    return read_model(HOST, str(gguf)), read_model(HOST, str(CONFIGS / directory))


@pytest.mark.parametrize("name", SAME_MODEL)
def test_caches_and_sizes(name: str, tmp_path: Path) -> None:
    gguf, checkpoint = both(name, SAME_MODEL[name], tmp_path)
    assert checkpoint.cache_bytes_per_token == gguf.cache_bytes_per_token > 0
    assert checkpoint.attention_layers == gguf.attention_layers
    assert checkpoint.state_layers == gguf.state_layers
    for field in ("layers", "embedding_length", "attention_heads", "experts", "experts_used", "tied_output"):
        assert getattr(checkpoint, field) == getattr(gguf, field), field


@pytest.mark.parametrize("name", SAME_MODEL)
def test_parameters(name: str, tmp_path: Path) -> None:
    """Of the main model only: encoders lie in a file of their own beside a GGUF file."""
    gguf, checkpoint = both(name, SAME_MODEL[name], tmp_path)
    assert main_parameters(checkpoint) == pytest.approx(main_parameters(gguf), rel=0.02)
    assert checkpoint.active_parameters == pytest.approx(gguf.active_parameters, rel=0.04)


def main_parameters(model: ModelSpec) -> int:
    return sum(group.elements for group in model.tensors if group.role in {"input", "repeating", "output"})


def test_the_window_of_phi_3_is_used_by_vllm_only(tmp_path: Path) -> None:
    gguf, checkpoint = both("phi-3-mini-4k", "phi-3-mini", tmp_path)
    assert {layer.window_tokens for layer in checkpoint.attention_layers} == {2047}
    assert {layer.window_tokens for layer in gguf.attention_layers} == {None}
    assert [layer.cache_bytes_per_token() for layer in checkpoint.attention_layers] == [
        layer.cache_bytes_per_token() for layer in gguf.attention_layers
    ]
