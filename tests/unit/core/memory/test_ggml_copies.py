"""What a card copies: caches of layers on the host, 16-bit copies of quantised caches, matrices."""

from __future__ import annotations

from dataclasses import replace

import pytest

from llmops.core.memory.ggml_copies import (
    card_range,
    copied_cache_bytes,
    copied_matrix_bytes,
    copied_output_bytes,
    widened_cache_bytes,
)
from llmops.core.memory.ggml_settings import GgmlSettings
from llmops.core.memory.ggml_weights import HOST, Placement
from llmops.core.model import AttentionLayer
from llmops.core.version import Version
from tests.unit.core.example_models import eight_billion_16_bit

MODEL = eight_billion_16_bit()
LAYERS = MODEL.layers
ONE = GgmlSettings(slots=1, context_tokens_per_slot=32_768)
QUANTISED = replace(ONE, cache_type_k="q8_0", cache_type_v="q8_0")
ON_CARD = Placement((0,) * LAYERS, 0)
HALF = Placement((HOST,) * (LAYERS // 2) + (0,) * (LAYERS - LAYERS // 2), 0)
ON_HOST = Placement((HOST,) * LAYERS, HOST)
WIDE = 2 * 32_768 * 2 * MODEL.attention_layers[0].kv_heads * MODEL.attention_layers[0].key_length


@pytest.mark.parametrize(
    ("key", "value", "share"),
    [("f16", "f16", 0.0), ("q8_0", "q8_0", 1.0), ("q8_0", "f16", 0.5), ("bf16", "bf16", 1.0), ("f32", "f32", 0.0)],
)
def test_flash_attention_reads_a_quantised_cache_in_16_bits(key: str, value: str, share: float) -> None:
    assert widened_cache_bytes(MODEL, replace(ONE, cache_type_k=key, cache_type_v=value)) == share * WIDE


def test_without_flash_attention_nothing_is_widened() -> None:
    assert widened_cache_bytes(MODEL, replace(ONE, cache_type_k="q8_0", flash_attention=False)) == 0


def test_the_values_of_a_compressed_cache_are_its_keys() -> None:
    compressed = replace(MODEL, attention_layers=(AttentionLayer(1, 576, 0, is_latent=True, layer=0),))
    assert widened_cache_bytes(compressed, QUANTISED) == 2 * 32_768 * 576


def test_the_cache_of_a_layer_on_the_host_is_copied_whole() -> None:
    layer = MODEL.attention_layers[0].cache_bytes_per_token() * 32_768
    assert copied_cache_bytes(MODEL, ONE, None, ON_CARD) == 0
    assert copied_cache_bytes(MODEL, ONE, None, HALF) == layer
    experts = replace(ON_CARD, host_expert_layers=4)
    assert copied_cache_bytes(MODEL, ONE, None, experts) == 0, "attention stays on the card"


def test_the_output_matrix_counts_where_the_host_keeps_it() -> None:
    assert copied_output_bytes(MODEL, HALF) == 0
    assert copied_output_bytes(MODEL, ON_HOST) > 0
    assert copied_matrix_bytes(MODEL, ON_CARD) == 0


def test_the_range_holds_all_copies_at_its_high_end() -> None:
    plain = card_range(MODEL, ONE, None, ON_CARD)
    wide = card_range(MODEL, QUANTISED, None, ON_CARD)
    half = card_range(MODEL, ONE, None, HALF)
    assert wide[2] - plain[2] > WIDE
    assert "16 bits" in wide[3]
    assert "16 bits" not in plain[3]
    assert half[2] > half[1] >= plain[1]


def test_the_output_matrix_is_copied_for_logits_of_whole_batches_only() -> None:
    old, new = (card_range(MODEL, ONE, build, ON_HOST) for build in (Version((7_000,)), None))
    assert old[2] > new[2] + copied_output_bytes(MODEL, ON_HOST) / 2
    assert old[1] == new[1] == 0, "a server that is told --no-op-offload"
