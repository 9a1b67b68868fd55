"""Memory by version of Ollama: which runner, which card, what its own estimate asks for."""

from __future__ import annotations

from dataclasses import replace

import pytest

from llmops.core.hardware import Gpu, Hardware, Memory
from llmops.core.memory.budget import MemoryBudget
from llmops.core.memory.ggml_cache import layer_cells, total_cache_bytes
from llmops.core.memory.ggml_settings import GgmlSettings
from llmops.core.memory.ollama_placement import one_card_since_llama_server, place
from llmops.core.memory.ollama_runner import (
    MINIMUM_MEMORY_BYTES,
    as_it_runs,
    estimated_graph_bytes,
    required_bytes,
    reserve_bytes,
)
from llmops.core.model import ModelSpec
from llmops.core.plan import Shape
from llmops.core.version import Version
from llmops.engines.ollama.memory import memory_model
from tests.unit.core.memory.ggml_models import GEMMA_12B, GPT_OSS_20B, LLAMA_8B, QWEN_8B

GIB, MIB = 1024**3, 1024**2
LLAMA = replace(LLAMA_8B, architecture="llama")
GEMMA = replace(GEMMA_12B, architecture="gemma3")
OSS = replace(GPT_OSS_20B, architecture="gptoss")
SETTINGS = GgmlSettings(2, 8192, batch_tokens=512, ubatch_tokens=512)
SHAPE = Shape(slots=2, context_tokens_per_slot=8192, gpu_layers=33)


def machine(*free_gib: float) -> Hardware:
    cards = tuple(
        Gpu(number, f"GPU-{number}", "made", 24 * GIB, int(free * GIB)) for number, free in enumerate(free_gib)
    )
    return Hardware(memory=Memory(total_bytes=64 * GIB, available_bytes=60 * GIB), gpus=cards)


def budget_of(hardware: Hardware, model: ModelSpec, version: str, shape: Shape = SHAPE) -> dict[str, MemoryBudget]:
    return {row.device: row for row in memory_model(hardware, model, Version.parse(version))(shape)}


def test_its_own_engine_keeps_windows_in_one_pool() -> None:
    model, settings = as_it_runs(GEMMA, SETTINGS, own_engine=True)
    windowed, full = model.attention_layers[0], model.attention_layers[5]
    assert windowed.window_tokens == 1025, "one more for each of several slots"
    assert layer_cells(windowed, settings) == 2816, "2 x 1025 + 512, in blocks of 256"
    assert layer_cells(full, settings) == 16_384


def test_llama_cpp_s_runner_keeps_the_whole_context_everywhere() -> None:
    model, settings = as_it_runs(GEMMA, SETTINGS, own_engine=False)
    assert {layer_cells(layer, settings) for layer in model.attention_layers} == {8192}


@pytest.mark.parametrize(("context", "kept"), [(8192, 4096), (4096, None)])
def test_gpt_oss_remembers_more_than_its_window(context: int, kept: int | None) -> None:
    model, _ = as_it_runs(OSS, replace(SETTINGS, context_tokens_per_slot=context), own_engine=True)
    assert model.attention_layers[0].window_tokens == kept


def test_chunks_are_kept_whole() -> None:
    layers = tuple(replace(layer, window_tokens=8192, is_chunked=True) for layer in LLAMA.attention_layers)
    model, settings = as_it_runs(replace(LLAMA, attention_layers=layers), SETTINGS, own_engine=True)
    assert total_cache_bytes(model, settings) == total_cache_bytes(LLAMA, SETTINGS)


def test_graphs_are_estimated_without_flash_attention_but_for_gpt_oss() -> None:
    whole, part = estimated_graph_bytes(LLAMA, GgmlSettings(4, 2048, batch_tokens=512))
    assert whole / MIB == pytest.approx(560, abs=0.1)
    assert part / MIB == pytest.approx(677.5, abs=0.1)
    assert estimated_graph_bytes(OSS, SETTINGS)[0] == (8 + 16 + 110) * MIB
    without = estimated_graph_bytes(OSS, replace(SETTINGS, flash_attention=False))[0]
    assert without == 2 * GIB, "eight query heads for each head of the cache, twice, a sixth of 768 MiB"
    assert estimated_graph_bytes(QWEN_8B, SETTINGS)[0] > 0, "other families by their cache"


@pytest.mark.parametrize("family", ["stablelm", "deepseek2", "chatglm", "gemma3n", "command-r", "phi2", "qwen2"])
def test_a_part_on_the_processor_asks_for_a_larger_graph(family: str) -> None:
    whole, part = estimated_graph_bytes(replace(LLAMA, architecture=family), SETTINGS)
    assert 0 < whole <= part


def test_the_card_with_most_room_takes_a_model_alone() -> None:
    needed = required_bytes(LLAMA, SETTINGS, 1)
    alone = place(LLAMA, SETTINGS, (needed, needed + 1, needed - 1), by_turns=True)
    assert {*alone.layers, alone.output} == {1}


def test_layers_went_to_cards_by_turns_and_go_by_room() -> None:
    needed = required_bytes(LLAMA, SETTINGS, 1)
    free = (int(0.9 * needed), int(0.6 * needed))
    turns = place(replace(LLAMA), SETTINGS, (int(0.9 * needed),) * 2, by_turns=True)
    assert (turns.layers.count(0), turns.layers.count(1)) == (16, 16)
    room = place(LLAMA, SETTINGS, free, by_turns=False)
    assert room.layers.count(0) > room.layers.count(1) > 0


@pytest.mark.parametrize("by_turns", [True, False])
def test_what_does_not_fit_is_never_left_to_the_processor(by_turns: bool) -> None:
    placement = place(LLAMA, SETTINGS, (GIB, GIB), by_turns=by_turns)
    assert min((*placement.layers, placement.output)) >= 0


def test_from_0_30_one_card_is_enough_where_the_prediction_says_so() -> None:
    assert one_card_since_llama_server(LLAMA, SETTINGS, (20 * GIB, 22 * GIB)) == 1
    assert one_card_since_llama_server(LLAMA, SETTINGS, (3 * GIB, 3 * GIB)) is None
    found = budget_of(machine(20, 22), LLAMA, "0.32.0")
    assert found["gpu0"].used_bytes == 0
    assert found["gpu1"].cache_bytes == total_cache_bytes(LLAMA, SETTINGS)
    shared = budget_of(machine(3, 3), LLAMA, "0.32.0")
    assert shared["gpu0"].cache_bytes > 0
    assert shared["gpu1"].cache_bytes > 0


def test_before_0_30_a_card_holds_ollamas_own_estimate() -> None:
    found = budget_of(machine(20, 22), LLAMA, "0.24.0")
    assert found["gpu0"].used_bytes == 0
    card = found["gpu1"]
    assert card.compute_bytes >= estimated_graph_bytes(LLAMA, SETTINGS)[0]
    assert card.reserve_bytes >= reserve_bytes(LLAMA, SETTINGS) > MINIMUM_MEMORY_BYTES
    assert card.used_bytes >= required_bytes(LLAMA, SETTINGS, 1)


def test_scores_take_memory_where_flash_attention_is_off_by_itself() -> None:
    """llama.cpp's runner before 0.30 had none unless it was asked for."""
    long = replace(SHAPE, context_tokens_per_slot=32_768)
    before, after = (budget_of(machine(22), LLAMA, version, long)["gpu0"] for version in ("0.24.0", "0.32.0"))
    assert before.compute_bytes > 4 * after.compute_bytes
    asked = budget_of(machine(22), LLAMA, "0.24.0", replace(long, flash_attention="off"))["gpu0"]
    assert asked.compute_bytes == before.compute_bytes


@pytest.mark.parametrize(
    ("model", "version", "own"),
    [(GEMMA, "0.9.0", True), (GEMMA, "0.5.13", False), (OSS, "0.11.0", True), (LLAMA, "0.24.0", False)],
)
def test_which_families_its_own_engine_runs(model: ModelSpec, version: str, own: bool) -> None:
    shape = replace(SHAPE, gpu_layers=model.layers + 1, context_tokens_per_slot=32_768)
    settings = replace(SETTINGS, context_tokens_per_slot=32_768)
    runs = as_it_runs(model, settings, own_engine=own)
    card = budget_of(machine(200), model, version, shape)["gpu0"]
    assert card.cache_bytes == total_cache_bytes(*runs)


def test_a_trial_measures_its_own_engine_from_0_11_11_on() -> None:
    model = replace(GEMMA, attention_layers=GEMMA.attention_layers)
    shape = replace(SHAPE, gpu_layers=49, cache_type_k="q8_0", cache_type_v="q8_0")
    estimated, measured = (budget_of(machine(200), model, version, shape)["gpu0"] for version in ("0.11.0", "0.12.0"))
    assert estimated.compute_bytes > measured.compute_bytes
    assert any("own engine" in why for part, _, _, why in measured.ranges if part == "compute_bytes")


def test_on_the_processor_nothing_is_placed() -> None:
    found = budget_of(machine(), LLAMA, "0.24.0", replace(SHAPE, gpu_layers=None))
    assert set(found) == {"host"}
    assert "Ollama's own processes" in " ".join(why for _, _, _, why in found["host"].ranges)


def test_the_first_wrapped_build_still_computes_logits_of_whole_batches() -> None:
    """b9452 is between the two builds of which one does and one does not: it is taken to."""
    first, later = (
        budget_of(machine(), LLAMA, version, replace(SHAPE, gpu_layers=None)) for version in ("0.30.0", "0.31.0")
    )
    logits = 4 * LLAMA.vocabulary_size * 1024
    assert first["host"].compute_bytes - later["host"].compute_bytes > logits / 2
