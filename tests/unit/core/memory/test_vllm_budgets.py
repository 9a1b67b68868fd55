"""The budgets of a vLLM server: what the cache gets of a card, of several, of the host's memory."""

from __future__ import annotations

from dataclasses import replace

import pytest

from llmops.core.errors import UnreadableInput, UsageError
from llmops.core.hardware import Hardware, Memory
from llmops.core.memory.budget import MemoryBudget
from llmops.core.memory.vllm import SERVER_BYTES, budgets
from llmops.core.memory.vllm_defaults import Batch, CardFacts, batch
from llmops.core.memory.vllm_overhead import activation, captured_sizes, graphs_inside, token_bytes
from llmops.core.memory.vllm_settings import VllmSettings
from llmops.core.memory.vllm_weights import card_weights, stage_bytes
from llmops.core.model import AttentionLayer, EncoderShape, ModelSpec, TensorGroup
from llmops.core.units import GIB, MIB
from llmops.core.version import Version
from tests.unit.core.memory.vllm_models import card, full, machine, model

SERVED = model(full(32, heads=8, length=128), weights_bytes=16 * 10**9, parameters=8 * 10**9)
SETTINGS = VllmSettings(version=Version((0, 33, 0)), max_model_len=4_096, max_num_seqs=16)


def cards(hardware: Hardware, settings: VllmSettings, served: ModelSpec = SERVED) -> tuple[MemoryBudget, ...]:
    return budgets(hardware, served, settings)[1:]


def span(budget: MemoryBudget, part: str) -> tuple[int, int]:
    return next((low, high) for name, low, high, _ in budget.ranges if name == part)


def test_parts_at_their_high_ends_leave_the_cache_the_low_end() -> None:
    host, own = budgets(machine(card()), SERVED, SETTINGS)
    assert (host.device, own.device) == ("host", "gpu0")
    low, high = span(own, "cache_bytes")
    requested = int((24_564 - 620) * MIB * 0.92)
    assert own.cache_bytes == low < high
    assert own.weights_bytes + own.compute_bytes + own.runtime_bytes + own.cache_bytes == requested
    assert own.free_bytes == own.available_bytes - own.used_bytes >= 0
    assert all(why for *_, why in own.ranges)


def test_the_share_is_the_versions_own_unless_given() -> None:
    def share(**more: object) -> int:
        settings = replace(SETTINGS, enforce_eager=True, **more)  # type: ignore[arg-type]
        own = cards(machine(card()), settings)[0]
        return own.used_bytes - own.reserve_bytes

    whole = (24_564 - 620) * MIB
    assert share(version=Version((0, 19, 1))) == int(whole * 0.9)
    assert share(version=Version((0, 20, 0))) == int(whole * 0.92)
    assert share(gpu_memory_utilization=0.5, weights_rank_bytes=GIB) == int(whole * 0.5)


def test_a_fixed_cache_has_no_range_and_exact_tokens() -> None:
    own = cards(machine(card()), replace(SETTINGS, kv_memory_bytes=4 * GIB))[0]
    assert [part for part, *_ in own.ranges] == ["weights_bytes", "compute_bytes", "runtime_bytes"]
    assert (own.cache_bytes, own.cache_tokens, own.usable_cache_tokens) == (4 * GIB, 32_768, 32_752)
    assert own.max_concurrency == 8.0


def test_what_a_first_boot_printed_replaces_what_is_computed() -> None:
    printed = replace(SETTINGS, weights_rank_bytes=15 * GIB, available_cache_bytes=5 * GIB)
    own = cards(machine(card()), printed)[0]
    assert (own.weights_bytes, own.cache_bytes, own.cache_tokens) == (15 * GIB, 5 * GIB, 40_960)


def test_a_cache_of_given_size_is_counted_without_a_card() -> None:
    own = cards(machine(), replace(SETTINGS, kv_memory_bytes=4 * GIB))[0]
    assert (own.cache_tokens, own.free_bytes) == (32_768, 0)
    with pytest.raises(UsageError, match="no graphics card"):
        budgets(machine(), SERVED, SETTINGS)


def test_a_card_that_is_in_use_does_not_start_the_engine() -> None:
    assert cards(machine(card(free_bytes=20 * GIB)), SETTINGS)[0].free_bytes < 0


def test_a_pool_too_small_for_one_request_shows_what_is_missing() -> None:
    own = cards(machine(card()), replace(SETTINGS, max_model_len=131_072))[0]
    assert own.max_concurrency is not None and own.max_concurrency < 1
    assert own.cache_bytes == 131_072 * 32 * 8 * 128 * 2 * 2
    assert own.free_bytes < 0


def test_graphs_are_inside_the_share_since_0_20_and_beside_it_before() -> None:
    old = cards(machine(card()), replace(SETTINGS, version=Version((0, 19, 1)), gpu_memory_utilization=0.9))[0]
    new = cards(machine(card()), replace(SETTINGS, version=Version((0, 20, 0)), gpu_memory_utilization=0.9))[0]
    graphs = span(new, "runtime_bytes")[1] - 300 * MIB
    assert old.cache_bytes - new.cache_bytes == graphs
    eager = cards(machine(card()), replace(SETTINGS, enforce_eager=True, gpu_memory_utilization=0.9))[0]
    assert span(eager, "runtime_bytes")[1] == 300 * MIB


@pytest.mark.parametrize(
    ("device", "version", "inside"),
    [
        ("rocm", (0, 25, 1), False),
        ("rocm", (0, 26, 0), True),
        ("xpu", (0, 30, 0), False),
        ("xpu", (0, 31, 0), True),
        ("cpu", (0, 33, 0), False),
    ],
)
def test_other_cards_estimate_their_graphs_later(device: str, version: tuple[int, ...], inside: bool) -> None:
    assert graphs_inside(VllmSettings(version=Version(version), device=device)) is inside


def test_an_encoder_of_an_unknown_kind_may_take_anything_up_to_a_wide_guess() -> None:
    step = Batch(2_048, 16)
    seeing = replace(SERVED, encoder=EncoderShape(1_152, 4_304, 4, 16_384))
    low, high, why = activation(seeing, SETTINGS, step)
    assert low == activation(SERVED, SETTINGS, step)[0]
    # 65,536 patches of 39,648 bytes each, 1.6 times, and 16,384 tokens of 1,024 values.
    assert high == int(65_536 * 39_648 * 1.6) + 16_384 * 2_048
    assert "pictures" in why
    # A step that holds more tokens than the largest picture has takes several pictures.
    assert activation(seeing, SETTINGS, Batch(32_768, 16))[1] > 1.9 * high


def test_experts_of_4_bit_floats_need_several_copies_of_every_row() -> None:
    experts = {"experts": 64, "experts_used": 8, "expert_feed_forward_length": 512}
    plain, packed = (token_bytes(replace(SERVED, quantization=name, **experts), 1) for name in ("fp8", "nvfp4"))  # type: ignore[arg-type]
    assert packed - plain == 2 * 8 * 5 * SERVED.embedding_length


def test_graphs_are_captured_for_few_sizes_where_few_requests_run() -> None:
    assert [captured_sizes(requests) for requests in (1, 8, 256, 1_024)] == [2, 5, 51, 51]
    plain = cards(machine(card()), SETTINGS)[0]
    adapted = cards(machine(card()), replace(SETTINGS, adapters=True))[0]
    assert adapted.cache_bytes < plain.cache_bytes


def test_tensor_parallel_divides_weights_and_cache_over_cards() -> None:
    two = cards(machine(card(), replace(card(), index=1)), replace(SETTINGS, tensor_parallel=2))
    assert [own.device for own in two] == ["gpu0", "gpu1"]
    alone = cards(machine(card()), SETTINGS)[0]
    assert two[0].weights_bytes < alone.weights_bytes * 0.52
    assert two[0].cache_tokens is not None and alone.cache_tokens is not None
    assert two[0].cache_tokens > 3 * alone.cache_tokens


def test_the_smallest_card_limits_all() -> None:
    settings = replace(SETTINGS, tensor_parallel=2)
    uneven = cards(machine(card(), replace(card(16_376 * MIB), index=1)), settings)
    small = cards(machine(card(16_376 * MIB), replace(card(16_376 * MIB), index=1)), settings)
    assert {own.cache_tokens for own in uneven} == {small[0].cache_tokens}


def test_projections_into_latent_vectors_are_on_every_shard() -> None:
    latent = replace(SERVED, attention_layers=(AttentionLayer(1, 576, 0, is_latent=True, layer=0),) * 32)
    _, high, why = card_weights(latent, replace(SETTINGS, tensor_parallel=8), 0)
    assert high - 16 * 10**9 * 1.01 / 8 - 64 * MIB == pytest.approx(32 * 4 * 576 * 1_024 * 2, rel=0.01)
    assert "whole on every card" in why


def test_stages_share_layers_and_hold_their_own_ends() -> None:
    groups = (
        TensorGroup("input", "bf16", 1, 0, 10**9, 10**9),
        TensorGroup("output", "bf16", 1, 0, 2 * 10**9, 2 * 10**9),
        TensorGroup("repeating", "bf16", 1, 0, 13 * 10**9, 13 * 10**9),
    )
    served = replace(SERVED, tensors=groups)
    settings = replace(SETTINGS, pipeline_parallel=2)
    assert [stage_bytes(served, settings, stage) for stage in range(2)] == [7_500_000_000, 8_500_000_000]
    tied = replace(served, tied_output=True, weights_bytes=14 * 10**9, tensors=(groups[0], groups[2]))
    assert stage_bytes(tied, settings, 1) == 7_500_000_000


def test_layers_that_guess_next_tokens_are_loaded_only_for_that() -> None:
    groups = (TensorGroup("draft", "bf16", 1, 0, 10**9, 10**9), TensorGroup("repeating", "bf16", 1, 0, 15 * 10**9, 0))
    served = replace(SERVED, tensors=groups)
    plain, drafting = (card_weights(served, replace(SETTINGS, draft_layers=layers), 0) for layers in (0, 1))
    assert plain[1] == int(15 * 10**9 * 1.01) + 64 * MIB
    assert drafting[1] == int(16 * 10**9 * 1.01) + 64 * MIB


def test_weights_computed_for_a_quantised_checkpoint_are_a_wide_range() -> None:
    computed = replace(SERVED, weights_basis="config", quantization_method="fp8")
    low, high, why = card_weights(computed, SETTINGS, 0)
    assert low < 16 * 10**9 * 0.98 and high > 16 * 10**9 * 1.05
    assert "config.json" in why


def test_memory_that_card_and_host_share_is_one_budget() -> None:
    shared = card(120 * GIB, 100 * GIB, unified=True)
    (host,) = budgets(machine(shared, total=120 * GIB, available=100 * GIB), SERVED, SETTINGS)
    assert host.device == "host"
    assert host.weights_bytes > 16 * 10**9
    assert host.cache_tokens and host.needed_cache_bytes


def test_a_server_without_cards_takes_a_share_of_the_host() -> None:
    plain = replace(SETTINGS, device="cpu", version=Version((0, 32, 0)))
    (host,) = budgets(machine(), SERVED, plain)
    low, high = span(host, "cache_bytes")
    assert low < high < 64 * GIB * 0.92 - 15 * 10**9
    # With the other parts at their high ends it is the least; together they are the share, and the processes beside it.
    assert host.cache_bytes == low
    beside = SERVER_BYTES[1] + host.reserve_bytes
    assert host.used_bytes == pytest.approx(64 * GIB * 0.92 + beside, rel=1e-6)
    assert host.cache_tokens is not None and host.cache_tokens <= low // (32 * 8 * 128 * 4)


@pytest.mark.parametrize(("version", "size"), [((0, 12, 0), 4 * GIB), ((0, 17, 0), 32 * GIB)])
def test_the_processors_cache_had_other_defaults(version: tuple[int, ...], size: int) -> None:
    (host,) = budgets(machine(), SERVED, replace(SETTINGS, device="cpu", version=Version(version)))
    assert host.cache_bytes == size


def test_a_fixed_cache_of_the_processor_is_exact() -> None:
    (host,) = budgets(machine(), SERVED, replace(SETTINGS, device="cpu", kv_memory_bytes=GIB))
    assert (host.cache_bytes, host.cache_tokens, host.usable_cache_tokens) == (GIB, 8_192, 8_064)


def test_an_unknown_host_is_refused() -> None:
    with pytest.raises(UnreadableInput, match="memory of this machine"):
        budgets(Hardware(memory=Memory()), SERVED, replace(SETTINGS, device="cpu"))


@pytest.mark.parametrize(
    ("facts", "version", "expected"),
    [
        (CardFacts(24 * GIB, "NVIDIA L4"), (0, 33, 0), (2_048, 256)),
        (CardFacts(80 * GIB, "NVIDIA H100"), (0, 33, 0), (8_192, 1_024)),
        (CardFacts(80 * GIB, "NVIDIA A100-SXM4-80GB"), (0, 33, 0), (2_048, 256)),
        (CardFacts(180 * GIB, "NVIDIA B200"), (0, 33, 0), (16_384, 1_024)),
        (CardFacts(180 * GIB, "NVIDIA B200"), (0, 27, 0), (8_192, 1_024)),
        (CardFacts(120 * GIB, "NVIDIA GB10", (12, 1)), (0, 33, 0), (2_048, 256)),
        (CardFacts(120 * GIB, "NVIDIA GB10", (12, 1)), (0, 32, 0), (8_192, 1_024)),
    ],
)
def test_batches_by_card(facts: CardFacts, version: tuple[int, ...], expected: tuple[int, int]) -> None:
    step = batch(SERVED, VllmSettings(version=Version(version), max_model_len=32_768), facts)
    assert (step.tokens, step.requests) == expected


def test_batches_of_the_processor_grow_with_its_ranks_and_are_held_to_the_context() -> None:
    step = batch(SERVED, VllmSettings(device="cpu", tensor_parallel=2, max_model_len=32_768), CardFacts())
    assert (step.tokens, step.requests) == (4_096, 256)
    short = batch(SERVED, VllmSettings(max_model_len=100, max_num_seqs=4), CardFacts())
    assert short.tokens == 400


def test_32_bit_matrices_are_loaded_in_16_bits_and_scales_are_not() -> None:
    groups = (
        TensorGroup("repeating", "F32", 2, 2_000_000_000, 8_000_000_000, 7_900_000_000),
        TensorGroup("output", "BF16", 1, 500_000_000, 1_000_000_000, 1_000_000_000),
    )
    plain = replace(model(full(2)), tensors=groups, weights_bytes=9_000_000_000, quantization_method=None)
    low, high, why = card_weights(plain, SETTINGS, 0)
    assert low <= 9_000_000_000 - 3_950_000_000 <= high < 5_300_000_000
    assert "16 bits" in why
    low, _, why = card_weights(replace(plain, quantization_method="fp8"), SETTINGS, 0)
    assert low > 8_900_000_000
    assert "16 bits" not in why
