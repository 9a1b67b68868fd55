"""Weights counted from a config.json against what models are published with and what vLLM says it loaded."""

from __future__ import annotations

from typing import Any

import pytest

from llmops.models.hf_config import ConfigFacts
from llmops.models.hf_estimate import Estimate, estimated_weights
from llmops.models.hf_parameters import parameters_of
from llmops.models.hf_quantization import quantization_of
from tests.truth.hf_configs import names, values_of

GIB = 2**30

# Parameters of the classes of transformers 5.19, made without memory (device "meta") from the same config.json, and
# counted one by one; DeepSeek-V3 and GLM-4.5 with their routers' corrections, which are buffers there. Mistral Small
# has an output matrix of its own (24.01 thousand million in its model card).
COUNTED = {
    "bitnet-2b": 2_412_820_480,
    "command-r-35b": 34_980_831_232,
    "deepseek-v2-lite": 15_706_484_224,
    "deepseek-v2.5": 235_741_434_880,
    "deepseek-v3_r1": 671_026_404_352 + 58 * 256,
    "gemma-2-2b": 2_614_341_888,
    "gemma-3-12b": 12_187_325_040,
    "gemma-3-1b": 999_885_952,
    "gemma-3-27b": 27_432_406_640,
    "gemma-4-12b": 11_907_350_272,
    "gemma-4-26b-a4b": 25_805_933_872,
    "gemma-4-31b": 31_273_086_512,
    "gemma-4-e2b": 5_104_297_504,
    "gemma-4-e4b": 7_941_100_832,
    "glm-4.5-air": 106_852_245_504 + 45 * 128,
    "glm-z1-32b": 32_566_081_536,
    "gpt-oss-120b": 116_829_156_672,
    "gpt-oss-20b": 20_914_757_184,
    "laguna": 117_334_600_448,
    "llama-2-13b": 13_015_864_320,
    "llama-3.1-70b": 70_553_706_496,
    "llama-3.1-8b": 8_030_261_248,
    "llama-3.2-1b": 1_235_814_400,
    "llama-3.2-3b": 3_212_749_824,
    "mistral-7b": 7_241_732_096,
    "mistral-small-24b": 24_011_361_280,
    "mistral-small-4-119b": 119_401_298_944,
    "mixtral-8x7b": 46_702_792_704,
    "olmoe-1b-7b": 6_919_161_856,
    "opt-1.3b": 1_315_758_080,
    "opt-125m": 125_239_296,
    "phi-3-mini": 3_821_079_552,
    "phi-4": 14_659_507_200,
    "qwen2.5-1.5b": 1_543_714_304,
    "qwen2.5-14b": 14_770_033_664,
    "qwen2.5-3b": 3_085_938_688,
    "qwen2.5-7b": 7_615_616_512,
    "qwen3-0.6b": 596_049_920,
    "qwen3-1.7b": 1_720_574_976,
    "qwen3-14b": 14_768_307_200,
    "qwen3-235b-a22b": 235_093_634_560,
    "qwen3-30b-a3b": 30_532_122_624,
    "qwen3-32b": 32_762_123_264,
    "qwen3-4b": 4_022_468_096,
    "qwen3-8b": 8_190_735_360,
    "qwen3-coder-next": 79_674_391_296,
    "qwen3-vl-8b": 8_767_123_696,
    "qwen3.5-0.8b": 852_985_920,
    "qwen3.5-2b": 2_213_241_664,
    "qwen3.5-4b": 4_539_265_536,
    "qwen3.5-9b": 9_409_813_744,
    "qwen3.5_3.6-35b-a3b": 35_107_181_936,
    "qwen3.5_3.6_3.8-27b": 27_356_728_560,
    "smollm2-1.7b": 1_711_376_384,
    "tinyllama-1.1b": 1_100_048_384,
}
# Thousand millions in the names and cards of models, total and active.
PUBLISHED = {
    "glm-5": (744, 40),
    "kimi-k2.5": (1027, 32),
    "kimi-k3": (2780, 104),
    "llama-3.1-405b": (406, 405),
    "mimo-7b": (7.6, 7.6),
    "mimo-v2-flash": (309, 15),
    "minimax-m2.5": (229, 10),
    "mixtral-8x22b": (141, 39),
    "nemotron-3-nano-30b": (31.6, 3.6),
    "nemotron-3-super-120b-fp8": (120.6, 12.7),
    "nemotron-3-ultra-550b": (550, 55),
    "qwen3-coder-480b": (480, 35),
    "qwen3-vl-235b-a22b": (236, 22),
    "qwen3.5-397b-a17b": (397, 17),
    "deepseek-v3_r1": (671, 37),
    "glm-4.5-air": (106, 12),
    "gpt-oss-120b": (117, 5.1),
    "gpt-oss-20b": (21, 3.6),
    "ling-3.0-tiny": (7.9, 1.3),
    "mixtral-8x7b": (46.7, 12.9),
    "nemotron-ultra-253b": (253, 253),
    "qwen3-235b-a22b": (235, 22),
    "qwen3-30b-a3b": (30.5, 3.3),
}

FLOAT8 = {
    "quant_method": "compressed-tensors",
    "config_groups": {
        "group_0": {"targets": ["Linear"], "weights": {"num_bits": 8, "type": "float", "strategy": "channel"}}
    },
    "ignore": ["lm_head"],
}
MXFP4 = {
    "quant_method": "mxfp4",
    "modules_to_not_convert": ["model.layers.*.self_attn", "model.layers.*.mlp.router", "lm_head"],
}


def facts(name: str, **more: Any) -> ConfigFacts:
    return ConfigFacts(f"/models/{name}/config.json", {**values_of(name), **more})


def estimate(name: str, quantization: dict[str, Any] | None) -> Estimate:
    found = facts(name, **({"quantization_config": quantization} if quantization else {}))
    return estimated_weights(found, quantization_of(found))


@pytest.mark.parametrize("name", COUNTED)
def test_every_parameter_is_counted(name: str) -> None:
    assert parameters_of(facts(name)).total == COUNTED[name]


def test_every_config_of_the_figures_is_counted() -> None:
    for name in names():
        assert parameters_of(facts(name)).total > 10**8
        assert estimate(name, None).weights.stored_bytes > 2 * 10**8


@pytest.mark.parametrize("name", PUBLISHED)
def test_totals_and_active_parameters_are_those_of_the_cards(name: str) -> None:
    found = parameters_of(facts(name))
    total, active = PUBLISHED[name]
    assert found.total / 1e9 == pytest.approx(total, rel=0.01)
    # The cards count one of the two vocabulary matrices, or both, or none.
    vocabulary = found.of("embedding") + found.of("output")
    assert (found.active - vocabulary) / 1e9 * 0.98 <= active <= found.active / 1e9 * 1.01


def test_lists_of_what_stays_in_16_bits_name_layers_and_experts_exactly() -> None:
    """NVFP4: experts alone in one model, without three layers of another; a block of 16 has a scale of one byte."""
    gemma = facts("gemma-4-26b-a4b-nvfp4")
    found, parameters = estimated_weights(gemma, quantization_of(gemma)).weights, parameters_of(gemma)
    packed = parameters.of("experts")
    assert found.stored_bytes == 2 * (parameters.total - packed) + packed * 9 // 16
    glm = facts("glm-5.1-nvfp4")
    rows = [row for row in parameters_of(glm).weights if row.role == "experts" and (row.layer or 0) > 3]
    scheme = quantization_of(glm)
    assert scheme is not None
    assert all(scheme.scheme_of(row) is not None for row in rows)
    assert not any(scheme.scheme_of(row) for row in parameters_of(glm).weights if row.layer in {0, 1, 2})


def test_the_file_of_deepseek_v3_holds_its_draft_layer_too() -> None:
    found = parameters_of(facts("deepseek-v3_r1"))
    assert (found.total + found.draft) / 1e9 == pytest.approx(684.5, abs=0.1)  # 685B on the Hugging Face Hub


# "Model loading took" of vLLM for one card of so many, GiB; the rows of figures.yaml whose checkpoint is known.
LOADED = {
    "v19": ("qwen2.5-1.5b", None, 1, 2.89),
    "v20": ("qwen3-14b", None, 1, 27.52),
    "v24": ("opt-125m", None, 1, 0.2389),
    "v29": ("qwen2.5-14b", None, 1, 27.54),
    "v30": ("mistral-small-24b", None, 1, 44.76),
    "v33": ("llama-3.1-70b", FLOAT8, 2, 33.88),
    "v35": ("qwen3-0.6b", None, 1, 1.12),
    "v36": ("qwen3-32b", None, 1, 61.03),
    "v37": ("qwen3-32b", None, 2, 30.59),
    # Checkpoint sizes in the model card of gpt-oss.
    "gpt-oss-20b": ("gpt-oss-20b", MXFP4, 1, 12.8),
    "gpt-oss-120b": ("gpt-oss-120b", MXFP4, 1, 60.8),
}


@pytest.mark.parametrize("row", LOADED)
def test_weights_are_what_the_engine_says_it_loaded(row: str) -> None:
    name, quantization, cards, loaded = LOADED[row]
    found = estimate(name, quantization)
    bytes_each = (found.weights.stored_bytes - found.weights.draft_bytes) / cards
    assert bytes_each / GIB == pytest.approx(loaded, rel=0.025 if loaded < 1 else 0.01)
    assert found.low_bytes <= found.weights.stored_bytes <= found.high_bytes
