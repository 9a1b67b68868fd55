"""States of recurrent layers: one row for each slot, whatever the context; figures of llama-server b11434."""

from __future__ import annotations

from dataclasses import replace

import pytest

from llmops.core.memory.ggml import Demand, cache_on, draft_weights_on, state_on
from llmops.core.memory.ggml_cache import checkpoint_bytes, total_cache_bytes
from llmops.core.memory.ggml_settings import GgmlSettings
from llmops.core.memory.ggml_state import layer_state_bytes, total_state_bytes
from llmops.core.memory.ggml_weights import HOST, device_weights, place_layers
from llmops.core.model import AttentionLayer, ModelSpec, StateLayer
from tests.unit.core.memory.ggml_models import MIB, QWEN_8B

# Qwen3.5-9B: 24 layers of gated delta rule (4 x (4096 + 2 x 2048) in its convolution), 8 that attend.
HYBRID = replace(
    QWEN_8B,
    architecture="qwen35",
    layers=32,
    attention_layers=tuple(AttentionLayer(4, 256, 256, layer=number) for number in range(3, 32, 4)),
    state_layers=tuple(
        StateLayer("gated_delta", 3 * 8192, 128 * 4096, number) for number in range(32) if number % 4 != 3
    ),
)


@pytest.mark.parametrize(
    ("settings", "mib"),
    [
        (GgmlSettings(1, 8192), 50.25),
        (GgmlSettings(1, 131_072), 50.25),
        (GgmlSettings(4, 33_792, kv_unified=True), 201.0),
        (GgmlSettings(3, 1500, cache_type_k="q8_0", cache_type_v="q8_0"), 150.75),
        (GgmlSettings(2, 32_768, draft_tokens=3), 402.0),
    ],
)
def test_printed_sizes(settings: GgmlSettings, mib: float) -> None:
    assert total_state_bytes(HYBRID, settings) / MIB == mib


def test_families_that_cannot_take_guesses_back_keep_one_row() -> None:
    other = replace(HYBRID, architecture="qwen3next")
    assert total_state_bytes(other, GgmlSettings(1, 8192, draft_tokens=3)) / MIB == 50.25


def test_every_layer_has_the_same_state() -> None:
    assert set(layer_state_bytes(HYBRID, GgmlSettings(1, 8192))) == {4 * (3 * 8192 + 128 * 4096)}


def test_a_checkpoint_holds_the_state_of_one_slot() -> None:
    assert checkpoint_bytes(HYBRID, GgmlSettings(4, 8192)) / MIB == 50.25


def demand(spec: ModelSpec, settings: GgmlSettings, gpu_layers: int) -> Demand:
    return Demand(spec, settings, None, place_layers(spec.layers, gpu_layers, (20 * 1024 * MIB,)))


def test_states_and_caches_lie_with_their_layers() -> None:
    """The last layers are on the card, with the output layer on top: 16 of 32, 8, none."""
    settings = GgmlSettings(2, 8192)
    states, caches = total_state_bytes(HYBRID, settings), total_cache_bytes(HYBRID, settings)
    for gpu_layers, share in ((17, 2), (9, 4)):
        asked = demand(HYBRID, settings, gpu_layers)
        assert (state_on(0, asked), state_on(HOST, asked)) == (states // share, states - states // share)
        assert (cache_on(0, asked), cache_on(HOST, asked)) == (caches // share, caches - caches // share)
    assert state_on(HOST, demand(HYBRID, settings, 0)) == states


def test_weights_of_draft_layers_count_only_while_they_run() -> None:
    own = replace(HYBRID.tensors[0], role="draft", stored_bytes=7 * MIB)
    drafted = replace(HYBRID, draft_layers=1, tensors=(*HYBRID.tensors, own))
    for tokens, size in ((0, 0), (3, 7 * MIB)):
        asked = demand(drafted, GgmlSettings(1, 8192, draft_tokens=tokens), 4)
        assert (draft_weights_on(0, asked), draft_weights_on(HOST, asked)) == (size, 0)
        assert device_weights(drafted, asked.placement, 0) == device_weights(HYBRID, asked.placement, 0)
