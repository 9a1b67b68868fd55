"""States: which layers keep one and how large it is, as the loader of llama.cpp b11434 counts."""

from __future__ import annotations

import pytest

from llmops.core.errors import UnreadableInput
from llmops.models.gguf_facts import Facts
from llmops.models.gguf_families import caches_of
from llmops.models.gguf_families_attention import Caches
from llmops.models.gguf_file import Value

HEADS: dict[str, Value] = {"attention.head_count": 8, "attention.head_count_kv": 2}
MAMBA: dict[str, Value] = {"ssm.conv_kernel": 4, "ssm.inner_size": 1024, "ssm.state_size": 16, "ssm.time_step_rank": 32}
EVERY_SECOND: dict[str, Value] = {"attention.head_count": 8, "attention.head_count_kv": (0, 2, 0, 2)}


def caches(architecture: str, keys: dict[str, Value], layers: int = 4) -> Caches:
    own: dict[str, Value] = {"block_count": layers, "embedding_length": 512, **keys}
    metadata: dict[str, Value] = {f"{architecture}.{key}": value for key, value in own.items()}
    return caches_of(Facts("/m.gguf", {"general.architecture": architecture, **metadata}))


def numbers(found: Caches) -> tuple[list[int | None], list[int | None]]:
    return [layer.layer for layer in found.attention], [layer.layer for layer in found.state]


def test_mamba_has_a_state_in_every_layer_and_no_attention() -> None:
    found = caches("mamba", MAMBA)
    assert numbers(found) == ([], [0, 1, 2, 3])
    assert {(one.kind, one.convolution_elements, one.recurrent_elements) for one in found.state} == {
        ("mamba", 3 * 1024, 16 * 1024)
    }


def test_groups_pass_the_convolution_too() -> None:
    (state, *_) = caches("mamba2", MAMBA | {"ssm.group_count": 8}).state
    assert (state.kind, state.convolution_elements) == ("mamba2", 3 * (1024 + 2 * 8 * 16))


@pytest.mark.parametrize("architecture", ["granitehybrid", "jamba", "plamo2"])
def test_layers_without_key_value_heads_keep_a_state(architecture: str) -> None:
    assert numbers(caches(architecture, MAMBA | EVERY_SECOND)) == ([1, 3], [0, 2])


@pytest.mark.parametrize("architecture", ["qwen3next", "qwen35", "qwen35moe"])
def test_the_last_layer_of_an_interval_attends(architecture: str) -> None:
    keys = MAMBA | HEADS | {"ssm.group_count": 4}
    assert numbers(caches(architecture, keys, 8)) == ([3, 7], [0, 1, 2, 4, 5, 6])
    assert numbers(caches(architecture, keys | {"full_attention_interval": 2})) == ([1, 3], [0, 2])
    listed = {"attention.recurrent_layers": (False, True, True, False)}
    assert numbers(caches(architecture, keys | listed)) == ([0, 3], [1, 2])
    assert numbers(caches(architecture, keys | {"nextn_predict_layers": 1}, 5)) == ([3], [0, 1, 2])
    assert {state.kind for state in caches(architecture, keys).state} == {"gated_delta"}


def test_kimi_delta_beside_a_compressed_cache() -> None:
    keys = EVERY_SECOND | {"kda.head_dim": 128, "ssm.conv_kernel": 4, "attention.key_length": 576}
    found = caches("kimi-linear", keys | {"attention.key_length_mla": 192, "attention.value_length_mla": 128})
    assert numbers(found) == ([1, 3], [0, 2])
    assert [layer.value_length for layer in found.attention] == [0, 0]
    assert (found.state[0].convolution_elements, found.state[0].recurrent_elements) == (3 * 3 * 1024, 128 * 1024)


def test_a_draft_layer_of_a_hybrid_by_heads_has_a_cache_although_it_never_runs() -> None:
    keys = MAMBA | {"attention.head_count": 8, "attention.head_count_kv": (0, 2, 0, 2), "nextn_predict_layers": 1}
    assert numbers(caches("granitehybrid", keys)) == ([1, 3], [0, 2])


def test_glm5_next_keeps_a_key_a_gate_and_a_pooled_key_for_its_indexer() -> None:
    keys = EVERY_SECOND | {"kda.head_dim": 128, "ssm.conv_kernel": 4, "attention.key_length": 576}
    keys |= {"attention.key_length_mla": 192, "attention.value_length_mla": 128, "attention.indexer.key_length": 128}
    found = caches("glm5-next", keys)
    assert [(layer.layer, layer.key_length) for layer in found.attention] == [(1, 576), (1, 384), (3, 576), (3, 384)]


def test_short_convolutions_keep_their_last_tokens() -> None:
    found = caches("lfm2", EVERY_SECOND | {"shortconv.l_cache": 3})
    assert numbers(found) == ([1, 3], [0, 2])
    assert (found.state[0].convolution_elements, found.state[0].recurrent_elements) == (1024, 0)
    windowed = caches("lfm2", EVERY_SECOND | {"shortconv.l_cache": 3, "attention.sliding_window": 64})
    assert [layer.window_tokens for layer in windowed.attention] == [64, 64]


def test_both_side_by_side() -> None:
    assert numbers(caches("falcon-h1", MAMBA | HEADS)) == ([0, 1, 2, 3], [0, 1, 2, 3])


@pytest.mark.parametrize("architecture", ["nemotron_h", "nemotron_h_moe"])
def test_layers_with_a_feed_forward_part_keep_nothing(architecture: str) -> None:
    keys: dict[str, Value] = {"attention.head_count": 8, "attention.head_count_kv": (0, 0, 2, 0)}
    assert numbers(caches(architecture, MAMBA | keys | {"feed_forward_length": (0, 64, 0, 64)})) == ([2], [0])


def test_rwkv_and_lightning_keep_a_matrix_for_each_head() -> None:
    (state, *_) = caches("rwkv7", {"wkv.head_size": 64}).state
    assert (state.kind, state.convolution_elements, state.recurrent_elements) == ("rwkv", 2 * 512, 64 * 512)
    assert caches("rwkv6qwen2", {"wkv.head_size": 64, "token_shift_count": 1}).state[0].convolution_elements == 512
    found = caches("minimax-01", HEADS, 8)
    assert numbers(found) == ([7], list(range(7)))
    assert found.state[0].recurrent_elements == 64 * 64 * 8


@pytest.mark.parametrize(
    ("architecture", "keys", "missing"),
    [
        ("mamba", {}, r"ssm\.inner_size"),
        ("lfm2", EVERY_SECOND, r"shortconv\.l_cache"),
        ("rwkv6", {}, r"wkv\.head_size"),
        ("kimi-linear", EVERY_SECOND, r"kda\.head_dim"),
        ("qwen35", HEADS, r"ssm\.inner_size"),
    ],
)
def test_what_the_rule_needs_and_does_not_find(architecture: str, keys: dict[str, Value], missing: str) -> None:
    with pytest.raises(UnreadableInput, match=missing):
        caches(architecture, keys)
