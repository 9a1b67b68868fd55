"""Caches and states of thirty families against llama-server's own pass without allocation, which is exact.

Published sizes first, then sizes drawn by chance; `benchmarks/cache_variations.py` draws more of those.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from llmops.core.memory.ggml_cache import layer_cells, total_cache_bytes
from llmops.core.memory.ggml_settings import GgmlSettings
from llmops.core.memory.ggml_state import total_state_bytes
from llmops.core.memory.ggml_weights import HOST, Placement, device_weights
from llmops.core.model import ModelSpec
from llmops.host.local import LocalHost
from llmops.models import read_model
from tests.engines.conftest import llama_server  # noqa: F401 (the fixture)
from tests.truth.shapes.fit_pass import FitReading, fit_pass
from tests.truth.shapes.published import PUBLISHED
from tests.truth.shapes.shape import Shape
from tests.truth.shapes.variations import Case, draw

pytestmark = pytest.mark.engines

MIB = 1024**2
PRINTED_MIB = 0.006  # two decimals for each cache
TOLERANCE = 0.001
SEED, DRAWN = 4, 22
ONE = GgmlSettings(slots=1, context_tokens_per_slot=8192, prompt_cache_bytes=0)
SETTINGS = {
    "1 x 8192": ONE,
    "3 x 1500, one pool, 8 bit": replace(
        ONE, slots=3, context_tokens_per_slot=1500, kv_unified=True, cache_type_k="q8_0", cache_type_v="q8_0"
    ),
    "2 x 4096, no flash attention": replace(
        ONE, slots=2, context_tokens_per_slot=4096, flash_attention=False, ubatch_tokens=256
    ),
}
# Settings at the ends of what the engine takes: more slots than tokens of a batch, batches that are cut, tiny contexts.
AT_THE_ENDS = {
    "physical batch cut": replace(ONE, slots=2, batch_tokens=256, ubatch_tokens=1024),
    "256 slots": replace(ONE, slots=256, context_tokens_per_slot=300),
    "256 slots, one pool": replace(ONE, slots=256, context_tokens_per_slot=512, kv_unified=True),
    "less than a window": replace(ONE, slots=2, context_tokens_per_slot=768, ubatch_tokens=128),
    "one block": replace(ONE, context_tokens_per_slot=100),
    "odd share of a pool": replace(ONE, slots=8, context_tokens_per_slot=777, kv_unified=True),
    "five bits and 16": replace(ONE, slots=3, context_tokens_per_slot=5001, cache_type_k="q5_1", kv_unified=True),
    "whole windows": replace(ONE, slots=4, context_tokens_per_slot=1024, swa_full=True, kv_unified=True),
    "one token at a time": replace(ONE, batch_tokens=1, ubatch_tokens=1),
}
# Loaded with a copy of the token embeddings that a mapped file does not need (the tensor is asked for twice).
EMBEDDINGS_TWICE = ("gemma3n", "gemma4")


def check(model: ModelSpec, settings: GgmlSettings, reading: FitReading) -> None:
    """The sums, and the cells of every cache."""
    printed = sum(cache.mib for cache in reading.caches), sum(state.mib for state in reading.states)
    assert reading.caches or reading.states, "\n".join(reading.lines[-15:])
    for found, predicted in zip(
        printed, (total_cache_bytes(model, settings), total_state_bytes(model, settings)), strict=True
    ):
        assert predicted / MIB == pytest.approx(found, rel=TOLERANCE, abs=2 * PRINTED_MIB)
    cells = {layer_cells(layer, settings) for layer in model.attention_layers}
    assert {cache.cells for cache in reading.caches if cache.layers} == cells


def read(path: Path, shape: Shape) -> ModelSpec:
    return read_model(LocalHost(), str(shape.write(path)))


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
@pytest.mark.parametrize("name", PUBLISHED)
def test_published_sizes(name: str, settings: GgmlSettings, tmp_path: Path, llama_server: tuple[str, ...]) -> None:  # noqa: F811
    path = tmp_path / "model.gguf"
    model = read(path, PUBLISHED[name]())
    reading = fit_pass(llama_server, path, settings)
    check(model, settings, reading)
    if reading.model_mib is not None and model.architecture not in EMBEDDINGS_TWICE:
        host = Placement((HOST,) * model.layers, HOST)
        assert device_weights(model, host, HOST) / MIB == pytest.approx(reading.model_mib, rel=TOLERANCE, abs=1)


@pytest.mark.parametrize("settings", AT_THE_ENDS.values(), ids=AT_THE_ENDS)
@pytest.mark.parametrize("name", ["gemma3-12b", "gpt-oss-20b", "qwen3-8b"])
def test_settings_at_the_ends(name: str, settings: GgmlSettings, tmp_path: Path, llama_server: tuple[str, ...]) -> None:  # noqa: F811
    path = tmp_path / "model.gguf"
    check(read(path, PUBLISHED[name]()), settings, fit_pass(llama_server, path, settings))


@pytest.mark.parametrize("case", list(draw(SEED, DRAWN)), ids=lambda case: case.name)
def test_drawn_sizes(case: Case, tmp_path: Path, llama_server: tuple[str, ...]) -> None:  # noqa: F811
    path = tmp_path / "model.gguf"
    model = read(path, case.shape)
    check(model, case.settings, fit_pass(llama_server, path, case.settings))


@pytest.mark.parametrize("name", ["qwen3.5-9b-mtp", "glm-4.5-air"])
def test_layers_that_guess(name: str, tmp_path: Path, llama_server: tuple[str, ...]) -> None:  # noqa: F811
    """With draft-mtp and its three tokens: rows of state for taking back, weights, and a second, 16-bit cache."""
    path = tmp_path / "model.gguf"
    model = read(path, PUBLISHED[name]())
    settings = replace(ONE, slots=2, cache_type_k="q8_0", cache_type_v="q8_0", draft_tokens=3)
    reading = fit_pass(llama_server, path, settings, ("--spec-type", "draft-mtp"), summaries=2)
    check(model, settings, reading)
    host = Placement((HOST,) * model.layers, HOST)
    draft = sum(group.stored_bytes for group in model.tensors if group.role == "draft")
    assert (device_weights(model, host, HOST) + draft) / MIB == pytest.approx(reading.model_mib, abs=1)
