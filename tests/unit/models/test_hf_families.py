"""What the layers of a config.json keep: one case for each rule, and files that must not be believed."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmops.core.errors import LlmopsError, UnknownArchitecture, UnreadableInput
from llmops.models.hf_config import ConfigFacts
from llmops.models.hf_families import RULES, family_of, layers_of
from llmops.models.hf_layers import Layers
from tests.truth.hf_configs import CONFIG_VALUES, names, values_of

BASE: dict[str, Any] = {
    "num_hidden_layers": 8,
    "hidden_size": 512,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
}


def read(model_type: str, **keys: Any) -> Layers:
    return layers_of(ConfigFacts("/m/config.json", {"model_type": model_type, **BASE, **keys}))


def windows(model_type: str, **keys: Any) -> list[int | None]:
    return [layer.window_tokens for layer in read(model_type, **keys).attention_layers]


@pytest.mark.parametrize(
    ("model_type", "keys", "expected"),
    [
        ("llama", {}, [None] * 8),
        ("mistral", {"sliding_window": 64}, [64] * 8),
        ("mistral", {"sliding_window": None}, [None] * 8),
        ("mixtral", {"sliding_window": 0}, [None] * 8),
        ("phi3", {"sliding_window": 64}, [64] * 8),
        ("llama", {"sliding_window": 64, "layer_types": ["full_attention", "sliding_attention"] * 4}, [None, 64] * 4),
        ("qwen2", {"sliding_window": 64, "use_sliding_window": False, "max_window_layers": 4}, [None] * 8),
        ("qwen2", {"sliding_window": 64, "use_sliding_window": True, "max_window_layers": 6}, [None] * 6 + [64] * 2),
        ("qwen3", {"sliding_window": 64, "use_sliding_window": True}, [None] * 8),
        ("gemma2", {"sliding_window": 64}, [64, None] * 4),
        ("vaultgemma", {"sliding_window": 64}, [64, None] * 4),
        ("cwm", {"sliding_window": 64}, [None, 64, 64, 64] * 2),
        ("granite_swa", {"sliding_window": 64, "layer_types": ["sliding_attention"] * 8}, [64] * 8),
        ("mimo", {"sliding_window": 64, "use_sliding_window": False}, [None] * 8),
        ("step3p5", {"sliding_window": 64}, [None] * 8),
        ("step3p5", {"sliding_window": 64, "layer_types": ["full_attention", "sliding_attention"] * 5}, [None, 64] * 4),
        ("llama", {"per_layer_config": {"05": {"sliding_window": 32}}}, [None] * 5 + [32] + [None] * 2),
        ("gemma3_text", {"sliding_window": 64}, [64] * 5 + [None, 64, 64]),
        ("gemma3_text", {"sliding_window": 64, "sliding_window_pattern": 4}, [64, 64, 64, None] * 2),
        ("gemma3_text", {"sliding_window": None}, [None] * 8),
        ("gpt_oss", {"sliding_window": 64}, [64, None] * 4),
        ("cohere2", {"sliding_window": 64}, [64, 64, 64, None] * 2),
        ("olmo3", {"sliding_window": 64}, [64, 64, 64, None] * 2),
        ("exaone4", {"sliding_window": 64, "sliding_window_pattern": "LLG"}, [64, 64, None, 64, 64, None, 64, 64]),
        ("laguna", {"sliding_window": 64}, [None, 64, 64, 64] * 2),
        ("afmoe", {"sliding_window": 64, "global_attn_every_n_layers": 2}, [64, None] * 4),
        ("smollm3", {"sliding_window": 64, "use_sliding_window": True}, [None, None, None, 64] * 2),
        ("smollm3", {"sliding_window": 64}, [None] * 8),
        ("llama4_text", {"attention_chunk_size": 64}, [64, 64, 64, None] * 2),
        ("llama4_text", {"attention_chunk_size": None}, [None] * 8),
        (
            "llama4_text",
            {"attention_chunk_size": 64, "layer_types": ["chunked_attention", "full_attention"] * 4},
            [64, None] * 4,
        ),
        ("mimo_v2_flash", {"sliding_window_size": 63}, [None, 64, 64, 64, 64, None, 64, 64]),
        ("mimo_v2_flash", {"sliding_window": 64, "hybrid_layer_pattern": [0, 1] * 4}, [None, 64] * 4),
    ],
)
def test_windows_follow_the_rule_of_the_family(
    model_type: str, keys: dict[str, Any], expected: list[int | None]
) -> None:
    assert windows(model_type, **keys) == expected


def test_words_beyond_the_last_layer_belong_to_draft_layers() -> None:
    words = ["full_attention", "sliding_attention"] * 4 + ["full_attention"]
    found = read("llama", sliding_window=64, layer_types=words, num_nextn_predict_layers=1)
    assert len(found.attention_layers) == 8
    assert found.draft_layers == 1


def test_chunks_of_llama_4_are_marked() -> None:
    assert [layer.is_chunked for layer in read("llama4_text", attention_chunk_size=64).attention_layers[:4]] == [
        True,
        True,
        True,
        False,
    ]


@pytest.mark.parametrize(
    ("model_type", "keys", "expected"),
    [
        ("llama", {}, (2, 64, 64)),
        ("llama", {"head_dim": 128}, (2, 128, 128)),
        ("llama", {"head_dim": 0}, (2, 64, 64)),
        ("llama", {"num_key_value_heads": None}, (8, 64, 64)),
        ("qwen3", {}, (2, 128, 128)),
        ("gemma3_text", {}, (2, 256, 256)),
        ("gpt_bigcode", {}, (1, 64, 64)),
        ("gpt_bigcode", {"multi_query": False}, (8, 64, 64)),
        ("falcon", {"new_decoder_architecture": True, "num_kv_heads": 2}, (2, 64, 64)),
        ("falcon", {"multi_query": True}, (1, 64, 64)),
        ("chatglm", {"multi_query_attention": True, "multi_query_group_num": 4}, (4, 64, 64)),
        ("mpt", {"attn_config": {"kv_n_heads": 4}}, (4, 64, 64)),
        ("dbrx", {}, (8, 64, 64)),
        ("minicpm3", {"qk_nope_head_dim": 64, "qk_rope_head_dim": 32, "kv_lora_rank": 128}, (8, 96, 64)),
        ("deepseek_v2", {"kv_lora_rank": None}, (2, 64, 64)),
    ],
)
def test_heads_are_given_or_derived(model_type: str, keys: dict[str, Any], expected: tuple[int, int, int]) -> None:
    layer = read(model_type, **keys).attention_layers[0]
    assert (layer.kv_heads, layer.key_length, layer.value_length) == expected


def test_key_value_heads_may_differ_by_layer() -> None:
    found = read("deci", num_key_value_heads_per_layer=[4, 2, 2, 1, 4, 4, 1, 2])
    assert [layer.kv_heads for layer in found.attention_layers] == [4, 2, 2, 1, 4, 4, 1, 2]


def test_blocks_without_attention_cache_nothing() -> None:
    blocks = [{"attention": {"n_heads_in_group": 4}}, {"attention": {"no_op": True}}] * 3
    blocks += [{"attention": {"replace_with_linear": True}}, {"attention": {"n_heads_in_group": 8}}]
    found = read("nemotron-nas", block_configs=blocks, num_key_value_heads=None)
    assert [(layer.layer, layer.kv_heads) for layer in found.attention_layers] == [(0, 2), (2, 2), (4, 2), (7, 1)]


def test_windowed_layers_of_mimo_have_heads_of_their_own() -> None:
    found = read(
        "mimo_v2_flash",
        head_dim=192,
        v_head_dim=128,
        swa_num_key_value_heads=4,
        swa_head_dim=96,
        swa_v_head_dim=64,
        sliding_window=64,
    )
    shapes = [(layer.kv_heads, layer.key_length, layer.value_length) for layer in found.attention_layers]
    assert shapes[:2] == [(2, 192, 128), (4, 96, 64)]


def test_layers_that_use_another_cache_are_in_no_list() -> None:
    found = read("gemma3n_text", sliding_window=64, num_kv_shared_layers=3)
    assert [layer.layer for layer in found.attention_layers] == [0, 1, 2, 3, 4]
    assert found.count == 8


def test_full_layers_of_gemma_4_differ_and_the_last_is_one() -> None:
    found = read(
        "gemma4_text",
        sliding_window=64,
        head_dim=64,
        global_head_dim=128,
        num_global_key_value_heads=1,
        attention_k_eq_v=True,
        layer_types=["sliding_attention"] * 8,
    )
    assert [(layer.kv_heads, layer.key_length, layer.window_tokens) for layer in found.attention_layers[-2:]] == [
        (2, 64, 64),
        (1, 128, None),
    ]


MAMBA2 = {"mamba_n_heads": 16, "mamba_d_head": "auto", "mamba_d_state": 16, "mamba_d_conv": 4, "mamba_n_groups": 2}


@pytest.mark.parametrize(
    ("model_type", "keys", "attention", "kind", "sizes"),
    [
        (
            "bamba",
            {**MAMBA2, "mamba_expand": 2, "attn_layer_indices": [2, 5]},
            [2, 5],
            "mamba2",
            (3 * (1024 + 2 * 2 * 16), 16 * 1024),
        ),
        (
            "falcon_h1",
            {**MAMBA2, "mamba_d_ssm": 256},
            list(range(8)),
            "mamba2",
            (3 * (256 + 2 * 2 * 16), 16 * 256),
        ),
        (
            "zamba2",
            {
                "layers_block_type": ["mamba", "mamba", "hybrid", "mamba"] * 2,
                "n_mamba_heads": 16,
                "mamba_ngroups": 1,
                "mamba_d_state": 16,
                "mamba_d_conv": 4,
                "mamba_expand": 2,
            },
            [2, 6],
            "mamba2",
            (3 * (1024 + 32), 16 * 1024),
        ),
        (
            "jamba",
            {"attn_layer_period": 4, "attn_layer_offset": 1, "mamba_d_conv": 4, "mamba_d_state": 16},
            [1, 5],
            "mamba",
            (3 * 1024, 16 * 1024),
        ),
        ("lfm2", {"conv_L_cache": 3, "full_attn_idxs": [3]}, [3], "short_convolution", (2 * 512, 0)),
        (
            "bailing_hybrid",
            {
                "layer_group_size": 3,
                "short_conv_kernel_size": 4,
                "head_dim": 64,
                "kv_lora_rank": 128,
                "qk_rope_head_dim": 32,
            },
            [2, 5, 6, 7],
            "kimi_delta",
            (3 * 3 * 512, 64 * 64 * 8),
        ),
        (
            "qwen3_next",
            {
                "linear_conv_kernel_dim": 4,
                "linear_key_head_dim": 32,
                "linear_value_head_dim": 64,
                "linear_num_key_heads": 4,
                "linear_num_value_heads": 8,
                "full_attention_interval": 2,
            },
            [1, 3, 5, 7],
            "gated_delta",
            (3 * (512 + 2 * 128), 32 * 512),
        ),
    ],
)
def test_hybrids_hold_states_beside_caches(
    model_type: str, keys: dict[str, Any], attention: list[int], kind: str, sizes: tuple[int, int]
) -> None:
    found = read(model_type, **keys)
    assert [layer.layer for layer in found.attention_layers] == attention
    assert {layer.kind for layer in found.state_layers} == {kind}
    assert {(layer.convolution_elements, layer.recurrent_elements) for layer in found.state_layers} == {sizes}
    both = model_type in {"falcon_h1", "zamba2"}
    assert both == bool({layer.layer for layer in found.state_layers} & set(attention))


def test_attention_of_zamba2_sees_twice_the_hidden_size() -> None:
    keys = {"n_mamba_heads": 16, "mamba_ngroups": 1, "mamba_d_state": 16, "mamba_d_conv": 4, "mamba_expand": 2}
    found = read("zamba2", layers_block_type=["hybrid"] * 8, **keys)
    assert found.attention_layers[0].key_length == 128


def test_the_type_of_a_state_is_the_one_the_file_asks_for() -> None:
    assert layers_of(ConfigFacts("/m", values_of("qwen3.5-9b"))).state_data_type == "float32"
    assert layers_of(ConfigFacts("/m", CONFIG_VALUES["lfm2-1.2b"])).state_data_type is None


@pytest.mark.parametrize(
    ("keys", "indexed"),
    [
        ({}, [True] * 8),
        ({"indexer_types": ["full", "shared"] * 4}, [True, False] * 4),
        ({"index_topk_pattern": "FFSSFFSS"}, [True, True, False, False] * 2),
        ({"index_topk_freq": 4, "index_skip_topk_offset": 2}, [True, True, False, False, False, True, False, False]),
    ],
)
def test_layers_that_choose_tokens_keep_a_key_more(keys: dict[str, Any], indexed: list[bool]) -> None:
    found = read("glm_moe_dsa", kv_lora_rank=128, qk_rope_head_dim=32, index_head_dim=16, **keys)
    extra = [layer.layer for layer in found.attention_layers if layer.key_length == 16]
    assert extra == [layer for layer, chooses in enumerate(indexed) if chooses]


@pytest.mark.parametrize("model_type", ["bert", "xlm-roberta", "modernbert"])
def test_encoders_keep_nothing_and_say_so(model_type: str) -> None:
    found = read(model_type)
    assert found.attention_layers == ()
    assert "encoder" in found.notes[0]


def test_the_embedding_model_of_gemma_keeps_nothing() -> None:
    assert read("gemma3_text", use_bidirectional_attention=True, sliding_window=64).attention_layers == ()


def test_a_published_file_may_leave_out_what_its_class_knows() -> None:
    values = {
        "model_type": "gemma3",
        "text_config": {
            "model_type": "gemma3_text",
            "hidden_size": 2560,
            "num_hidden_layers": 34,
            "sliding_window": 1024,
        },
    }
    found = layers_of(ConfigFacts("/m/config.json", values))
    assert (found.attention_layers[0].kv_heads, found.attention_layers[0].key_length) == (4, 256)
    assert sum(layer.window_tokens is None for layer in found.attention_layers) == 5


def test_a_whole_file_may_not_leave_out_its_sizes() -> None:
    with pytest.raises(UnreadableInput, match="num_hidden_layers"):
        layers_of(ConfigFacts("/m/config.json", {"model_type": "gemma3_text", "hidden_size": 2560}))


def test_a_class_stands_for_a_missing_model_type() -> None:
    facts = ConfigFacts("/m", {"architectures": ["Qwen3MoeForCausalLM"], **BASE})
    assert family_of(facts) == "qwen3_moe"
    assert len(layers_of(facts).attention_layers) == 8


def test_an_unknown_family_is_refused_with_what_was_found() -> None:
    with pytest.raises(UnknownArchitecture) as refusal:
        read("looks_like_llama", sliding_window=10**30)
    message = refusal.value.message
    assert "looks_like_llama" in message
    assert "num_key_value_heads 2" in message
    assert "a number that cannot be" in message
    with pytest.raises(UnknownArchitecture, match="none of the usual facts"):
        layers_of(ConfigFacts("/m", {}))


@pytest.mark.parametrize(
    ("model_type", "keys"),
    [
        ("llama", {"num_attention_heads": 0}),
        ("llama", {"num_attention_heads": -8}),
        ("llama", {"num_attention_heads": 2**30}),
        ("llama", {"num_key_value_heads": 0}),
        ("llama", {"num_key_value_heads": 2**30}),
        ("llama", {"hidden_size": 0}),
        ("llama", {"hidden_size": 4}),
        ("llama", {"head_dim": 2**31 - 1}),
        ("llama", {"num_hidden_layers": 0}),
        ("llama", {"num_hidden_layers": 100_000}),
        ("llama", {"num_hidden_layers": True}),
        ("llama", {"layer_types": ["full_attention"] * 3}),
        ("llama", {"layer_types": ["hyper_attention"] * 8}),
        ("llama", {"layer_types": 7}),
        ("llama", {"num_key_value_heads": [2, 2]}),
        ("llama", {"sliding_window": "wide"}),
        ("llama", {"num_nextn_predict_layers": 10**9}),
        ("gemma3n_text", {"num_kv_shared_layers": 8}),
        ("llama", {"per_layer_config": {"8": {"head_dim": 8}}}),
        ("llama", {"per_layer_config": {"one": {"head_dim": 8}}}),
        ("llama", {"per_layer_config": {"1": 8}}),
        ("longcat_flash", {"num_hidden_layers": 300, "kv_lora_rank": 8, "qk_rope_head_dim": 8}),
        ("gemma3_text", {"sliding_window": 64, "sliding_window_pattern": 0}),
        ("exaone4", {"sliding_window": 64, "sliding_window_pattern": ""}),
        ("llama4_text", {"no_rope_layers": [1, 0]}),
        ("deepseek_v3", {"kv_lora_rank": 10**9, "qk_rope_head_dim": 64}),
        ("deepseek_v3", {"kv_lora_rank": 512}),
        ("deepseek_v32", {"kv_lora_rank": 512, "qk_rope_head_dim": 64}),
        ("nemotron-nas", {"block_configs": [{}] * 8}),
        ("nemotron-nas", {"block_configs": [{"attention": {"n_heads_in_group": 9}}] * 8}),
        ("nemotron-nas", {"block_configs": [{"attention": {}}] * 7}),
        ("nemotron_h", {"hybrid_override_pattern": "M" * 100_000, **MAMBA2}),
        ("nemotron_h", {"hybrid_override_pattern": "MX"}),
        ("nemotron_h", {"hybrid_override_pattern": ""}),
        ("bamba", {**MAMBA2, "mamba_expand": 2}),
        ("bamba", {**MAMBA2, "attn_layer_indices": list(range(10_000))}),
        ("bailing_hybrid", {"layer_group_size": 3, "kv_lora_rank": 8, "qk_rope_head_dim": 8}),
        ("kimi_linear", {"linear_attn_config": {"num_heads": 8}}),
        ("bamba", {**MAMBA2, "mamba_d_head": [], "attn_layer_indices": [2]}),
        ("qwen3_5_text", {"full_attention_interval": 0}),
        ("mamba", {"state_size": 65_536, "intermediate_size": 2**31 - 1, "conv_kernel": 4}),
    ],
)
def test_what_cannot_be_is_refused(model_type: str, keys: dict[str, Any]) -> None:
    with pytest.raises(UnreadableInput):
        read(model_type, **keys)


def test_what_differs_between_single_layers_overrules_what_is_said_for_all() -> None:
    """As transformers 5 saves a Gemma 4 anew: the lengths of full layers stand in per_layer_config alone."""
    listed = (["sliding_attention"] * 3 + ["full_attention"]) * 2
    overrides = {str(layer): {"head_dim": 128, "num_key_value_heads": 1} for layer in (3, 7)}
    keys = {"layer_types": listed, "sliding_window": 64, "head_dim": 32, "per_layer_config": overrides}
    for family in ("gemma4_text", "gemma4_unified_text", "mistral"):
        found = read(family, **keys).attention_layers
        assert [(layer.kv_heads, layer.key_length, layer.value_length) for layer in found] == [
            *[(2, 32, 32)] * 3, (1, 128, 128), *[(2, 32, 32)] * 3, (1, 128, 128),
        ]  # fmt: skip
        assert [layer.window_tokens for layer in found] == [64, 64, 64, None] * 2


def test_a_layer_that_attends_twice_caches_twice() -> None:
    found = read("longcat_flash", kv_lora_rank=512, qk_rope_head_dim=64)
    assert found.count == 16
    assert [(layer.layer, layer.key_length) for layer in found.attention_layers] == [(n, 576) for n in range(16)]


HOSTILE = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**40), 2**40),
    st.floats(),
    st.text(max_size=8),
    st.lists(st.integers(-3, 600), max_size=70),
    st.lists(st.sampled_from(["full_attention", "sliding_attention", "mamba", "conv", "x"]), max_size=70),
    st.dictionaries(st.text(max_size=4), st.integers(), max_size=2),
)


@given(st.data())
def test_any_value_gives_layers_or_our_own_error(data: st.DataObject) -> None:
    values = dict(values_of(data.draw(st.sampled_from([*CONFIG_VALUES, *names()]))))
    part = values["text_config"] = dict(values.get("text_config", values))
    for key in data.draw(st.lists(st.sampled_from(sorted(part)), min_size=1, max_size=3)):
        part[key] = data.draw(HOSTILE)
    try:
        found = layers_of(ConfigFacts("/m/config.json", values))
    except LlmopsError:
        return
    assert all(layer.cache_bytes_per_token() > 0 for layer in found.attention_layers)
    assert len({layer.layer for layer in found.state_layers}) == len(found.state_layers) <= 512


def test_every_rule_refuses_an_empty_file_with_our_own_error() -> None:
    for model_type in RULES:
        with pytest.raises(UnreadableInput):
            layers_of(ConfigFacts("/m", {"model_type": model_type}))


INDEXED = {
    "head_dim": 64,
    "sparse_attention_config": {"sparse_index_dim": 32, "sparse_attention_freq": [0] * 3 + [1] * 5},
}


@pytest.mark.parametrize(
    ("keys", "indexed"),
    [
        (INDEXED, [3, 4, 5, 6, 7]),
        ({"layer_types": ["full_attention", "minimax_m3_sparse"] * 4, "index_head_dim": 32}, [1, 3, 5, 7]),
        ({}, []),
    ],
)
def test_chosen_blocks_need_a_key_of_an_indexer_beside_the_heads(keys: dict[str, Any], indexed: list[int]) -> None:
    found = read("minimax_m3_vl_text", **keys).attention_layers
    assert [layer.layer for layer in found if layer.is_latent] == indexed
    assert {(layer.kv_heads, layer.key_length) for layer in found if layer.is_latent} <= {(1, 32)}
    assert [layer.layer for layer in found if not layer.is_latent] == list(range(8))


def test_a_list_of_indexers_that_is_not_one_for_each_layer_is_refused() -> None:
    with pytest.raises(UnreadableInput, match="sparse_attention_freq"):
        read("minimax_m3_text", sparse_attention_config={"sparse_attention_freq": [0, 1]})


@pytest.mark.parametrize("model_type", ["PanguEmbedded", "TeleFLM", "param2moe", "solar", "step3_text", "telechat2"])
def test_decoders_that_only_vllm_serves(model_type: str) -> None:
    assert windows(model_type) == [None] * 8
    assert {layer.kv_heads for layer in read(model_type).attention_layers} == {2}
