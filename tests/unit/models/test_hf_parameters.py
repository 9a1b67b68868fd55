"""Parameters of every family against the classes of transformers 5.19 at their default sizes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmops.core.errors import LlmopsError, UnknownArchitecture, UnreadableInput
from llmops.models.hf_config import ConfigFacts
from llmops.models.hf_families import RULES
from llmops.models.hf_parameters import parameters_of
from llmops.models.hf_parameters_experts import experts, sparse_layers
from llmops.models.hf_traits import TRAITS
from llmops.models.hf_weights import Parameters

# Each family's keys that decide its size, and how many parameters torch counted in its class on the device "meta".
COUNTED: dict[str, dict[str, Any]] = json.loads(
    (Path(__file__).parents[2] / "truth" / "hf_counted.json").read_text(encoding="utf-8")
)
TEXT = {
    "model_type": "qwen2",
    "vocab_size": 152_064,
    "hidden_size": 3584,
    "intermediate_size": 18_944,
    "num_hidden_layers": 28,
    "num_attention_heads": 28,
    "num_key_value_heads": 4,
}
EYE = {"depth": 32, "num_heads": 16, "patch_size": 14, "spatial_merge_size": 2, "temporal_patch_size": 2}


def count(values: dict[str, Any]) -> Parameters:
    return parameters_of(ConfigFacts("/m/config.json", values))


@pytest.mark.parametrize("family", COUNTED)
def test_every_parameter_of_a_family_is_counted(family: str) -> None:
    found = count(COUNTED[family]["config"])
    corrections = sum(weight.parameters for weight in found.weights if weight.module.endswith("correction_bias"))
    # What balances the experts is a parameter of some classes and a buffer of others; files hold it in both cases.
    assert COUNTED[family]["counted"] in {found.total, found.total - corrections}
    assert corrections < found.total / 10_000


@pytest.mark.parametrize(
    ("kind", "eye", "expected"),
    [
        ("qwen2_5_vl", {"hidden_size": 1280, "intermediate_size": 3420, "out_hidden_size": 3584}, 8_292_166_656),
        ("qwen2_vl", {"embed_dim": 1280, "hidden_size": 3584, "mlp_ratio": 4}, 8_291_375_616),
    ],
)
def test_encoders_are_counted_with_the_model(kind: str, eye: dict[str, Any], expected: int) -> None:
    for name in (kind, f"{kind}_vision"):
        values = {"model_type": kind, "text_config": TEXT, "vision_config": {"model_type": name, **EYE, **eye}}
        found = count({**values, "tie_word_embeddings": False})
        assert found.total == expected
        assert 600_000_000 < found.of("encoder") < 700_000_000
        assert found.active < found.total - found.of("encoder") + 1


def test_the_word_of_the_whole_model_counts_for_its_output_matrix() -> None:
    values = {"model_type": "qwen2_vl", "text_config": {**TEXT, "tie_word_embeddings": True}}
    assert count({**values, "tie_word_embeddings": False}).of("output") == 152_064 * 3584
    assert count(values).of("output") == 0


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ({}, [True] * 6),
        ({"num_experts": 1}, [False] * 6),
        ({"first_k_dense_replace": 2}, [False, False, True, True, True, True]),
        ({"num_dense_layers": 1}, [False] + [True] * 5),
        ({"first_k_dense_replace": 1, "moe_layer_freq": 2}, [False, False, True, False, True, False]),
        ({"moe_layer_freq": [0, 1, 1, 0, 1, 1]}, [False, True, True, False, True, True]),
        ({"decoder_sparse_step": 2}, [False, True] * 3),
        ({"mlp_only_layers": [0, 4]}, [False, True, True, True, False, True]),
        ({"expert_layer_period": 3, "expert_layer_offset": 1}, [False, True, False] * 2),
        ({"interleave_moe_layer_step": 3}, [False, False, True] * 2),
        ({"moe_layers": [1, 2]}, [False, True, True, False, False, False]),
        ({"moe_layer_interval": 1, "moe_layer_start_index": 3}, [False] * 3 + [True] * 3),
        ({"moe_layers_enum": "2,3, 5"}, [False, False, True, True, False, True]),
        ({"moe_layers_enum": [4]}, [False] * 4 + [True, False]),
        ({"mlp_layer_types": ["dense", "sparse"] * 3}, [False, True] * 3),
    ],
)
def test_layers_with_experts_follow_the_keys_of_the_family(keys: dict[str, Any], expected: list[bool]) -> None:
    facts = ConfigFacts("/m", {"num_experts": 8, "num_experts_per_tok": 2, **keys})
    assert list(sparse_layers(facts, 6)) == expected


@pytest.mark.parametrize("listed", ["1,two", "1,-2", "99999", [1, "2"]])
def test_a_list_of_layers_in_one_text_holds_numbers(listed: object) -> None:
    with pytest.raises(UnreadableInput):
        sparse_layers(ConfigFacts("/m", {"num_experts": 8, "num_experts_per_tok": 2, "moe_layers_enum": listed}), 6)


LONGCAT = {
    "model_type": "longcat_flash", "vocab_size": 131_072, "hidden_size": 6144, "num_layers": 28,
    "num_attention_heads": 64, "ffn_hidden_size": 12_288, "q_lora_rank": 1536, "kv_lora_rank": 512,
    "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128, "moe_topk": 12, "n_routed_experts": 512,
    "zero_expert_num": 256, "expert_ffn_hidden_size": 2048,
}  # fmt: skip
STEP = {
    "model_type": "step3p5", "vocab_size": 128_896, "hidden_size": 4096, "num_hidden_layers": 45, "head_dim": 128,
    "num_attention_heads": 64, "num_attention_groups": 8, "intermediate_size": 11_264, "moe_num_experts": 288,
    "moe_top_k": 8, "moe_intermediate_size": 1280, "share_expert_dim": 1280, "sliding_window": 512,
    "moe_layers_enum": ",".join(str(layer) for layer in range(3, 45)),
    "layer_types": (["full_attention"] + ["sliding_attention"] * 3) * 12,
    "attention_other_setting": {"attention_type": "sliding_attention", "num_attention_heads": 96},
}  # fmt: skip


def test_halves_of_a_layer_share_one_set_of_experts() -> None:
    found = count(LONGCAT)
    assert found.total / 1e9 == pytest.approx(560, rel=0.005)  # LongCat-Flash-Chat's card
    assert found.of("experts") == 28 * 512 * 3 * 6144 * 2048


def test_layers_with_windows_may_have_more_heads_that_ask() -> None:
    found = count(STEP)
    assert found.total / 1e9 == pytest.approx(196, rel=0.01)  # Step-3.5-Flash's card
    queries = {row.layer: row.rows for row in found.weights if row.module.endswith("q_proj")}
    assert (queries[0], queries[1]) == (64 * 128, 96 * 128)
    override = {"model_type": "llama", **TEXT, "per_layer_config": {"2": {"num_attention_heads": 14}}}
    queries = {
        row.layer: row.rows for row in count({**override, "model_type": "llama"}).weights if "q_proj" in row.module
    }
    assert (queries[1], queries[2]) == (28 * 128, 14 * 128)


def test_experts_behind_a_shorter_vector() -> None:
    short = {"model_type": "nemotron_h", "vocab_size": 100, "hidden_size": 64, "num_attention_heads": 2, "head_dim": 32,
             "hybrid_override_pattern": "E", "num_hidden_layers": 1, "n_routed_experts": 4, "num_experts_per_tok": 2,
             "moe_intermediate_size": 48, "moe_latent_size": 16}  # fmt: skip
    found = count(short)
    assert found.of("experts") == 4 * 2 * 48 * 16
    assert found.of("feed_forward") == 2 * 16 * 64


@pytest.mark.parametrize(
    ("kind", "part", "expected"),
    [
        # MoonViT: 0.4 thousand million parameters and a projector, as the cards of Kimi-VL and Kimi K2.5 say.
        ({"model_type": "", "vt_hidden_size": 1152, "vt_num_hidden_layers": 27, "vt_intermediate_size": 4304,
          "patch_size": 14, "merge_kernel_size": [2, 2]}, "vision_config", 455_000_000),
        ({"model_type": "moonvit", "hidden_size": 1152, "num_hidden_layers": 27, "intermediate_size": 4304,
          "patch_size": 14}, "vision_config", 455_000_000),
        # Gemma 3n's card: 300 million for pictures; its conformer has 0.68 thousand million.
        ({"model_type": "gemma3n_vision", "architecture": "mobilenetv5_300m_enc", "hidden_size": 2048},
         "vision_config", 308_000_000),
        ({"model_type": "gemma3n_audio", "hidden_size": 1536, "conf_num_hidden_layers": 12, "conf_conv_kernel_size": 5,
          "conf_num_attention_heads": 8, "sscp_conv_channel_size": [128, 32]}, "audio_config", 690_000_000),
    ],
)  # fmt: skip
def test_encoders_under_names_of_their_own(kind: dict[str, Any], part: str, expected: int) -> None:
    found = count({"model_type": "kimi_vl", "text_config": TEXT, part: kind})
    assert found.of("encoder") == pytest.approx(expected, rel=0.03)


@pytest.mark.parametrize(
    "part", [{"model_type": "timm_wrapper"}, {"model_type": "gemma3n_vision", "hidden_size": 2048}]
)
def test_an_encoder_of_unknown_size_is_not_counted_as_nothing(part: dict[str, Any]) -> None:
    with pytest.raises(UnknownArchitecture, match="encoder"):
        count({"model_type": "llava", "text_config": TEXT, "vision_config": part})


def test_experts_may_be_listed_for_each_layer() -> None:
    assert experts(ConfigFacts("/m", {"num_experts": 64, "moe_topk": [8] * 32})) == (64, 8)


@pytest.mark.parametrize("used", [0, 9, None, "two"])
def test_a_token_uses_some_of_the_experts(used: object) -> None:
    with pytest.raises(UnreadableInput):
        experts(ConfigFacts("/m", {"num_experts": 8, "num_experts_per_tok": used}))


def test_weights_of_a_family_without_traits_are_not_guessed() -> None:
    assert set(TRAITS) <= set(RULES)
    values = {**TEXT, "model_type": "zamba2", "layers_block_type": ["mamba"] * 28}
    with pytest.raises(UnknownArchitecture, match="how many parameters"):
        count(values)


def test_layers_that_use_another_cache_have_no_keys_and_values() -> None:
    modules = {weight.module for weight in count(COUNTED["gemma3n_text"]["config"]).weights}
    assert "model.layers.19.self_attn.k_proj" in modules
    assert "model.layers.20.self_attn.k_proj" not in modules
    assert "model.layers.20.self_attn.q_proj" in modules


@given(st.data())
def test_any_value_gives_parameters_or_our_own_error(data: st.DataObject) -> None:
    values = dict(COUNTED[data.draw(st.sampled_from(sorted(COUNTED)))]["config"])
    for key in data.draw(st.lists(st.sampled_from(sorted(values)), min_size=1, max_size=2)):
        values[key] = data.draw(
            st.one_of(st.none(), st.booleans(), st.integers(-5, 2**33), st.text(max_size=5), st.lists(st.integers()))
        )
    try:
        found = count(values)
    except LlmopsError:
        return
    assert 0 < found.active <= found.total
    assert all(weight.parameters > 0 for weight in found.weights)
