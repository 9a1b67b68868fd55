"""Cache and scratch memory against what real llama-server builds printed (b11434, CPU)."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmops.core.memory.ggml_cache import (
    KEEPS_LATENT_VALUES,
    REFUSES_MIXED_LATENT_TYPES,
    checkpoint_bytes,
    checkpoints_bytes,
    draft_cache_bytes,
    padding_bytes,
    refuses_cache_types,
    total_cache_bytes,
)
from llmops.core.memory.ggml_compute import RESERVES_LOGITS, compute_bytes, input_bytes, output_bytes
from llmops.core.memory.ggml_settings import (
    GgmlSettings,
    padded_context_tokens,
    slot_context_tokens,
    total_context_tokens,
    ubatch_tokens,
)
from llmops.core.model import AttentionLayer, ModelSpec
from llmops.core.version import Version
from tests.unit.core.memory.ggml_models import (
    GEMMA_12B,
    GEMMA_270M,
    GPT_OSS_20B,
    LLAMA_8B,
    MIB,
    QWEN_8B,
    QWEN_30B,
    QWEN_600M,
    layers,
)

FOUR = GgmlSettings(slots=4, context_tokens_per_slot=2048)


def quantised(settings: GgmlSettings, cache_type: str) -> GgmlSettings:
    """The same with both halves of the cache in one type."""
    return replace(settings, cache_type_k=cache_type, cache_type_v=cache_type)


# Settings, what /props says of a slot, MiB of KV cache and of the compute buffer, all printed for gemma3-270m.
PRINTED = [
    (replace(FOUR, context_tokens_per_slot=8192, kv_unified=True), 32_768, 133.50, 52.78),  # no flags at all
    (GgmlSettings(1, 32_768), 32_768, 111.00, 51.28),
    (GgmlSettings(1, 4096), 4096, 27.00, 23.28),
    (FOUR, 2048, 84.00, 21.28),
    (replace(FOUR, kv_unified=True), 8192, 61.50, 28.78),
    (replace(FOUR, context_tokens_per_slot=32_768), 32_768, 444.00, 51.28),
    (replace(FOUR, context_tokens_per_slot=2048), 2048, 84.00, 21.28),
    (replace(FOUR, slots=3, context_tokens_per_slot=1536), 1536, 58.50, 20.82),
    (quantised(FOUR, "q8_0"), 2048, 44.63, 21.81),
    (quantised(FOUR, "q4_0"), 2048, 23.63, 21.81),
    (replace(FOUR, cache_type_k="q5_1"), 2048, 57.75, 21.78),
    (replace(FOUR, flash_attention=False), 2048, 84.00, 34.27),
    (replace(FOUR, swa_full=True), 2048, 144.00, 22.28),
    (replace(FOUR, ubatch_tokens=128), 2048, 69.00, 6.26),
    (replace(FOUR, ubatch_tokens=2048), 2048, 144.00, 89.11),
    (replace(FOUR, slots=8, context_tokens_per_slot=8192), 8192, 312.00, 27.28),
    (replace(FOUR, slots=8, context_tokens_per_slot=8192, kv_unified=True), 32_768, 259.50, 86.78),
    (replace(FOUR, kv_unified=True, unified_slot_tokens=2048), 2048, 61.50, 28.78),
]

# One slot of 8,192 tokens unless the settings say otherwise: MiB of cache that the real engine allocated.
CACHES = [
    (QWEN_8B, GgmlSettings(1, 8192), 1152),
    (QWEN_8B, GgmlSettings(5, 8192), 5760),
    (QWEN_8B, quantised(GgmlSettings(5, 8192), "q8_0"), 3060),
    (QWEN_8B, quantised(GgmlSettings(5, 8192), "q4_0"), 1620),
    (GEMMA_12B, GgmlSettings(1, 8192), 992),
    (GEMMA_12B, GgmlSettings(5, 8192), 4960),
    (GPT_OSS_20B, GgmlSettings(1, 8192), 210),
    (GPT_OSS_20B, GgmlSettings(1, 32_768), 786),
    (QWEN_30B, GgmlSettings(1, 32_768), 3072),
    (LLAMA_8B, GgmlSettings(1, 32_768), 4096),
]

# MiB of the compute buffer that the real engine printed.
COMPUTES = [
    (LLAMA_8B, GgmlSettings(1, 8192), 132.02),
    (LLAMA_8B, GgmlSettings(1, 32_768, flash_attention=False), 2164.01),
    (LLAMA_8B, GgmlSettings(4, 8192, kv_unified=True), 156.02),
    (QWEN_8B, quantised(GgmlSettings(5, 8192), "q8_0"), 120.80),
    (QWEN_600M, GgmlSettings(2, 4096, flash_attention=False), 158.01),
    (QWEN_600M, GgmlSettings(32, 2048, ubatch_tokens=64, batch_tokens=64), 20.05),
    (GEMMA_12B, GgmlSettings(1, 8192), 137.03),
    (GEMMA_12B, GgmlSettings(2, 4096, flash_attention=False), 208.52),
    (GEMMA_12B, GgmlSettings(128, 256), 166.06),
    (GPT_OSS_20B, GgmlSettings(2, 4096, ubatch_tokens=2048), 407.60),
    (GPT_OSS_20B, GgmlSettings(1, 32_768, flash_attention=False), 4209.64),
    (QWEN_30B, GgmlSettings(4, 4096), 92.02),
    (QWEN_30B, GgmlSettings(1, 32_768, flash_attention=False), 2150.01),
    (GEMMA_270M, GgmlSettings(64, 1024), 72.28),
]

settings_strategy = st.builds(
    GgmlSettings,
    slots=st.integers(1, 64),
    context_tokens_per_slot=st.integers(1, 200_000),
    kv_unified=st.booleans(),
    cache_type_k=st.sampled_from(["f16", "q8_0", "q4_0", "q5_1", "f32"]),
    cache_type_v=st.sampled_from(["f16", "q8_0"]),
    batch_tokens=st.sampled_from([64, 512, 2048]),
    ubatch_tokens=st.sampled_from([64, 512, 2048]),
    flash_attention=st.booleans(),
    swa_full=st.booleans(),
)
models_strategy = st.sampled_from([GEMMA_270M, GEMMA_12B, QWEN_8B, GPT_OSS_20B, QWEN_30B])


@pytest.mark.parametrize(("settings", "slot_tokens", "cache_mib", "compute_mib"), PRINTED)
def test_printed_figures(settings: GgmlSettings, slot_tokens: int, cache_mib: float, compute_mib: float) -> None:
    assert slot_context_tokens(GEMMA_270M, settings) == slot_tokens
    assert total_cache_bytes(GEMMA_270M, settings) / MIB == pytest.approx(cache_mib, abs=0.01)
    assert compute_bytes(GEMMA_270M, settings) / MIB == pytest.approx(compute_mib, rel=0.03)


@pytest.mark.parametrize(("spec", "settings", "mib"), CACHES)
def test_printed_caches(spec: ModelSpec, settings: GgmlSettings, mib: int) -> None:
    assert total_cache_bytes(spec, settings) == mib * MIB


@pytest.mark.parametrize(("spec", "settings", "mib"), COMPUTES)
def test_printed_compute_buffers(spec: ModelSpec, settings: GgmlSettings, mib: float) -> None:
    assert compute_bytes(spec, settings) / MIB == pytest.approx(mib, rel=0.05)


def test_the_worked_example() -> None:
    """147,456 bytes per token; five conversations of 8,192 tokens."""
    assert QWEN_8B.cache_bytes_per_token == 147_456
    assert total_cache_bytes(QWEN_8B, GgmlSettings(5, 8192)) == 5 * 8192 * 147_456


def test_context_is_padded() -> None:
    assert [padded_context_tokens(tokens) for tokens in (1, 256, 257, 8192)] == [256, 256, 512, 8192]
    assert total_context_tokens(GgmlSettings(3, 1536)) == 4608


def test_a_slot_is_capped_at_the_trained_context() -> None:
    settings = GgmlSettings(2, 65_536)
    assert slot_context_tokens(GEMMA_270M, settings) == 32_768
    assert total_context_tokens(settings) == 131_072  # allocated all the same


def test_values_are_as_wide_as_the_widest_layer_without_flash_attention() -> None:
    """Transposed values: every full layer is padded to 4 heads, the windows to 2 of their own."""
    uneven = replace(GEMMA_270M, attention_layers=(AttentionLayer(1, 64, 64), AttentionLayer(4, 64, 64)), layers=2)
    settings = GgmlSettings(1, 1024)
    assert total_cache_bytes(uneven, settings) == 1024 * 2 * 64 * (2 + 8)
    assert total_cache_bytes(uneven, replace(settings, flash_attention=False)) == 1024 * 2 * 64 * (5 + 8)


def test_checkpoints_hold_the_windows() -> None:
    """The engine printed 7.506 MiB for one checkpoint of gemma3-270m."""
    assert checkpoint_bytes(GEMMA_270M, FOUR) / MIB == pytest.approx(7.506, abs=0.001)
    assert checkpoints_bytes(GEMMA_270M, FOUR) == 4 * 32 * checkpoint_bytes(GEMMA_270M, FOUR)


def test_no_checkpoints_without_windows() -> None:
    assert checkpoint_bytes(QWEN_8B, FOUR) == 0
    assert checkpoint_bytes(GEMMA_270M, replace(FOUR, swa_full=True)) == 0


LATENT = replace(QWEN_8B, attention_layers=(AttentionLayer(1, 576, 0, is_latent=True),) * 61, layers=61)


def test_a_compressed_cache_has_no_values() -> None:
    """deepseek-v3 with 16,384 tokens: 1,098 MiB; builds before keep values as well, 512 wide: 2,074 MiB."""
    settings = GgmlSettings(1, 16_384)
    assert total_cache_bytes(LATENT, settings) == 1098 * MIB
    assert total_cache_bytes(LATENT, settings, Version((7899,))) == 2 * 1098 * MIB >= 2074 * MIB
    assert total_cache_bytes(LATENT, replace(settings, flash_attention=False)) == 1098 * MIB


def test_a_compressed_cache_has_one_type() -> None:
    assert refuses_cache_types(LATENT, "q8_0", "f16", None)
    assert not refuses_cache_types(LATENT, "q8_0", "q8_0", None)
    assert not refuses_cache_types(LATENT, "q8_0", "f16", Version((10_204,)))
    assert not refuses_cache_types(QWEN_8B, "q8_0", "f16", None)


def test_layers_without_heads_are_padded_too_without_flash_attention() -> None:
    """27 of 80 layers with 8 heads of 128, 8,192 tokens: 864 MiB with flash attention, 1,712 without (b11434)."""
    numbered = tuple(AttentionLayer(8, 128, 128, layer=number) for number in range(0, 80, 3))
    sparse = replace(QWEN_8B, attention_layers=numbered, layers=80)
    settings = GgmlSettings(1, 8192)
    assert total_cache_bytes(sparse, settings) == 864 * MIB
    assert total_cache_bytes(sparse, replace(settings, flash_attention=False)) == 1712 * MIB
    shared = replace(sparse, architecture="gemma4")
    assert padding_bytes(shared, replace(settings, flash_attention=False)) == 0


def test_draft_layers_keep_sixteen_bits_of_the_whole_context() -> None:
    """qwen3.5-9b with two slots of 32,768 tokens: 256 MiB beside an 8-bit cache (b11434, draft-mtp)."""
    full = tuple(AttentionLayer(4, 256, 256, layer=number) for number in range(3, 32, 4))
    spec = replace(QWEN_8B, attention_layers=full, layers=32, draft_layers=1)
    settings = quantised(GgmlSettings(2, 32_768), "q8_0")
    assert draft_cache_bytes(spec, settings) == 0
    drafting = replace(settings, draft_tokens=3)
    assert draft_cache_bytes(spec, drafting) == 256 * MIB
    assert total_cache_bytes(spec, drafting) == (1088 + 256) * MIB


def test_older_builds_reserve_logits_for_a_whole_batch() -> None:
    """gemma3-270m: 512 MiB of logits and one vector for each token before, 53 MiB after."""
    default = PRINTED[0][0]
    assert compute_bytes(GEMMA_270M, default, Version((9489,))) / MIB == pytest.approx(513.25 + 1.25, rel=0.001)
    assert compute_bytes(GEMMA_270M, default, Version((9490,))) / MIB == pytest.approx(52.78, rel=0.01)
    assert compute_bytes(GEMMA_270M, default, None) == compute_bytes(GEMMA_270M, default, Version((11434,)))


def test_the_timelines_are_sorted_and_sourced() -> None:
    for timeline in (RESERVES_LOGITS, KEEPS_LATENT_VALUES, REFUSES_MIXED_LATENT_TYPES):
        versions = [row.version for row in timeline.rows]
        assert versions == sorted(versions)
        assert all(row.source for row in timeline.rows)


def test_outputs_and_inputs() -> None:
    assert output_bytes(GEMMA_270M, FOUR) == 4 * MIB
    older = Version((10_809,))
    one = GgmlSettings(1, 8192)
    assert input_bytes(LLAMA_8B, one, older) // MIB == 8 + 2 * 8  # mask, embeddings, vectors
    assert input_bytes(LLAMA_8B, replace(one, flash_attention=False), older) // MIB == 16 + 4 + 2 * 8
    assert input_bytes(LLAMA_8B, one) // MIB == 8 + 5 * 8


@given(models_strategy, settings_strategy)
def test_more_never_takes_less(spec: ModelSpec, settings: GgmlSettings) -> None:
    """Compute buffers: but for the batch, which is rounded up to as many tokens of every slot, and for holes."""
    larger = (
        replace(settings, slots=settings.slots + 1),
        replace(settings, context_tokens_per_slot=settings.context_tokens_per_slot + 257),
        replace(settings, ubatch_tokens=2 * settings.ubatch_tokens, batch_tokens=2 * settings.batch_tokens),
    )
    for other in larger:
        assert total_cache_bytes(spec, other) >= total_cache_bytes(spec, settings)
        rounding = 1 + settings.slots / ubatch_tokens(settings)
        assert 1.06 * rounding * compute_bytes(spec, other) >= compute_bytes(spec, settings)
        assert checkpoints_bytes(spec, other) >= checkpoints_bytes(spec, settings)


@given(settings_strategy)
def test_windows_never_take_more_than_full_attention(settings: GgmlSettings) -> None:
    full = replace(GEMMA_270M, attention_layers=layers(18, 1, 256))
    assert total_cache_bytes(GEMMA_270M, settings) <= total_cache_bytes(full, settings)
