"""What a build of llama-server makes of its settings, and what it takes for those that nobody gives."""

from __future__ import annotations

from dataclasses import replace

import pytest

from llmops.core.hardware import Cpu, Hardware, Memory
from llmops.core.memory.ggml_cache import total_cache_bytes
from llmops.core.memory.ggml_settings import GgmlSettings
from llmops.core.model import AttentionLayer
from llmops.core.plan import Fixed, Shape
from llmops.core.version import Version
from llmops.engines.found import Installation
from llmops.engines.llama_server.builds import settings_as_run
from llmops.engines.llama_server.engine import LlamaServer
from llmops.engines.llama_server.memory import memory_model
from tests.unit.core.example_models import GIB, eight_billion_16_bit

TWO = Shape(slots=2, context_tokens_per_slot=8_192)
ONE = Shape(slots=1, context_tokens_per_slot=8_192)
TRAINED = eight_billion_16_bit().context_tokens_trained
ALL = {
    4_000: (1, TRAINED, 0, 0),
    5_600: (1, 4_096, 0, 0),
    6_500: (1, 4_096, 0, 8),
    7_000: (4, 4_096, 8 * GIB, 8),
    7_500: (4, TRAINED, 8 * GIB, 32),
    11_434: (4, TRAINED, 8 * GIB, 32),
}


def run(shape: Shape, build: int | None) -> GgmlSettings:
    return settings_as_run(shape, (), Version((build,)) if build else None)


@pytest.mark.parametrize(("build", "flash"), [(6_324, False), (6_325, True), (None, True)])
def test_flash_attention_that_nobody_asks_for_is_off_in_older_builds(build: int | None, flash: bool) -> None:
    assert run(TWO, build).flash_attention is flash
    assert run(replace(TWO, flash_attention="on"), build).flash_attention
    assert not run(replace(TWO, flash_attention="off"), build).flash_attention
    assert run(replace(TWO, cache_type_k="q8_0", cache_type_v="q8_0"), build).flash_attention, "it is asked for then"


def test_slots_share_one_pool_before_they_have_caches_of_their_own() -> None:
    assert run(TWO, 6_099).kv_unified
    assert not run(TWO, 6_100).kv_unified


def test_windows_are_kept_whole_before_there_is_a_cache_for_them() -> None:
    assert run(TWO, 5_400).swa_full
    assert not run(TWO, 5_600).swa_full


@pytest.mark.parametrize("build", [6_900, 7_079, 7_432])
def test_one_slot_is_four_where_it_is_not_obeyed(build: int) -> None:
    found = run(ONE, build)
    assert (found.slots, found.context_tokens_per_slot, found.kv_unified) == (4, 2_048, True)
    assert run(TWO, build).slots == 2


@pytest.mark.parametrize("build", [6_899, 7_433, None])
def test_one_slot_is_one_elsewhere(build: int | None) -> None:
    assert run(ONE, build).slots == 1


def test_an_older_build_is_never_promised_less_than_the_newest_uses() -> None:
    machine = Hardware(memory=Memory(64 * GIB, 60 * GIB), cpu=Cpu())
    model = eight_billion_16_bit()
    now = memory_model(machine, model, None)(TWO)[0]
    for build in (4_000, 5_600, 6_200, 7_000, 7_433, 9_100):
        then = memory_model(machine, model, Version((build,)))(TWO)[0]
        assert then.cache_bytes >= now.cache_bytes
        assert then.compute_bytes >= now.compute_bytes


@pytest.mark.parametrize(("build", "expected"), ALL.items())
def test_what_is_not_given_by_build(build: int, expected: tuple[int, int, int, int]) -> None:
    installation = Installation("llama-server", "absent", ("llama-server",), Version((build,)), f"b{build}", None)
    found = LlamaServer().with_defaults(Fixed(), eight_billion_16_bit(), installation, Hardware())
    assert found.slots is not None and found.context_tokens is not None
    assert (
        found.slots,
        found.slots * found.context_tokens,
        found.prompt_cache_bytes,
        found.context_checkpoints,
    ) == expected


def test_a_window_counts_the_batch_after_it_was_cut() -> None:
    """Physical batches are no longer than logical ones, and so is what a window keeps besides."""
    windowed = replace(eight_billion_16_bit(), attention_layers=_in_windows())
    cut = GgmlSettings(slots=1, context_tokens_per_slot=8_192, batch_tokens=256, ubatch_tokens=1_024)
    assert total_cache_bytes(windowed, cut) == total_cache_bytes(windowed, replace(cut, ubatch_tokens=256))
    assert total_cache_bytes(windowed, cut) < total_cache_bytes(windowed, replace(cut, batch_tokens=1_024))


def _in_windows() -> tuple[AttentionLayer, ...]:
    return tuple(replace(layer, window_tokens=1_024) for layer in eight_billion_16_bit().attention_layers)
