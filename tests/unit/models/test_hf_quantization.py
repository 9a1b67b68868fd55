"""How quantised checkpoints store their matrices: one case for each format, and configurations not to be believed."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmops.core.errors import LlmopsError, UnreadableInput
from llmops.models.hf_config import ConfigFacts
from llmops.models.hf_estimate import Estimate, estimated_weights
from llmops.models.hf_patterns import patterns
from llmops.models.hf_quantization import quantization_of
from llmops.models.hf_scheme import Quantization
from llmops.models.hf_weights import Weight

LLAMA: dict[str, Any] = {
    "model_type": "llama",
    "num_hidden_layers": 2,
    "hidden_size": 512,
    "intermediate_size": 1024,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "vocab_size": 1000,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
}
DOWN = Weight("model.layers.1.mlp.down_proj", "feed_forward", 512, 1024, layer=1)
QUERY = Weight("model.layers.0.self_attn.q_proj", "attention", 512, 512, layer=0)
EXPERT = Weight("model.layers.0.mlp.experts.*.up_proj", "experts", 256, 512, 8, 2, 0)
ROUTER = Weight("model.layers.0.mlp.gate", "router", 8, 512, layer=0)
HEAD = Weight("lm_head", "output", 1000, 512)
TABLE = Weight("model.embed_tokens", "embedding", 1000, 512)
NORM = Weight("model.layers.0.norms", "norm", 512, layer=0)


def read(**configuration: Any) -> Quantization:
    found = quantization_of(ConfigFacts("/m/config.json", {**LLAMA, "quantization_config": configuration}))
    assert found is not None
    return found


def stored(found: Quantization, weight: Weight) -> int | None:
    scheme = found.scheme_of(weight)
    return scheme.stored_bytes(weight) if scheme else None


def group(**weights: Any) -> dict[str, Any]:
    return {"config_groups": {"group_0": {"targets": ["Linear"], "weights": weights}}, "ignore": ["lm_head"]}


ELEMENTS = 512 * 1024


@pytest.mark.parametrize(
    ("configuration", "expected"),
    [
        ({"quant_method": "fp8"}, ELEMENTS + 4),
        ({"quant_method": "fp8", "weight_block_size": [128, 128]}, ELEMENTS + 4 * 8 * 4),
        ({"quant_method": "fbgemm_fp8"}, ELEMENTS + 512 * 4),
        # A group of 128: 8 in each row, each with a 16-bit scale and a 4-bit zero point.
        ({"quant_method": "awq", "bits": 4, "group_size": 128}, ELEMENTS // 2 + 512 * 8 * 5 // 2),
        ({"quant_method": "awq", "w_bit": 4, "q_group_size": 64}, ELEMENTS // 2 + 512 * 16 * 5 // 2),
        ({"quant_method": "gptq", "bits": 8, "group_size": -1}, ELEMENTS + 512 * 3),
        ({"quant_method": "gptq", "bits": 3, "group_size": 128}, ELEMENTS * 3 // 8 + int(512 * 8 * 2.375)),
        ({"quant_method": "auto-round", "bits": 2, "group_size": 32}, ELEMENTS // 4 + int(512 * 32 * 2.25)),
        ({"quant_method": "bitsandbytes", "load_in_4bit": True}, ELEMENTS // 2 + 512 * 16 * 4),
        (
            {"quant_method": "bitsandbytes", "load_in_4bit": True, "bnb_4bit_use_double_quant": True},
            ELEMENTS // 2 + 512 * 16 + 512 * 16 // 64,
        ),
        ({"quant_method": "bitsandbytes", "load_in_8bit": True}, ELEMENTS + 512 * 4),
        ({"load_in_4bit": True}, ELEMENTS // 2 + 512 * 16 * 4),
        ({"quant_method": "gptq_marlin", "bits": 4, "group_size": 128}, ELEMENTS // 2 + 512 * 8 * 5 // 2),
        ({"quant_method": "modelopt_mxfp8", "quant_algo": "MXFP8"}, ELEMENTS + 512 * 32),
        ({"quant_method": "bitnet"}, ELEMENTS // 4 + 2),
        ({"quant_method": "modelopt", "quant_algo": "FP8"}, ELEMENTS + 4),
        ({"quant_method": "modelopt", "quant_algo": "NVFP4"}, ELEMENTS // 2 + 512 * 64),
        (
            {"quant_method": "compressed-tensors", **group(num_bits=8, type="float", strategy="channel")},
            ELEMENTS + 512 * 4,
        ),
        ({"quant_method": "compressed-tensors", **group(num_bits=8, type="float", strategy="tensor")}, ELEMENTS + 4),
        (
            {
                "quant_method": "compressed-tensors",
                **group(num_bits=8, type="float", strategy="block", block_structure=[128, 128]),
            },
            ELEMENTS + 4 * 8 * 4,
        ),
        (
            {"quant_method": "compressed-tensors", **group(num_bits=8, type="int", strategy="channel")},
            ELEMENTS + 512 * 4,
        ),
        (
            {"quant_method": "compressed-tensors", **group(num_bits=4, type="int", strategy="group", group_size=128)},
            ELEMENTS // 2 + 512 * 8 * 2,
        ),
        (
            {
                "quant_method": "compressed-tensors",
                **group(num_bits=4, type="int", strategy="group", group_size=128, symmetric=False),
            },
            ELEMENTS // 2 + 512 * 8 * 5 // 2,
        ),
        (
            {
                "quant_method": "compressed-tensors",
                **group(num_bits=4, type="float", strategy="tensor_group", group_size=16),
            },
            ELEMENTS // 2 + 512 * 64,
        ),
    ],
)
def test_a_matrix_takes_its_bits_and_its_scales(configuration: dict[str, Any], expected: int) -> None:
    found = read(**configuration)
    assert stored(found, DOWN) == expected
    assert [stored(found, weight) for weight in (ROUTER, TABLE, HEAD, NORM)] == [None] * 4


def test_only_the_experts_of_gpt_oss_are_quantised() -> None:
    found = read(quant_method="mxfp4", modules_to_not_convert=["model.layers.*.self_attn", "lm_head"])
    assert stored(found, EXPERT) == 256 * 512 // 2 + 256 * 16
    assert stored(found, QUERY) is None
    assert found.label == "mxfp4"


@pytest.mark.parametrize(
    "name",
    [
        "model.layers.1.mlp.down_proj",
        "model.layers.1.mlp",
        "model.layers.1",
        "model.language_model.layers.1.mlp.down_proj",
        "language_model.model.layers.1.mlp.down_proj",
        "down_proj",
        "re:.*mlp.*",
        "re:model\\.layers\\.1\\.mlp\\.(gate_proj|down_proj)$",
        "model.layers.1.*",
        "re:.*feed_forward\\.down_proj",
    ],
)
def test_modules_on_the_list_stay_as_they_were(name: str) -> None:
    for key in ("ignored_layers", "modules_to_not_convert"):
        found = read(**{"quant_method": "fp8", key: [name]})
        assert stored(found, DOWN) is None
        assert stored(found, QUERY) is not None


def test_a_class_of_attention_stands_for_its_modules() -> None:
    found = read(quant_method="compressed-tensors", **{**group(num_bits=8), "ignore": ["Llama4TextAttention"]})
    assert stored(found, QUERY) is None
    assert stored(found, DOWN) is not None
    assert stored(found, HEAD) is not None


def test_groups_of_modules_have_schemes_of_their_own() -> None:
    found = read(
        quant_method="compressed-tensors",
        config_groups={
            "a": {"targets": ["re:.*self_attn.*"], "weights": {"num_bits": 8, "type": "float", "strategy": "tensor"}},
            "b": {
                "targets": ["re:.*mlp.*"],
                "weights": {"num_bits": 4, "type": "int", "strategy": "group", "group_size": 128},
            },
        },
    )
    assert stored(found, QUERY) == 512 * 512 + 4
    assert stored(found, DOWN) == ELEMENTS // 2 + 512 * 8 * 2
    assert found.label == "compressed-tensors 4-bit"


def test_gptq_may_have_exceptions_and_a_quantised_output() -> None:
    dynamic = {"-:.*down_proj": {}, "+:.*q_proj": {"bits": 8}}
    found = read(quant_method="gptq", bits=4, group_size=128, dynamic=dynamic, lm_head=True)
    assert stored(found, DOWN) is None
    assert stored(found, QUERY) == 512 * 512 + 512 * 4 * 3
    assert stored(found, HEAD) is not None


def test_modelopt_may_mix_algorithms() -> None:
    layers = {DOWN.module: {"quant_algo": "NVFP4"}, QUERY.module: {"quant_algo": "FP8"}}
    found = read(quant_method="modelopt", quant_algo="MIXED_PRECISION", quantized_layers=layers)
    assert stored(found, DOWN) == ELEMENTS // 2 + 512 * 64
    assert stored(found, QUERY) == 512 * 512 + 4


def test_a_file_beside_config_json_says_it_for_modelopt() -> None:
    whole = ConfigFacts("/m/config.json", LLAMA)
    beside = {"quantization": {"quant_algo": "NVFP4", "kv_cache_quant_algo": "FP8", "exclude_modules": ["lm_head"]}}
    found = quantization_of(whole, ConfigFacts("/m/hf_quant_config.json", beside))
    assert found is not None
    assert (found.method, found.label, found.cache_data_type) == ("modelopt_fp4", "nvfp4", "fp8")
    assert quantization_of(whole) is None


@pytest.mark.parametrize(
    ("scheme", "expected"),
    [
        ({"num_bits": 8, "type": "float"}, "fp8"),
        ({"num_bits": 8, "type": "int"}, "int8"),
        ({"num_bits": 16}, None),
        (None, None),
    ],
)
def test_the_cache_type_is_the_one_of_the_checkpoint(scheme: dict[str, Any] | None, expected: str | None) -> None:
    found = read(quant_method="compressed-tensors", kv_cache_scheme=scheme, **group(num_bits=8, type="float"))
    assert found.cache_data_type == expected


def test_tensors_of_packed_integers_are_told_how_many_weights_they_hold() -> None:
    awq = read(quant_method="awq", bits=4, group_size=128)
    assert awq.packed_bits("model.layers.0.mlp.down_proj.qweight") == 4
    assert read(quant_method="fp8").packed_bits("model.layers.0.mlp.down_proj.weight") is None
    assert read(quant_method="quark").packed_bits("model.layers.0.mlp.down_proj.weight") is None


def test_an_unknown_method_is_named_but_not_computed() -> None:
    found = read(quant_method="quark")
    assert (found.method, found.is_known) == ("quark", False)
    with pytest.raises(UnreadableInput, match="quark"):
        estimate(quantization_config={"quant_method": "quark"})


def estimate(**more: Any) -> Estimate:
    facts = ConfigFacts("/m/config.json", {**LLAMA, **more})
    return estimated_weights(facts, quantization_of(facts))


PARAMETERS = 2 * 1000 * 512 + 2 * (512 * (512 + 256 + 512) + 3 * 512 * 1024 + 2 * 512) + 512


def test_weights_without_quantisation_take_the_bytes_of_their_type() -> None:
    found = estimate()
    assert found.weights.parameters == PARAMETERS
    assert found.weights.stored_bytes == found.low_bytes == found.high_bytes == 2 * PARAMETERS
    assert found.weights.active_bytes == 2 * (PARAMETERS - 1000 * 512 - 512)
    assert {group.storage_type for group in found.weights.groups} == {"BF16"}
    assert estimate(torch_dtype="float32").weights.stored_bytes == 4 * PARAMETERS
    assert any("bfloat16 is assumed" in note for note in estimate(torch_dtype=None).notes)


def test_a_shared_output_matrix_is_read_but_not_stored_twice() -> None:
    found = estimate(tie_word_embeddings=True)
    assert found.weights.tied_output
    assert found.weights.stored_bytes == 2 * (PARAMETERS - 1000 * 512)
    assert found.weights.active_bytes == 2 * (PARAMETERS - 1000 * 512 - 512)


def test_experts_count_whole_and_are_read_in_part() -> None:
    found = estimate(
        model_type="qwen3_moe", head_dim=64, num_experts=8, num_experts_per_tok=2, moe_intermediate_size=256
    )
    one = 3 * 256 * 512
    assert found.weights.parameters - found.weights.active_parameters == 2 * 6 * one


def test_draft_layers_lie_between_low_and_high() -> None:
    found = estimate(num_nextn_predict_layers=1)
    assert found.weights.draft_bytes > 0
    assert found.low_bytes == found.weights.stored_bytes - found.weights.draft_bytes
    assert any("guess next tokens" in note for note in found.notes)


def test_an_encoder_of_an_unknown_kind_is_estimated_and_named() -> None:
    vision = {"model_type": "novel_eye", "hidden_size": 64, "num_hidden_layers": 3, "intermediate_size": 128}
    found = estimate(vision_config=vision)
    assert found.high_bytes == found.weights.stored_bytes + found.weights.encoder_bytes // 4
    assert found.weights.encoder_bytes > 2 * 3 * (4 * 64 * 64 + 2 * 64 * 128)
    assert any("novel_eye" in note for note in found.notes)


@pytest.mark.parametrize(
    "configuration",
    [
        {"quant_method": "awq", "bits": 5},
        {"bits": 7, "group_size": 64},
        {"quant_method": "awq", "bits": 4, "group_size": 0},
        {"quant_method": "gptq", "bits": 4, "group_size": "wide"},
        {"quant_method": "gptq", "bits": 4, "group_size": []},
        {"quant_method": "gptq", "bits": 4, "dynamic": {str(number): {} for number in range(1000)}},
        {"quant_method": "compressed-tensors", "config_groups": {"a": 7}},
        {"quant_method": "compressed-tensors", **group(num_bits=4, strategy="group")},
        {"quant_method": "compressed-tensors", **group(num_bits=8, strategy="block", block_structure=[1])},
        {"quant_method": "fp8", "ignored_layers": ["x" * 10_000]},
        {"quant_method": "fp8", "ignored_layers": [f"a{number}*" for number in range(10_000)]},
        {"quant_method": "fp8", "weight_block_size": [0, 128]},
        {"quant_method": 7},
    ],
)
def test_what_cannot_be_is_refused(configuration: dict[str, Any]) -> None:
    with pytest.raises(UnreadableInput):
        read(**configuration)


def test_a_hostile_pattern_ends_at_once() -> None:
    facts = ConfigFacts("/m", {})
    found = patterns(facts, "ignore", ["re:(a+)+(a+)+(a+)+$b", "re:((((x|y)*)*)*)*z"])
    assert not found.match("a" * 200)
    assert not found.match("model.layers.0.mlp")


def test_a_pattern_of_anything_matches_everything() -> None:
    for pattern in ("re:.*", "*", "Linear"):
        assert patterns(ConfigFacts("/m", {}), "targets", [pattern]).match("model.layers.0.mlp")


VALUES = st.one_of(
    st.none(), st.booleans(), st.integers(-9, 300), st.text(max_size=12), st.lists(st.text(max_size=6), max_size=4),
    st.lists(st.integers(-1, 200), max_size=3),
    st.dictionaries(st.sampled_from(["targets", "weights", "num_bits", "quant_algo"]), st.integers(0, 9), max_size=2),
)  # fmt: skip
KEYS = (
    "bits", "group_size", "weight_block_size", "ignore", "ignored_layers", "modules_to_not_convert", "exclude_modules",
    "config_groups", "kv_cache_scheme", "quant_algo", "quantized_layers", "dynamic", "lm_head", "load_in_4bit",
)  # fmt: skip
METHODS = (
    "fp8", "fbgemm_fp8", "awq", "gptq", "auto-round", "bitsandbytes", "mxfp4", "bitnet", "modelopt",
    "compressed-tensors", "other",
)  # fmt: skip


@given(st.sampled_from(METHODS), st.dictionaries(st.sampled_from(KEYS), VALUES, max_size=5))
def test_any_configuration_gives_weights_or_our_own_error(method: str, keys: dict[str, Any]) -> None:
    try:
        found = estimate(quantization_config={"quant_method": method, **keys})
    except LlmopsError:
        return
    assert 0 < found.low_bytes <= found.weights.stored_bytes <= found.high_bytes
    assert found.weights.stored_bytes <= 5 * PARAMETERS


@pytest.mark.parametrize(
    ("pattern", "module", "expected"),
    [
        ("model.layers.1.*", "model.layers.1.mlp.up_proj", True),
        ("model.layers.1.*", "model.layers.10.mlp.up_proj", False),
        ("model.layers.0*", "model.layers.0.mlp.up_proj", True),
        ("model.layers.0*", "model.layers.10.mlp.up_proj", False),
        ("model.layers.*.self_attn", "language_model.model.layers.3.self_attn.q_proj", True),
        ("layers.*.mlp.gate", "model.layers.2.mlp.gate", True),
        ("layers.*.mlp.gate", "model.layers.2.mlp.gate_proj", False),
        ("*lm_head*", "lm_head", True),
        ("*gate", "model.layers.2.mlp.gate_proj.gate", True),
        ("mixer.*.in_proj*", "model.layers.0.mixer.conv.in_proj", True),
        (r"re:.*layers\.1\..*", "model.layers.1.mlp.up_proj", True),
        (r"re:.*layers\.1\..*", "model.layers.11.mlp.up_proj", False),
        (r"re:.*mlp\.(gate|up|down)_proj.*", "model.layers.3.mlp.up_proj", True),
        (r"re:.*mlp\.(gate|up|down)_proj.*", "model.layers.3.mlp.experts.*.up_proj", False),
        ("backbone.layers.1.mixer.experts.102.up_proj", "model.layers.1.mixer.experts.*.up_proj", True),
        ("model.layers.1.block_sparse_moe.experts.7.w2", "model.layers.1.mlp.experts.*.down_proj", True),
        ("model.layers.1.block_sparse_moe.experts.7.w2", "model.layers.1.mlp.experts.*.up_proj", False),
    ],
)
def test_a_pattern_names_what_the_exporter_meant(pattern: str, module: str, *, expected: bool) -> None:
    assert patterns(ConfigFacts("/m", {}), "ignore", [pattern]).match(module) is expected


def test_globs_of_every_layer_are_as_many_as_a_deep_model_has() -> None:
    listed = [f"model.layers.{layer}.{part}*" for layer in range(500) for part in ("self_attn", "mlp.shared_experts")]
    found = patterns(ConfigFacts("/m", {}), "ignore", listed)
    assert found.match("model.layers.499.self_attn.q_proj")
    assert not found.match("model.layers.499.mlp.experts.*.up_proj")


def test_one_scheme_for_each_module_reaches_experts_and_mixers_by_the_names_of_the_file() -> None:
    named = {
        "backbone.layers.0.mixer.in_proj": {"quant_algo": "FP8"},
        "backbone.layers.1.mixer.experts.0.up_proj": {"quant_algo": "W4A16_NVFP4", "group_size": 16},
    }
    found = read(quant_algo="MIXED_PRECISION", quantized_layers=named)
    assert stored(found, Weight("model.layers.0.mixer.in_proj", "state", 512, 1024, layer=0)) == ELEMENTS + 4
    expert = Weight("model.layers.1.mixer.experts.*.up_proj", "experts", 512, 1024, 8, 2, 1)
    assert stored(found, expert) == ELEMENTS // 2 + 512 * 64
    assert stored(found, Weight("model.layers.1.mixer.q_proj", "attention", 512, 1024, layer=1)) is None


@pytest.mark.parametrize("key", ["quantization", "quantization_config"])
def test_mlx_quantises_the_vocabulary_too(key: str) -> None:
    said = {"bits": 4, "group_size": 64, "model.layers.1.mlp.down_proj": {"bits": 8}}
    found = quantization_of(ConfigFacts("/m/config.json", {**LLAMA, key: said}))
    assert found is not None
    assert (found.method, found.label) == ("mlx", "mlx 4-bit")
    assert stored(found, DOWN) == ELEMENTS + 512 * 16 * 4
    assert stored(found, QUERY) == 512 * 512 // 2 + 512 * 8 * 4
    assert stored(found, HEAD) == stored(found, TABLE) == 1000 * 512 // 2 + 1000 * 8 * 4
    assert stored(found, ROUTER) is None
