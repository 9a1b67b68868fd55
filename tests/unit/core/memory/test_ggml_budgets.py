"""Budgets by device: placement, sums, ranges, unknown memory, shared memory, repacked weights."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmops.core.errors import UnreadableInput
from llmops.core.hardware import Gpu, Hardware, Memory
from llmops.core.memory.budget import PARTS, MemoryBudget
from llmops.core.memory.ggml import budgets, placed
from llmops.core.memory.ggml_cache import checkpoints_bytes, total_cache_bytes
from llmops.core.memory.ggml_compute import compute_bytes, output_bytes
from llmops.core.memory.ggml_resident import copies_bytes, resident_bytes
from llmops.core.memory.ggml_runtime import FIT_MARGIN_BYTES, host_reserve_bytes, process_bytes
from llmops.core.memory.ggml_settings import GgmlSettings
from llmops.core.memory.ggml_weights import (
    HOST,
    largest_matrix_bytes,
    place_layers,
    repacked_bytes,
    repacked_types,
)
from llmops.core.model import ModelSpec
from llmops.models.gguf_projector import Projector, with_projectors
from tests.unit.core.memory.ggml_models import GEMMA_12B, GEMMA_270M, LLAMA_8B, MIB, QWEN_8B

GIB = 1024**3
SETTINGS = GgmlSettings(4, 8192, prompt_cache_bytes=512 * MIB, context_checkpoints=2, cpu_flags=("avx2",))
HOST_8 = Hardware(memory=Memory(total_bytes=8 * GIB, available_bytes=7 * GIB))


def card(index: int, free_gib: int, *, unified: bool = False) -> Gpu:
    return Gpu(index, f"GPU-{index}", "made", 24 * GIB, free_gib * GIB, unified=unified)


def with_cards(*cards: Gpu) -> Hardware:
    return replace(HOST_8, gpus=cards)


def by_device(hardware: Hardware, spec: ModelSpec, settings: GgmlSettings) -> dict[str, MemoryBudget]:
    return {budget.device: budget for budget in budgets(hardware, spec, settings)}


def test_a_host_without_cards_holds_everything() -> None:
    (host,) = budgets(HOST_8, GEMMA_270M, SETTINGS)
    assert (host.device, host.total_bytes, host.available_bytes) == ("host", 8 * GIB, 7 * GIB)
    assert host.weights_bytes == GEMMA_270M.weights_bytes
    assert host.cache_bytes == total_cache_bytes(GEMMA_270M, SETTINGS)
    assert host.output_bytes == output_bytes(GEMMA_270M, SETTINGS)
    assert host.prompt_cache_bytes == 512 * MIB + checkpoints_bytes(GEMMA_270M, SETTINGS)
    assert host.compute_bytes >= compute_bytes(GEMMA_270M, SETTINGS)


def test_cards_are_left_alone_by_a_build_without_them() -> None:
    (host,) = budgets(with_cards(card(0, 20)), QWEN_8B, replace(SETTINGS, gpu_layers=0, opens_cards=False))
    assert host.cache_bytes == total_cache_bytes(QWEN_8B, SETTINGS)


def test_the_first_card_computes_large_batches_where_none_holds_a_layer() -> None:
    found = by_device(with_cards(card(0, 20), card(1, 20)), QWEN_8B, replace(SETTINGS, gpu_layers=0))
    assert found["host"].cache_bytes == total_cache_bytes(QWEN_8B, SETTINGS)
    assert found["gpu0"].weights_bytes == found["gpu0"].cache_bytes == 0
    assert found["gpu0"].compute_bytes > largest_matrix_bytes(QWEN_8B)
    (low,) = (low for part, low, _, _ in found["gpu0"].ranges if part == "compute_bytes")
    assert low == 0  # --no-op-offload
    assert found["gpu1"].compute_bytes == 0
    assert found["gpu1"].runtime_bytes == found["gpu0"].runtime_bytes > 0


def test_small_batches_stay_with_the_processor() -> None:
    small = replace(SETTINGS, gpu_layers=0, ubatch_tokens=16)
    assert by_device(with_cards(card(0, 20)), QWEN_8B, small)["gpu0"].compute_bytes == 0


def test_what_reads_pictures_goes_to_a_card_that_holds_no_layer() -> None:
    sees = with_projectors(QWEN_8B, (Projector(900 * MIB, 1, (100 * MIB, 200 * MIB)),))
    found = by_device(with_cards(card(0, 20)), sees, replace(SETTINGS, gpu_layers=0))
    assert found["gpu0"].weights_bytes == 900 * MIB


def test_one_card_holds_all_but_the_token_embeddings() -> None:
    found = by_device(with_cards(card(0, 20)), QWEN_8B, SETTINGS)
    assert set(found) == {"host", "gpu0"}
    assert found["host"].weights_bytes == 100 * MIB
    assert found["host"].cache_bytes == 0
    assert found["gpu0"].weights_bytes == QWEN_8B.weights_bytes - 100 * MIB
    assert found["gpu0"].cache_bytes == total_cache_bytes(QWEN_8B, SETTINGS)
    assert found["gpu0"].reserve_bytes == FIT_MARGIN_BYTES
    assert found["host"].compute_bytes < found["gpu0"].compute_bytes


def test_a_shared_output_is_a_second_copy_on_the_card() -> None:
    tied = replace(QWEN_8B, tied_output=True)
    found = by_device(with_cards(card(0, 20)), tied, SETTINGS)
    assert found["host"].weights_bytes == 100 * MIB
    assert found["gpu0"].weights_bytes == tied.weights_bytes


def test_layers_follow_the_free_memory_of_the_cards() -> None:
    """llama.cpp: layer i of 33 (32 and the output) goes to the first card whose cumulated share is above i / 33."""
    placement = place_layers(32, None, (3 * GIB, GIB))
    assert placement.layers == (0,) * 25 + (1,) * 7
    assert placement.output == 1
    found = by_device(with_cards(card(0, 18), card(1, 6)), LLAMA_8B, SETTINGS)
    assert found["gpu0"].cache_bytes == total_cache_bytes(LLAMA_8B, SETTINGS) * 25 // 32
    assert found["gpu1"].weights_bytes == 1024 * MIB * 7 // 32 + 81 * MIB


def test_only_the_last_layers_are_offloaded() -> None:
    placement = place_layers(10, 4, (GIB,))
    assert placement.layers == (HOST,) * 7 + (0,) * 3
    assert placement.output == 0
    assert place_layers(10, 99, (GIB,)).layers == (0,) * 10
    assert place_layers(10, None, ()).output == HOST
    assert place_layers(10, None, (0,)).output == HOST


def test_a_card_that_shares_the_hosts_memory_has_no_budget_of_its_own() -> None:
    alone = budgets(HOST_8, QWEN_8B, SETTINGS)[0]
    (host,) = budgets(with_cards(card(0, 7, unified=True)), QWEN_8B, SETTINGS)
    assert host.weights_bytes == QWEN_8B.weights_bytes
    assert host.cache_bytes == alone.cache_bytes
    assert host.available_bytes == 7 * GIB
    assert host.runtime_bytes > alone.runtime_bytes


def test_a_card_may_map_less_of_the_hosts_memory_than_there_is() -> None:
    (whole,) = budgets(with_cards(card(0, 7, unified=True)), QWEN_8B, SETTINGS)
    (host,) = budgets(with_cards(card(0, 4, unified=True)), QWEN_8B, SETTINGS)
    own = host_only_bytes(host)
    assert host.available_bytes == 4 * GIB + own, "4 GiB for the card's parts, beside them the host's own"
    assert host.used_bytes == whole.used_bytes
    assert host.free_bytes < whole.free_bytes


def host_only_bytes(host: MemoryBudget) -> int:
    """The host's parts of a budget, those of a card that holds all layers taken away."""
    on_card = with_cards(replace(card(0, 23), unified=False))
    (gpu,) = (budget for budget in budgets(on_card, QWEN_8B, SETTINGS) if budget.device == "gpu0")
    return host.used_bytes - (gpu.used_bytes - gpu.reserve_bytes)


def test_what_the_tuned_engine_holds_through_a_card_comes_back_to_the_host() -> None:
    busy = Hardware(memory=Memory(total_bytes=8 * GIB, available_bytes=3 * GIB))
    held = replace(card(0, 3, unified=True), held_by_engine_bytes=4 * GIB)
    (host,) = budgets(replace(busy, gpus=(held,)), QWEN_8B, SETTINGS)
    assert host.available_bytes == 7 * GIB


def test_memory_held_by_the_tuned_engine_counts_as_free() -> None:
    held = replace(card(0, 4), held_by_engine_bytes=16 * GIB)
    assert by_device(with_cards(held), QWEN_8B, SETTINGS)["gpu0"].available_bytes == 20 * GIB
    busy = Hardware(memory=Memory(total_bytes=8 * GIB, available_bytes=2 * GIB, held_by_engine_bytes=3 * GIB))
    assert budgets(busy, QWEN_8B, SETTINGS)[0].available_bytes == 5 * GIB


def test_unknown_memory_is_an_error_and_never_zero() -> None:
    with pytest.raises(UnreadableInput, match="memory of this machine is unknown"):
        budgets(Hardware(), QWEN_8B, SETTINGS)
    with pytest.raises(UnreadableInput, match=r"card 0 \(made\)"):
        budgets(with_cards(replace(card(0, 1), free_bytes=None, total_bytes=None)), QWEN_8B, SETTINGS)
    known = by_device(with_cards(replace(card(0, 1), free_bytes=None)), QWEN_8B, SETTINGS)
    assert known["gpu0"].available_bytes == 24 * GIB


@pytest.mark.parametrize(
    ("flags", "repacked", "untouched"),
    [
        (("avx2",), "Q4_K", "Q6_K"),
        (("avx2", "avx512f"), "Q2_K", "Q8_0"),
        (("asimd", "asimddp"), "Q6_K", "Q2_K"),
        (("avx2", "avx512f", "avx512_vnni", "amx_int8"), "Q6_K", "F16"),
    ],
)
def test_which_types_a_processor_repacks(flags: tuple[str, ...], repacked: str, untouched: str) -> None:
    assert repacked in repacked_types(flags)
    assert untouched not in repacked_types(flags)


def test_repacked_weights_are_counted_once_as_need_and_twice_as_resident() -> None:
    """1080 MiB of Q4_K matrices; the embeddings are Q6_K, which AVX2 does not repack."""
    assert repacked_bytes(QWEN_8B, SETTINGS, ("repeating", "output")) == 1080 * MIB
    assert repacked_bytes(QWEN_8B, replace(SETTINGS, repack=False), ("repeating",)) == 0
    assert budgets(HOST_8, QWEN_8B, SETTINGS)[0].weights_bytes == QWEN_8B.weights_bytes
    with_copies = resident_bytes(QWEN_8B, SETTINGS)
    assert with_copies - resident_bytes(QWEN_8B, replace(SETTINGS, cpu_flags=())) == 1080 * MIB


def test_shared_embeddings_exist_twice_when_read_into_memory() -> None:
    """Without a mapped file the rows stay beside the repacked output: measured 90 + 144 MiB for Q4_0 gemma3-270m."""
    arm = replace(SETTINGS, cpu_flags=("asimddp",), memory_mapped=False)
    tied = replace(QWEN_8B, tied_output=True)
    assert budgets(HOST_8, tied, arm)[0].weights_bytes == tied.weights_bytes + 100 * MIB
    assert copies_bytes(tied, arm) == 100 * MIB
    assert budgets(HOST_8, tied, replace(arm, memory_mapped=True))[0].weights_bytes == tied.weights_bytes


@pytest.mark.parametrize(
    ("vocabulary", "merges", "measured_mib"),
    [(32_000, 0, 26.1), (50_257, 50_000, 36.6), (128_256, 280_147, 79.7), (151_936, 151_387, 65.9),
     (256_000, 253_333, 102.7), (262_144, 0, 65.2), (262_144, 514_906, 134.2)],
)  # fmt: skip
def test_the_process_by_its_tokenizer(vocabulary: int, merges: int, measured_mib: float) -> None:
    """Resident memory of a server whose model is one tiny layer, less its buffers, with real tokenizers."""
    low, likely, high = process_bytes(replace(QWEN_8B, vocabulary_size=vocabulary, tokenizer_merges=merges))
    assert low / MIB <= measured_mib <= high / MIB
    assert likely / MIB == pytest.approx(measured_mib, rel=0.06)


def test_an_unknown_tokenizer_widens_the_range() -> None:
    known, unknown = process_bytes(QWEN_8B), process_bytes(replace(QWEN_8B, tokenizer_merges=None))
    assert unknown[0] == known[0]
    assert unknown[2] > 1.5 * known[2]


def test_the_reserve_has_bounds() -> None:
    for size, reserve in ((2 * GIB, 256 * MIB), (8 * GIB, int(8 * GIB * 0.05)), (512 * GIB, GIB)):
        assert host_reserve_bytes(Memory(total_bytes=size, available_bytes=size // 2)) == reserve


def test_a_container_leaves_a_share_of_its_own_limit_free() -> None:
    inside = Memory(total_bytes=64 * GIB, available_bytes=50 * GIB, limit_bytes=6 * GIB, limit_available_bytes=5 * GIB)
    assert inside.usable_bytes == 5 * GIB
    assert host_reserve_bytes(inside) == int(6 * GIB * 0.05)
    # Near the machine's own end its reserve counts, whichever limit is the lower one.
    crowded = replace(inside, available_bytes=5 * GIB + 100 * MIB)
    assert crowded.usable_bytes == 5 * GIB
    assert host_reserve_bytes(crowded) == GIB - 100 * MIB


@given(
    spec=st.sampled_from([GEMMA_270M, GEMMA_12B, QWEN_8B, LLAMA_8B]),
    slots=st.integers(1, 40),
    tokens=st.integers(1, 131_072),
    free=st.lists(st.integers(1, 200), max_size=4),
    unified=st.booleans(),
    gpu_layers=st.one_of(st.none(), st.integers(0, 60)),
    tied=st.booleans(),
)
def test_every_budget_sums(
    spec: ModelSpec, slots: int, tokens: int, free: list[int], unified: bool, gpu_layers: int | None, tied: bool
) -> None:
    hardware = with_cards(*(card(index, gib, unified=unified) for index, gib in enumerate(free)))
    settings = replace(SETTINGS, slots=slots, context_tokens_per_slot=tokens, gpu_layers=gpu_layers)
    found = budgets(hardware, replace(spec, tied_output=tied), settings)
    for budget in found:
        parts = {name: getattr(budget, name) for name in PARTS}
        assert sum(parts.values()) + budget.free_bytes == budget.available_bytes
        assert all(value >= 0 for value in parts.values())
        assert all(0 <= low <= high == parts[name] and why for name, low, high, why in budget.ranges)
    assert sum(budget.cache_bytes for budget in found) == total_cache_bytes(spec, settings)
    weights = sum(budget.weights_bytes for budget in found)
    assert weights in (spec.weights_bytes, spec.weights_bytes + 100 * MIB * tied)


@given(st.integers(1, 20), st.integers(256, 40_000))
def test_more_slots_and_tokens_never_leave_more_free(slots: int, tokens: int) -> None:
    """But for the batch, which is rounded up to as many tokens of every slot: a few MiB."""
    hardware = with_cards(card(0, 20), card(1, 10))
    settings = replace(SETTINGS, slots=slots, context_tokens_per_slot=tokens)
    for other in (replace(settings, slots=slots + 1), replace(settings, context_tokens_per_slot=tokens + 256)):
        pairs = zip(budgets(hardware, QWEN_8B, settings), budgets(hardware, QWEN_8B, other), strict=True)
        assert all(after.free_bytes <= before.free_bytes + 20 * MIB for before, after in pairs)


def test_draft_layers_count_among_the_layers_on_cards_and_hold_nothing_there() -> None:
    """src/llama-model.cpp splits all blocks of the file: 10 of 36 + 1 and the output are 8 layers of the model."""
    drafted = replace(QWEN_8B, draft_layers=1)
    on_card = placed(drafted, replace(SETTINGS, gpu_layers=10), (20 * GIB,))
    assert on_card.layers.count(0) == 8
    assert len(on_card.layers) == 36
    assert HOST not in placed(drafted, replace(SETTINGS, gpu_layers=38), (20 * GIB,)).layers
    assert placed(drafted, replace(SETTINGS, gpu_layers=37), (20 * GIB,)).layers.count(HOST) == 1
