"""How wide the encoder of a config.json is and what its largest picture becomes."""

from __future__ import annotations

from typing import Any

import pytest

from llmops.core.model import EncoderShape
from llmops.models.hf_config import ConfigFacts
from llmops.models.hf_encoder import encoder_shape

SIGLIP = {"hidden_size": 1_152, "intermediate_size": 4_304}


def shape(**keys: Any) -> EncoderShape | None:
    return encoder_shape(ConfigFacts("/m/config.json", keys))


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        (
            {"vision_config": {**SIGLIP, "patch_size": 16, "spatial_merge_size": 2}},
            EncoderShape(1_152, 4_304, 4, 16_384, patch_length=768),
        ),
        (
            {"vision_config": {"embed_dim": 1_280, "hidden_size": 3_584, "mlp_ratio": 4, "spatial_merge_size": 2}},
            EncoderShape(1_280, 5_120, 4, 16_384),
        ),
        (
            {
                "spatial_merge_size": 2,
                "vision_config": {
                    "hidden_size": 1_024,
                    "intermediate_size": 4_096,
                    "image_size": 1_540,
                    "patch_size": 14,
                },
            },
            EncoderShape(1_024, 4_096, 4, 3_025, patch_length=588),
        ),
        (
            {"mm_tokens_per_image": 256, "vision_config": {**SIGLIP, "image_size": 896, "patch_size": 14}},
            EncoderShape(1_152, 4_304, 16, 256, 256, patch_length=588),
        ),
        (
            {
                "text_config": {"use_bidirectional_attention": "vision"},
                "vision_config": {**SIGLIP, "default_output_length": 280, "pooling_kernel_size": 3},
            },
            EncoderShape(1_152, 4_304, 9, 2_496, 2_496),
        ),
        (
            {
                "text_config": {"use_bidirectional_attention": None},
                "vision_config": {**SIGLIP, "default_output_length": 280, "pooling_kernel_size": 3},
            },
            EncoderShape(1_152, 4_304, 9, 2_496),
        ),
        (
            {"vision_config": {"hidden_size": 1_024, "image_size": 336, "patch_size": 14}},
            EncoderShape(1_024, 4_096, 1, 2_880, patch_length=588),
        ),
        (
            {
                "model_type": "qwen3_vl",
                "vision_config": {
                    **SIGLIP,
                    "patch_size": 16,
                    "spatial_merge_size": 2,
                    "temporal_patch_size": 2,
                    "deepstack_visual_indexes": [8, 16, 24],
                },
            },
            EncoderShape(1_152, 4_304, 4, 16_384, kind="qwen3_vl", patch_length=1_536, outputs=4),
        ),
        (
            {
                "max_dynamic_patch": 12,
                "downsample_ratio": 0.5,
                "vision_config": {"model_type": "intern_vit_6b", **SIGLIP, "image_size": 448, "patch_size": 14},
            },
            EncoderShape(1_152, 4_304, 4, 3_328, kind="intern_vit_6b", patch_length=588),
        ),
        (
            {
                "vision_config": {
                    "model_type": "llama4_vision_model",
                    **SIGLIP,
                    "image_size": 336,
                    "patch_size": 14,
                    "pixel_shuffle_ratio": 0.5,
                }
            },
            EncoderShape(1_152, 4_304, 4, 2_448, kind="llama4_vision_model", patch_length=588),
        ),
        (
            {"vision_config": {"vt_hidden_size": 1_152, "vt_intermediate_size": 4_304, "spatial_merge_size": 2}},
            EncoderShape(1_152, 4_304, 4, 16_384),
        ),
        (
            {
                "downsample_ratio": 0.5,
                "vision_config": {
                    "model_type": "internvl_vision",
                    **SIGLIP,
                    "image_size": [448, 448],
                    "patch_size": [14],
                },
            },
            EncoderShape(1_152, 4_304, 4, 1_280, kind="internvl_vision", patch_length=588),
        ),
        (
            {"scale_factor": 3, "vision_config": {**SIGLIP, "image_size": 378, "patch_size": 14}},
            EncoderShape(1_152, 4_304, 9, 1_377, patch_length=588),
        ),
        (
            {"downsample_factor": 2, "vision_config": {**SIGLIP, "num_patches": 256, "patch_size": 16}},
            EncoderShape(1_152, 4_304, 4, 320, patch_length=768),
        ),
        (
            {
                "downsample_factor": 2,
                "alignment_intermediate_size": 36_864,
                "vision_config": {**SIGLIP, "image_size": 512, "patch_size": 16},
            },
            EncoderShape(1_152, 9_216, 4, 1_280, patch_length=768),
        ),
        (
            {
                "vision_config": {
                    "model_type": "gemma3n_vision",
                    "architecture": "mobilenetv5_300m_enc",
                    "hidden_size": 2_048,
                }
            },
            EncoderShape(768, 768, 144, 256, kind="gemma3n_vision"),
        ),
        (
            {"downsample_mode": "16x", "vision_config": {**SIGLIP, "image_size": 448, "patch_size": 14}},
            EncoderShape(1_152, 4_304, 16, 320, patch_length=588),
        ),
        (
            {"query_num": 64, "image_size": 448, "vision_config": {**SIGLIP, "image_size": 980, "patch_size": 14}},
            EncoderShape(1_152, 4_304, 16, 320, patch_length=588),
        ),
        (
            {
                "vision_config": {
                    "model_type": "glm4v_moe_vision",
                    "hidden_size": 1_536,
                    "intermediate_size": 10_944,
                    "out_hidden_size": 4_096,
                    "image_size": 336,
                    "patch_size": 14,
                    "spatial_merge_size": 2,
                    "temporal_patch_size": 2,
                }
            },
            EncoderShape(1_536, 4_096, 4, 144, kind="glm4v_moe_vision", patch_length=1_176),
        ),
        (
            {
                "audio_config": {
                    "model_type": "voxtral_encoder",
                    "hidden_size": 1_280,
                    "intermediate_size": 5_120,
                    "max_source_positions": 1_500,
                }
            },
            EncoderShape(1_280, 5_120, 4, 375, kind="voxtral_encoder"),
        ),
        (
            {
                "stack_factor": 8,
                "audio_config": {"d_model": 1_280, "encoder_ffn_dim": 5_120, "max_source_positions": 1_500},
            },
            EncoderShape(1_280, 5_120, 8, 188),
        ),
        (
            {"downsample_rate": 5, "encoder_config": {"hidden_dim": 1_024, "feedforward_mult": 4}},
            EncoderShape(1_024, 4_096, 5, 5_000),
        ),
    ],
)
def test_each_way_to_make_tokens_of_patches(keys: dict[str, Any], expected: EncoderShape) -> None:
    assert shape(**keys) == expected


@pytest.mark.parametrize(
    "keys",
    [
        {},
        {"vision_config": None},
        {"vision_config": {}},
        {"vision_config": {"hidden_size": 1_024}},
        {"audio_config": {"hidden_size": 1_024, "intermediate_size": 4_096}},
        {"vision_config": {"hidden_size": True, "image_size": 336, "patch_size": 14}},
        {"vision_config": {"hidden_size": 10**12, "image_size": [336, 336], "patch_size": "14"}},
        {"vision_config": {"hidden_size": 1_024, "image_size": 14, "patch_size": 336}},
    ],
)
def test_sizes_that_are_not_there_or_cannot_be_give_no_shape(keys: dict[str, Any]) -> None:
    assert shape(**keys) is None


@pytest.mark.parametrize(
    "keys",
    [
        {"downsample_mode": "9" * 5_000},
        {"downsample_mode": None},
        {"downsample_ratio": 1e-300},
        {"downsample_ratio": True},
        {"scale_factor": -2},
    ],
)
def test_a_word_for_joined_patches_that_cannot_be_joins_none(keys: dict[str, Any]) -> None:
    found = shape(**keys, vision_config={**SIGLIP, "image_size": 336, "patch_size": 14})
    assert found is not None and found.patches_per_token == 1


@pytest.mark.parametrize(
    ("processor", "tokens"),
    [
        ({"size": {"longest_edge": 1_003_520, "shortest_edge": 3_136}}, 980),
        ({"max_pixels": 1_003_520, "size": {"longest_edge": 7}}, 980),
        ({"size": {"height": 336}}, 16_384),
        ({"max_pixels": 12}, 16_384),
        ({"max_pixels": "many", "size": []}, 16_384),
    ],
)
def test_the_processor_says_how_large_pictures_may_be(processor: dict[str, Any], tokens: int) -> None:
    whole = ConfigFacts("/m/config.json", {"vision_config": {**SIGLIP, "patch_size": 16, "spatial_merge_size": 2}})
    found = encoder_shape(whole, ConfigFacts("/m/preprocessor_config.json", processor))
    assert found is not None and found.largest_tokens == tokens
