"""Which layers keep a window: one case for each rule, as the loader of llama.cpp b11434 sets them."""

from __future__ import annotations

import pytest

from llmops.core.errors import UnknownArchitecture, UnreadableInput
from llmops.models.gguf_facts import Facts
from llmops.models.gguf_families import RULES, caches_of
from llmops.models.gguf_file import Value


def windows(architecture: str, layers: int = 8, **keys: Value) -> list[int | None]:
    metadata: dict[str, Value] = {
        "general.architecture": architecture,
        f"{architecture}.block_count": layers,
        f"{architecture}.embedding_length": 512,
        f"{architecture}.attention.head_count": 8,
        f"{architecture}.attention.head_count_kv": 2,
        **{f"{architecture}.attention.{key}": value for key, value in keys.items()},
    }
    return [layer.window_tokens for layer in caches_of(Facts("/m.gguf", metadata)).attention]


def test_looped_layers_cache_as_often_as_they_run() -> None:
    metadata: dict[str, Value] = {
        "general.architecture": "nanbeige",
        "nanbeige.block_count": 3,
        "nanbeige.num_loops": 2,
        "nanbeige.embedding_length": 512,
        "nanbeige.attention.head_count": 8,
        "nanbeige.attention.head_count_kv": (2, 4, 8),
    }
    facts = Facts("/m.gguf", metadata)
    assert (facts.layers, facts.blocks) == (6, 6)
    assert [layer.kv_heads for layer in caches_of(facts).attention] == [2, 4, 8, 2, 4, 8]


def test_a_router_is_one_head_behind_the_last_layer() -> None:
    metadata: dict[str, Value] = {
        "general.architecture": "graniteswitch",
        "graniteswitch.block_count": 3,
        "graniteswitch.embedding_length": 512,
        "graniteswitch.attention.head_count": 8,
        "graniteswitch.attention.head_count_kv": (2, 2, 4),
    }
    facts = Facts("/m.gguf", metadata)
    assert (facts.layers, facts.blocks) == (3, 4)
    assert [(layer.layer, layer.kv_heads) for layer in caches_of(facts).attention] == [(0, 2), (1, 2), (2, 4), (3, 1)]


@pytest.mark.parametrize(
    ("architecture", "hint"),
    [
        ("deepseek4", "llama-fit-params -m FILE"),
        ("eagle3", "guesses tokens for another model"),
        ("llada", "diffusion"),
        ("t5", "an encoder and a decoder"),
        ("qwen3tts", "sound"),
        ("gptj", "llmops does not guess"),
    ],
)
def test_a_refusal_says_what_to_do(architecture: str, hint: str) -> None:
    with pytest.raises(UnknownArchitecture) as refusal:
        windows(architecture)
    assert hint in (refusal.value.hint or "")
    assert "found: layers 8, heads 8, key-value heads 2" in refusal.value.message


@pytest.mark.parametrize("architecture", ["llama", "qwen3", "phi3", "mistral3", "granite", "command-r"])
def test_full_attention_ignores_a_window(architecture: str) -> None:
    assert windows(architecture, sliding_window=128) == [None] * 8


@pytest.mark.parametrize(
    ("architecture", "expected"),
    [
        ("gemma2", [64, None] * 4),
        ("gpt-oss", [64, None] * 4),
        ("gemma3", [64] * 5 + [None, 64, 64]),
        ("cohere2", [64, 64, 64, None] * 2),
        ("olmo2", [64, 64, 64, None] * 2),
        ("exaone-moe", [64, 64, 64, None] * 2),
        ("cohere2moe", [None, 64, 64, 64] * 2),
        ("laguna", [None, 64, 64, 64] * 2),
        ("plamo3", [64] * 7 + [None]),
        ("llama4", [8192, 8192, 8192, None] * 2),
    ],
)
def test_the_period_of_the_family(architecture: str, expected: list[int | None]) -> None:
    assert windows(architecture, sliding_window=64) == expected


def test_the_file_may_give_another_period() -> None:
    assert windows("gemma3", sliding_window=64, sliding_window_pattern=2) == [64, None] * 4
    assert windows("gemma3", sliding_window=64, sliding_window_pattern=0) == [64] * 8
    assert windows("gemma3", sliding_window=64, sliding_window_pattern=1) == [None] * 8


def test_the_file_may_list_the_layers_and_layers_after_the_list_are_full() -> None:
    listed = (True, False, True)
    assert windows("gpt-oss", sliding_window=64, sliding_window_pattern=listed) == [64, None, 64] + [None] * 5
    assert windows("mimo2", sliding_window=64, sliding_window_pattern=listed) == [64, None, 64] + [None] * 5


def test_window_defaults_and_absence() -> None:
    assert windows("gemma2") == [4096, None] * 4
    assert windows("gemma3") == windows("gemma3", sliding_window=0) == [None] * 8
    assert windows("llama4", sliding_window=0) == [None] * 8


def test_chunks_start_anew_and_windows_slide() -> None:
    metadata: dict[str, Value] = {
        "general.architecture": "llama4",
        "llama4.block_count": 4,
        "llama4.embedding_length": 512,
        "llama4.attention.head_count": 8,
    }
    assert [layer.is_chunked for layer in caches_of(Facts("/m.gguf", metadata)).attention] == [True] * 3 + [False]


def test_every_layer_has_its_number() -> None:
    metadata: dict[str, Value] = {
        "general.architecture": "deci",
        "deci.block_count": 4,
        "deci.embedding_length": 512,
        "deci.attention.head_count": 8,
        "deci.attention.head_count_kv": (2, 0, 1, 0),
    }
    assert [layer.layer for layer in caches_of(Facts("/m.gguf", metadata)).attention] == [0, 2]


def test_layers_that_use_the_cache_of_earlier_ones_have_none() -> None:
    assert windows("gemma3n", 35, sliding_window=64) == [64, 64, 64, 64, None] * 4
    listed = (True, False) * 4
    assert windows("gemma4", sliding_window=64, sliding_window_pattern=listed, shared_kv_layers=3) == [
        64,
        None,
        64,
        None,
        64,
    ]
    with pytest.raises(UnreadableInput, match="shared_kv_layers"):
        windows("gemma4", sliding_window=64, sliding_window_pattern=listed, shared_kv_layers=8)


@pytest.mark.parametrize("architecture", ["bert", "nomic-bert-moe", "gemma-embedding"])
def test_encoders_keep_nothing(architecture: str) -> None:
    assert windows(architecture, sliding_window=64) == []


def test_a_family_whose_window_is_fixed_where_there_is_one() -> None:
    assert windows("smallthinker", sliding_window=64) == [None, 4096, 4096, 4096] * 2
    assert windows("smallthinker") == [None] * 8


def test_exaone4_has_windows_in_its_64_layer_model_only() -> None:
    assert windows("exaone4", sliding_window=64) == [None] * 8
    assert windows("exaone4", 64) == [4096, 4096, 4096, None] * 16


@pytest.mark.parametrize(
    ("architecture", "keys"),
    [
        ("gpt-oss", {}),
        ("gpt-oss", {"sliding_window": 0}),
        ("mimo2", {"sliding_window": 64}),
        ("mimo2", {"sliding_window": 64, "sliding_window_pattern": 2}),
        ("gemma3", {"sliding_window": 64, "sliding_window_pattern": "two"}),
        ("gemma3", {"sliding_window": 64, "sliding_window_pattern": (True,) * 600}),
    ],
)
def test_what_the_rule_needs_and_does_not_find(architecture: str, keys: dict[str, Value]) -> None:
    with pytest.raises(UnreadableInput, match="sliding_window"):
        windows(architecture, 8, **keys)


def test_layers_with_a_window_may_have_their_own_head_lengths() -> None:
    metadata: dict[str, Value] = {
        "general.architecture": "gemma3",
        "gemma3.block_count": 6,
        "gemma3.embedding_length": 512,
        "gemma3.attention.head_count": 8,
        "gemma3.attention.sliding_window": 64,
        "gemma3.attention.key_length": 256,
        "gemma3.attention.value_length_swa": 32,
    }
    first, *_, last = caches_of(Facts("/m.gguf", metadata)).attention
    assert (first.kv_heads, first.key_length, first.value_length) == (8, 256, 32)
    assert (last.kv_heads, last.key_length, last.value_length) == (8, 256, 64)


def test_no_rule_is_registered_for_families_that_need_another_memory() -> None:
    assert not {"deepseek4", "qwen4exp", "t5", "eagle3", "dflash", "llada", "hrm-text"} & set(RULES)
