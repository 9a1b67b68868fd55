"""A draft model beside the one that llama-server serves: its weights, its cache for every slot, its graph."""

from __future__ import annotations

from dataclasses import replace

import pytest

from llmops.core.hardware import Gpu, Hardware, Memory
from llmops.core.memory.ggml_cache import total_cache_bytes
from llmops.core.memory.ggml_settings import GgmlSettings
from llmops.core.plan import Shape
from llmops.engines.llama_server.memory import memory_model
from tests.unit.core.memory.ggml_models import LLAMA_8B, QWEN_30B, QWEN_600M

GIB = 1024**3
CARD = Gpu(0, None, "made", 80 * GIB, 80 * GIB)
MACHINE = Hardware(memory=Memory(total_bytes=64 * GIB, available_bytes=60 * GIB), gpus=(CARD,))
SHAPE = Shape(slots=3, context_tokens_per_slot=8192, gpu_layers=33)


@pytest.mark.parametrize("cache_type", ["f16", "q8_0"])
def test_its_cache_is_as_long_as_the_slots_and_in_16_bits(cache_type: str) -> None:
    shape = replace(SHAPE, cache_type_k=cache_type, cache_type_v=cache_type)
    alone, both = (memory_model(MACHINE, LLAMA_8B, None, draft)(shape) for draft in (None, QWEN_600M))
    added = both[1].cache_bytes - alone[1].cache_bytes
    assert added == total_cache_bytes(QWEN_600M, GgmlSettings(3, 8192))
    assert both[1].weights_bytes - alone[1].weights_bytes == QWEN_600M.weights_bytes - 100 * 1024**2
    assert both[1].compute_bytes > alone[1].compute_bytes
    assert both[0].output_bytes > alone[0].output_bytes
    assert (both[1].runtime_bytes, both[1].reserve_bytes) == (alone[1].runtime_bytes, alone[1].reserve_bytes)


def test_experts_of_the_main_model_in_main_memory_leave_the_draft_on_the_card() -> None:
    some = replace(SHAPE, gpu_layers=49, cpu_expert_layers=20)
    whole, split = (memory_model(MACHINE, LLAMA_8B, None, QWEN_30B)(shape) for shape in (SHAPE, some))
    assert split[1].weights_bytes == whole[1].weights_bytes
