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
        ({"mlp_layer_types": ["dense", "sparse"] * 3}, [False, True] * 3),
    ],
)
def test_layers_with_experts_follow_the_keys_of_the_family(keys: dict[str, Any], expected: list[bool]) -> None:
    facts = ConfigFacts("/m", {"num_experts": 8, "num_experts_per_tok": 2, **keys})
    assert list(sparse_layers(facts, 6)) == expected


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
