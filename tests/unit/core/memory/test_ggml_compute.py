"""Compute buffers that llama-server b11434 printed for every family, in MiB; the engine itself is not needed here."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from llmops.core.memory.ggml_compute import card_compute_bytes, compute_bytes, output_bytes, output_rows
from llmops.core.memory.ggml_settings import GgmlSettings
from llmops.core.model import ModelSpec
from llmops.host.local import LocalHost
from llmops.models import read_model
from tests.truth.shapes.published import PUBLISHED
from tests.unit.core.memory.ggml_models import LLAMA_8B, MIB

ONE = GgmlSettings(slots=1, context_tokens_per_slot=8192)
SETTINGS = (
    ONE,
    replace(ONE, slots=4, kv_unified=True),
    replace(ONE, slots=16, context_tokens_per_slot=1024, ubatch_tokens=64),
    replace(ONE, context_tokens_per_slot=32_768, flash_attention=False),
)
PRINTED = {
    "qwen3-8b": (120.02, 144.02, 14.4, 2164.01),
    "gemma3-12b": (137.03, 164.03, 20.94, 1160.52),
    "gpt-oss-20b": (104.4, 128.65, 15.95, 4209.64),
    "qwen3-30b-a3b": (96.02, 120.02, 11.9, 2150.01),
    "command-r7b": (144.53, 180.53, 20.88, 2169.02),
    "llama-4-scout": (124.03, 172.03, 18.84, 2709.02),
    "gemma3n-e4b": (164.03, 189.53, 19.6, 635.52),
    "gemma4-e4b": (116.03, 141.53, 19.35, 648.02),
    "deepseek-v3": (414.01, 438.01, 50.88, 8662.01),
    "deepseek-v2-lite-old": (92.14, 116.14, 10.64, 1128.01),
    "deepseek-v3.2": (666.08, 826.08, 66.31, 8938.08),
    "qwen3-next-80b": (98.02, 122.02, 74.63, 1134.01),
    "qwen3.5-9b": (120.02, 144.02, 77.13, 1148.02),
    "granite-4-h-tiny": (59.02, 84.92, 53.67, 852.01),
    "nemotron-h-8b": (169.16, 208.58, 179.13, 2681.76),
    "jamba-mini": (216.02, 240.02, 33.63, 2156.01),
    "lfm2-1.2b": (76.02, 100.02, 8.63, 2138.01),
    "falcon-h1-7b": (110.02, 134.02, 102.41, 863.01),
    "kimi-linear-48b": (114.51, 138.51, 76.44, 2214.51),
    "mamba-2.8b": (75.38, 76.49, 20.94, 75.38),
    "rwkv6-1.6b": (60.51, 62.01, 23.5, 60.51),
    "phi-3-mini-4k": (86.02, 110.02, 9.88, 2154.01),
    "openelm-1.1b": (73.02, 97.02, 8.25, 1621.51),
}


def made(name: str, directory: Path) -> ModelSpec:
    return read_model(LocalHost(), str(PUBLISHED[name]().write(directory / "model.gguf")))


@pytest.mark.parametrize("name", PRINTED)
def test_printed_figures_of_every_family(name: str, tmp_path: Path) -> None:
    model = made(name, tmp_path)
    for settings, mib in zip(SETTINGS, PRINTED[name], strict=True):
        assert compute_bytes(model, settings) / MIB == pytest.approx(mib, rel=0.065)


def test_a_card_leaves_the_vectors_to_the_host(tmp_path: Path) -> None:
    model = made("qwen3-8b", tmp_path)
    vector = 4 * 512 * 4096
    assert compute_bytes(model, ONE) - card_compute_bytes(model, ONE) == 2 * vector


def test_several_cards_hold_the_inputs_four_times() -> None:
    inputs = 2 * 512 * 8192 + 4 * 512 * 4096
    one, several = card_compute_bytes(LLAMA_8B, ONE), card_compute_bytes(LLAMA_8B, ONE, in_turn=True)
    assert several - one == 3 * inputs


def test_a_card_copies_one_matrix_of_the_host_at_a_time() -> None:
    plain = card_compute_bytes(LLAMA_8B, ONE)
    assert plain + 900 * MIB < card_compute_bytes(LLAMA_8B, ONE, copied_bytes=1024 * MIB) < plain + 1100 * MIB


def test_guessed_tokens_want_logits_too() -> None:
    guessing = replace(ONE, slots=2, draft_tokens=3)
    assert output_rows(guessing) == 8
    assert output_bytes(LLAMA_8B, guessing) == 8 * 4 * 128_256


def test_a_model_whose_tensors_were_not_read_has_plain_layers() -> None:
    assert LLAMA_8B.layer_shapes == ()
    assert compute_bytes(LLAMA_8B, ONE) / MIB == pytest.approx(132.02, abs=0.1)
