"""The profiled pass of picture encoders: their largest inputs by family and version, and the rows alive for a patch."""

from __future__ import annotations

from dataclasses import replace

import pytest

from llmops.core.memory.vllm_defaults import Batch, CardFacts
from llmops.core.memory.vllm_encoder import encoder_pass
from llmops.core.memory.vllm_encoder_facts import TOWERS
from llmops.core.memory.vllm_settings import VllmSettings
from llmops.core.model import EncoderShape, ModelSpec
from llmops.core.units import GIB
from llmops.core.version import Version
from tests.unit.core.memory.vllm_models import full, model

QWEN3 = EncoderShape(1_152, 4_304, 4, 16_384, kind="qwen3_5", patch_length=1_536)
QWEN25 = EncoderShape(1_280, 3_420, 4, 16_384, kind="qwen2_5_vl", patch_length=1_176)
GEMMA4 = EncoderShape(1_152, 4_304, 9, 2_496, kind="gemma4_vision", patch_length=768, positions=10_240)
GLM4V = EncoderShape(1_536, 4_096, 4, 144, kind="glm4v_vision", patch_length=1_176)
VOXTRAL = EncoderShape(1_280, 5_120, 4, 375, kind="voxtral_encoder")
CARD = CardFacts(80 * GIB)


def seeing(shape: EncoderShape) -> ModelSpec:
    return replace(model(full(4)), encoder=shape)


def span(
    shape: EncoderShape, version: tuple[int, ...] = (0, 32, 0), tokens: int = 8_192, requests: int = 16, **more: object
) -> tuple[int, int, int]:
    asked = VllmSettings(**{"version": Version(version), "max_model_len": 32_768, **more})  # type: ignore[arg-type]
    found = encoder_pass(seeing(shape), asked, Batch(tokens, requests), CARD)
    assert found is not None
    return found.low, found.high, found.kept


def test_a_model_without_an_encoder_has_no_such_pass() -> None:
    assert encoder_pass(model(full(4)), VllmSettings(max_model_len=8_192), Batch(2_048, 8), CARD) is None


def test_the_largest_picture_takes_what_was_counted_in_the_module_itself() -> None:
    # 65,536 patches of 30,880 bytes each: the module of vLLM 0.32.0 with every live tensor watched.
    low, high, kept = span(QWEN3)
    assert low < 65_536 * 30_880 < high
    assert high - low < 0.6 * low
    assert kept == 16_384 * 2 * seeing(QWEN3).embedding_length


@pytest.mark.parametrize(
    ("shape", "counted_bytes"),
    [
        (EncoderShape(1_152, 4_304, 9, 1_377, kind="smolvlm_vision", patch_length=588), 27_609),
        (EncoderShape(1_024, 4_096, 1, 2_880, kind="clip_vision_model", patch_length=588), 33_942),
        (EncoderShape(768, 768, 144, 256, kind="gemma3n_vision"), 188_817_408 // 192**2),
    ],
)
def test_small_encoders_take_what_was_counted_in_their_modules(shape: EncoderShape, counted_bytes: int) -> None:
    low, high, kept = span(shape, requests=1)
    patches = kept // 2 // seeing(shape).embedding_length * shape.patches_per_token
    assert low < patches * counted_bytes < high


def test_a_tensor_parallel_group_divides_all_but_the_stream() -> None:
    alone, two = span(QWEN3)[0], span(QWEN3, tensor_parallel=2)[0]
    assert 0.5 * alone < two < 0.8 * alone


def test_as_many_pictures_as_a_step_holds_are_encoded_together() -> None:
    assert span(QWEN3, tokens=65_536)[0] == 4 * span(QWEN3)[0]
    assert span(QWEN3, tokens=65_536, requests=1)[0] == 2 * span(QWEN3)[0], "a request holds two"


@pytest.mark.parametrize(
    ("version", "longest", "pairs"),
    [
        ((0, 32, 0), 8_192, 1),
        ((0, 32, 0), 32_768, 2),
        ((0, 32, 0), 128_000, 7),
        ((0, 32, 0), 1_000_000, 7),
        ((0, 10, 2), 1_000_000, 8),
    ],
)
def test_videos_of_qwen2_grow_with_the_context(version: tuple[int, ...], longest: int, pairs: int) -> None:
    kept = span(QWEN25, version, max_model_len=longest, max_num_batched_tokens=2_048)[2]
    assert kept == pairs * span(QWEN25, version, max_model_len=8_192)[2]


@pytest.mark.parametrize(
    ("version", "longest", "tokens"),
    [
        ((0, 16, 0), 32_768, 7 * 3_750),
        ((0, 17, 0), 8_192, 6_144),
        ((0, 32, 0), 32_768, 4 * 6_144),
        ((0, 32, 0), 65_536, 30_000),
    ],
)
def test_videos_of_glm_grow_beside_one_picture(version: tuple[int, ...], longest: int, tokens: int) -> None:
    low, high, kept = span(GLM4V, version=version, tokens=2_048, max_model_len=longest)
    assert kept == 2 * tokens * seeing(GLM4V).embedding_length
    # 50,736 bytes for a patch: the module of vLLM 0.32.0 with every live tensor watched.
    assert low < 4 * tokens * 50_736 < high


def test_sound_as_long_as_the_longest_request_is_profiled() -> None:
    short, long = span(VOXTRAL, max_model_len=8_192), span(VOXTRAL, max_model_len=32_768)
    assert long[1] == pytest.approx(4 * short[1], rel=1e-6)


@pytest.mark.parametrize("kind", ["qwen3_5", "qwen3_vl_moe", "qwen2_vl", "qwen2_5_vl", "glm4v_moe"])
def test_newer_names_of_an_encoder_are_the_same_encoder(kind: str) -> None:
    assert span(replace(QWEN25, kind=kind)) == span(replace(QWEN25, kind=f"{kind}_vision"))


def test_qwen3_was_profiled_with_a_video_and_a_cache_twelve_times_its_tokens() -> None:
    shape = replace(QWEN3, kind="qwen3_vl_moe", outputs=4)
    width = 2 * 4 * seeing(shape).embedding_length
    assert span(shape, (0, 11, 0))[2] == 153_600 * width
    assert span(shape, (0, 12, 0))[2] == 12_288 * width
    assert span(shape, (0, 13, 0))[2] == 16_384 * width


def test_rotations_were_made_in_32_bits() -> None:
    before, after = span(QWEN25, (0, 12, 0)), span(QWEN25, (0, 13, 0))
    assert before[0] == after[0] and before[1] > 1.2 * after[1]


def test_gemma4_takes_frames_one_by_one_then_as_many_as_a_tenth_of_the_card() -> None:
    one_by_one, chunks, rows = (span(GEMMA4, version) for version in ((0, 21, 0), (0, 22, 1), (0, 25, 1)))
    assert one_by_one[1] < 0.8 * GIB
    # A tenth of 80 GiB over 206 MB is 41 frames of 630 patches, whose positions take 129 MB each.
    assert chunks[1] > 41 * 630 * 20 * 10_240
    assert rows[1] < chunks[1] / 3 and rows[0] == chunks[0]


def test_pictures_kept_apart_by_a_square_of_their_patches() -> None:
    pixtral = EncoderShape(1_024, 4_096, 4, 3_025, kind="pixtral", patch_length=588)
    before, after = span(pixtral, (0, 18, 0)), span(pixtral, (0, 32, 0))
    assert before[1] - after[1] == 4 * (2 * 12_100) ** 2


@pytest.mark.parametrize("kind", sorted(TOWERS))
def test_every_kind_has_a_least_and_a_most(kind: str) -> None:
    low, high, _ = span(replace(GEMMA4, kind=kind))
    assert 0 < low < high
