"""Compressed caches: what each conversion keeps, and which layers have an indexer (llama.cpp b11434)."""

from __future__ import annotations

import pytest

from llmops.core.errors import UnreadableInput
from llmops.core.model import AttentionLayer
from llmops.models.gguf_facts import Facts
from llmops.models.gguf_families import caches_of
from llmops.models.gguf_file import Value

NEWER: dict[str, Value] = {
    "head_count": 16,
    "head_count_kv": 1,
    "key_length": 576,
    "value_length": 512,
    "key_length_mla": 192,
    "value_length_mla": 128,
}
OLDER: dict[str, Value] = {"head_count": 16, "key_length": 192, "value_length": 128}
INDEXER: dict[str, Value] = {"indexer.key_length": 128, "indexer.top_k": 64}


def attention(architecture: str, keys: dict[str, Value], layers: int = 4, **more: Value) -> tuple[AttentionLayer, ...]:
    own: dict[str, Value] = {"block_count": layers, "embedding_length": 2048, **more}
    own |= {f"attention.{key}": value for key, value in keys.items()}
    metadata: dict[str, Value] = {f"{architecture}.{key}": value for key, value in own.items()}
    return caches_of(Facts("/m.gguf", {"general.architecture": architecture, **metadata})).attention


@pytest.mark.parametrize("architecture", ["deepseek2", "mistral4"])
def test_the_newer_conversion_keeps_one_vector_and_no_values(architecture: str) -> None:
    layers = attention(architecture, NEWER)
    assert layers[0] == AttentionLayer(1, 576, 0, is_latent=True, layer=0)
    assert [layer.layer for layer in layers] == [0, 1, 2, 3]
    assert layers[0].cache_bytes_per_token() == 1152


@pytest.mark.parametrize("architecture", ["deepseek2", "minicpm3", "plm"])
def test_the_older_conversion_keeps_all_heads(architecture: str) -> None:
    assert attention(architecture, OLDER)[3] == AttentionLayer(16, 192, 128, layer=3)


def test_layers_that_only_guess_are_left_out() -> None:
    assert len(attention("deepseek2", NEWER, nextn_predict_layers=1)) == 3


def test_an_indexer_keeps_one_key_more_in_every_layer() -> None:
    layers = attention("deepseek32", NEWER | INDEXER, 2)
    assert [(layer.key_length, layer.value_length, layer.layer) for layer in layers] == [
        (576, 0, 0),
        (128, 0, 0),
        (576, 0, 1),
        (128, 0, 1),
    ]


def indexed(layers: tuple[AttentionLayer, ...]) -> list[int | None]:
    return [layer.layer for layer in layers if layer.key_length == 128]


def test_layers_may_share_the_choice_of_an_indexer() -> None:
    assert indexed(attention("glm-dsa", NEWER | INDEXER, 8, context_length=202_752)) == list(range(8))
    assert indexed(attention("glm-dsa", NEWER | INDEXER, 8, context_length=1_048_576)) == [0, 1, 2, 6]
    listed = NEWER | INDEXER | {"indexer.types": (1, 0, 0, 1)}
    assert indexed(attention("glm-dsa", listed, context_length=1_048_576)) == [0, 3]
    assert indexed(attention("hy_v4", listed)) == [0, 3]
    assert indexed(attention("hy_v4", NEWER)) == []


def test_windows_of_a_compressed_cache_have_no_indexer() -> None:
    listed: dict[str, Value] = {
        "indexer.types": (1, 1, 0, 1),
        "sliding_window": 512,
        "sliding_window_pattern": (True, False, True),
    }
    layers = attention("dots3note", NEWER | INDEXER | {"key_length_swa": 320} | listed)
    assert [(layer.key_length, layer.window_tokens) for layer in layers] == [
        (320, 512),
        (576, None),
        (128, None),
        (320, 512),
        (576, None),
        (128, None),
    ]


def test_an_indexer_beside_plain_keys_and_values() -> None:
    layers = attention("minimax-m3", OLDER | INDEXER | {"head_count_kv": 4}, leading_dense_block_count=3)
    assert layers[:3] == tuple(AttentionLayer(4, 192, 128, layer=number) for number in range(3))
    assert layers[3:] == (AttentionLayer(4, 192, 128, layer=3), AttentionLayer(1, 128, 128, layer=3))


@pytest.mark.parametrize("architecture", ["deepseek32", "glm-dsa", "hy_v4", "dots3note"])
def test_families_that_are_compressed_only_say_what_is_missing(architecture: str) -> None:
    with pytest.raises(UnreadableInput, match="key_length_mla"):
        attention(architecture, OLDER | INDEXER, context_length=4096)


def test_an_indexer_without_its_length_is_refused() -> None:
    with pytest.raises(UnreadableInput, match=r"indexer\.key_length"):
        attention("deepseek32", NEWER)
