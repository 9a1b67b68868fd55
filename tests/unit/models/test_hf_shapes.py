"""The layers that the file of a converted checkpoint would have."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from llmops.models import read_model
from llmops.models.hf_shapes import with_layer_shapes
from tests.truth.hf_configs import CONFIGS, SAME_MODEL
from tests.truth.shapes.published import PUBLISHED
from tests.unit.models.hub import HubDisk

HOST = HubDisk().as_host()
SIZES = {
    "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 100,
    "intermediate_size": 128, "max_position_embeddings": 512,
}  # fmt: skip


def shapes_of(place: Path, **values: Any) -> dict[str, tuple[int, ...]]:
    """The tensors of the first layer of a small model."""
    (place / "config.json").write_text(json.dumps({**SIZES, **values}))
    return dict(with_layer_shapes(HOST, read_model(HOST, str(place))).layer_shapes[0].tensors)


@pytest.mark.parametrize("name", SAME_MODEL)
def test_matrices_have_the_sizes_of_the_file(name: str, tmp_path: Path) -> None:
    file = read_model(HOST, str(PUBLISHED[name]().write(tmp_path / "model.gguf")))
    checkpoint = with_layer_shapes(HOST, read_model(HOST, str(CONFIGS / SAME_MODEL[name])))
    ours, theirs = (
        {layer: dict(shape.tensors) for shape in model.layer_shapes for layer in shape.layers}
        for model in (checkpoint, file)
    )
    assert ours.keys() == theirs.keys()
    for layer, tensors in ours.items():
        for tensor, sizes in tensors.items():
            if tensor in theirs[layer] and len(sizes) > 1 and sizes[0]:
                assert sizes == theirs[layer][tensor], (layer, tensor)


def test_the_channels_of_a_convolution(tmp_path: Path) -> None:
    inner, groups, states, heads = 128, 1, 16, 8
    sizes = {"mamba_d_ssm": inner, "mamba_n_heads": heads, "mamba_d_head": 16, "mamba_n_groups": groups}
    tensors = shapes_of(tmp_path, model_type="falcon_h1", mamba_d_state=states, mamba_d_conv=4, **sizes)
    assert tensors["ssm_conv1d"][1] == inner + 2 * groups * states
    assert tensors["ssm_in"] == (64, 2 * inner + 2 * groups * states + heads)
    assert tensors["ssm_out"] == (inner, 64)


def test_a_short_convolution(tmp_path: Path) -> None:
    tensors = shapes_of(tmp_path, model_type="lfm2", layer_types=["conv", "full_attention"], conv_L_cache=3)
    assert tensors["shortconv.in_proj"] == (64, 192)
    assert tensors["shortconv.out_proj"] == (64, 64)
    assert "attn_q" not in tensors


def test_attention_and_feed_forward_part_of_one_norm_stand_side_by_side(tmp_path: Path) -> None:
    assert "ffn_norm" not in shapes_of(tmp_path, model_type="cohere")
    assert "ffn_norm" in shapes_of(tmp_path, model_type="llama")


def test_a_file_keeps_its_own(tmp_path: Path) -> None:
    file = read_model(HOST, str(PUBLISHED["qwen3-8b"]().write(tmp_path / "model.gguf")))
    assert with_layer_shapes(HOST, file) is file
