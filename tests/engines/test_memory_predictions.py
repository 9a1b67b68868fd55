"""The memory model against a real llama-server: its own buffer sizes, and what the kernel says that it holds."""

from __future__ import annotations

from dataclasses import replace

import pytest

from llmops.core.memory.ggml_cache import checkpoint_bytes, total_cache_bytes
from llmops.core.memory.ggml_compute import compute_bytes, output_bytes
from llmops.core.memory.ggml_resident import resident_bytes
from llmops.core.memory.ggml_runtime import COMPUTE_HIGH
from llmops.core.memory.ggml_settings import slot_context_tokens
from llmops.core.model import ModelSpec
from llmops.host.local import LocalHost
from llmops.models import read_model
from tests.engines.memory_readings import BARE, MIB, SETTINGS, measure, processor

pytestmark = pytest.mark.engines

PRINTED_MIB = 0.011  # two decimals, for one or two caches
COMPUTE_TOLERANCE = 0.01
RESIDENT_TOLERANCE = 0.05


@pytest.fixture(scope="module")
def model(model_path: str) -> ModelSpec:
    """The small real model."""
    return read_model(LocalHost(), model_path)


@pytest.mark.parametrize("name", SETTINGS)
def test_buffers_and_resident_memory(llama_server: tuple[str, ...], model: ModelSpec, name: str) -> None:
    """The cache is exact, the compute buffer within 1 %, the resident memory after a request within 5 %."""
    settings = replace(SETTINGS[name], cpu_flags=processor().flags)
    reading = measure(llama_server, model, settings)
    assert (reading.slots, reading.slot_context_tokens) == (settings.slots, slot_context_tokens(model, settings))
    assert reading.cache_mib == pytest.approx(total_cache_bytes(model, settings) / MIB, abs=PRINTED_MIB)
    assert reading.output_mib == pytest.approx(output_bytes(model, settings) / MIB, abs=PRINTED_MIB)
    assert reading.compute_mib == pytest.approx(compute_bytes(model, settings) / MIB, rel=COMPUTE_TOLERANCE)
    assert reading.compute_mib <= compute_bytes(model, settings) * COMPUTE_HIGH / MIB
    assert reading.resident_bytes == pytest.approx(resident_bytes(model, settings), rel=RESIDENT_TOLERANCE)


def test_a_context_checkpoint(llama_server: tuple[str, ...], model: ModelSpec) -> None:
    """A prompt longer than the window leaves checkpoints of the windows, each as large as predicted and no larger."""
    settings = replace(BARE, slots=1, context_tokens_per_slot=4096, context_checkpoints=4)
    windows = [layer.window_tokens for layer in model.attention_layers if layer.window_tokens]
    if not windows:
        pytest.skip("the model has no sliding window")
    reading = measure(llama_server, model, settings, prompt_tokens=3 * max(windows))
    assert reading.checkpoints_mib
    assert max(reading.checkpoints_mib) == pytest.approx(checkpoint_bytes(model, settings) / MIB, rel=0.01)
