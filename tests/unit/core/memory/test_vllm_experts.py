"""Engines side by side, whole experts and uneven stages: what lies on each card, and that all of it is there once."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llmops.core.memory.vllm import SERVER_BYTES, WORKER_BYTES, budgets, server_bytes
from llmops.core.memory.vllm_defaults import Batch
from llmops.core.memory.vllm_experts import experts_of_rank, whole_shared_experts
from llmops.core.memory.vllm_overhead import activation, libraries
from llmops.core.memory.vllm_settings import VllmSettings
from llmops.core.memory.vllm_weights import LOADED_SHARE, card_weights, stage_bytes, stage_expert_bytes
from llmops.core.model import LayerShape, TensorGroup
from llmops.core.units import GIB, MIB
from llmops.core.version import Version
from tests.unit.core.memory.vllm_models import card, full, machine, model

# Eight layers of 2 GB, 1.6 GB of them in 128 experts, and 1 GB before them.
EACH, OF_EXPERTS, INPUT = 2 * 10**9, 16 * 10**8, 10**9
EXPERTS = model(
    full(8, heads=4, length=128),
    experts=128,
    experts_used=8,
    expert_feed_forward_length=768,
    weights_bytes=8 * EACH + INPUT,
    active_weights_bytes=8 * (EACH - OF_EXPERTS) + INPUT,
    layer_weights=((EACH, OF_EXPERTS),) * 8,
    tensors=(
        TensorGroup("repeating", "BF16", 1, 0, 8 * EACH, 8 * EACH),
        TensorGroup("input", "BF16", 1, 0, INPUT, INPUT),
    ),
)
DENSE = model(full(8, heads=4, length=128), weights_bytes=16 * 10**9)
BASE = VllmSettings(version=Version((0, 33, 0)), max_model_len=4_096, max_num_seqs=8)


def low_ends(settings: VllmSettings) -> list[float]:
    """The weights of each rank without what is not in the files."""
    return [card_weights(EXPERTS, settings, rank)[0] / LOADED_SHARE[0] for rank in range(settings.ranks)]


@settings(max_examples=60, deadline=None)
@given(
    tensor=st.sampled_from([1, 2, 4]),
    pipeline=st.integers(1, 3),
    data=st.integers(1, 6),
    whole=st.booleans(),
    old=st.booleans(),
)
def test_every_expert_is_there_once_and_the_rest_once_for_each_engine(
    tensor: int, pipeline: int, data: int, whole: bool, old: bool
) -> None:
    asked = replace(
        BASE,
        version=Version((0, 9, 2)) if old else BASE.version,
        tensor_parallel=tensor,
        pipeline_parallel=pipeline,
        data_parallel=data,
        expert_parallel=whole,
    )
    experts, rest = 8 * OF_EXPERTS, 8 * (EACH - OF_EXPERTS) + INPUT
    assert sum(low_ends(asked)) == pytest.approx(experts + data * rest, rel=1e-6)
    for stage in range(pipeline):
        ranks = [rank for rank in range(asked.ranks) if asked.stage(rank) == stage]
        assert sum(experts_of_rank(EXPERTS, asked, rank) for rank in ranks) == 128


def test_experts_that_cannot_be_shared_evenly() -> None:
    asked = replace(BASE, data_parallel=6, expert_parallel=True)
    assert [experts_of_rank(EXPERTS, asked, rank) for rank in range(6)] == [22, 22, 21, 21, 21, 21]
    old = replace(asked, version=Version((0, 9, 2)))
    assert [experts_of_rank(EXPERTS, old, rank) for rank in range(6)] == [21, 21, 21, 21, 21, 23]


def test_shared_experts_are_whole_where_tokens_are_shared_out_before_them() -> None:
    shapes = (LayerShape(tuple(range(8)), (("ffn_up_shexp", (10, 10)), ("ffn_up_exps", (10, 10, 9)))),)
    shared = replace(EXPERTS, layer_shapes=shapes)
    both = replace(BASE, tensor_parallel=4, data_parallel=2, expert_parallel=True)
    assert whole_shared_experts(shared, both) == pytest.approx(0.1 * 3 / 4)
    for other in (
        replace(both, data_parallel=1),
        replace(both, tensor_parallel=1),
        replace(both, expert_parallel=False),
    ):
        assert whole_shared_experts(shared, other) == 0.0


def test_each_engine_of_a_dense_model_has_all_of_it_and_a_pool_of_its_own() -> None:
    alone = budgets(machine(card()), DENSE, BASE)
    small = replace(card(20 * GIB), index=1)
    host, first, second = budgets(machine(card(), small), DENSE, replace(BASE, data_parallel=2))
    assert first == alone[1]
    assert second.weights_bytes == first.weights_bytes
    assert (second.cache_tokens or 0) < (first.cache_tokens or 0)
    assert host.runtime_bytes == 2 * alone[0].runtime_bytes
    assert server_bytes(1) == SERVER_BYTES
    low, high = (server_bytes(2)[end] + 2 * WORKER_BYTES[end] for end in range(2))
    assert low < 3.19 * GIB < high, "measured"
    assert host.runtime_bytes > 2 * SERVER_BYTES[1]
    for row in (host, first, second):
        assert row.used_bytes + row.free_bytes == row.available_bytes


def test_tokens_of_all_engines_meet_at_the_experts() -> None:
    step = Batch(2_048, 8)
    wide = replace(EXPERTS, expert_feed_forward_length=4_096)
    alone, two = (activation(wide, replace(BASE, data_parallel=count), step)[1] for count in (1, 2))
    assert two > alone
    whole = activation(wide, replace(BASE, data_parallel=2, expert_parallel=True), step)[1]
    assert whole > two, "an expert is not cut there"
    assert activation(DENSE, replace(BASE, data_parallel=2), step) == activation(DENSE, BASE, step)
    assert libraries(DENSE, replace(BASE, data_parallel=2), unified=False) == libraries(DENSE, BASE, unified=False)
    assert libraries(EXPERTS, replace(BASE, data_parallel=2), unified=False)[1] > 1_400 * MIB


def test_stages_of_a_given_partition() -> None:
    asked = replace(BASE, pipeline_parallel=2, layer_partition=(6, 2))
    assert [stage_bytes(EXPERTS, asked, stage) for stage in range(2)] == [6 * EACH + INPUT, 2 * EACH]
    assert [stage_expert_bytes(EXPERTS, asked, stage) for stage in range(2)] == [6 * OF_EXPERTS, 2 * OF_EXPERTS]
    pair = machine(card(), replace(card(12 * GIB), index=1))
    _, first, second = budgets(pair, EXPERTS, replace(asked, kv_memory_bytes=GIB))
    assert first.weights_bytes > 2.9 * second.weights_bytes
    # Six layers of the first card take three times the block that two of the second do.
    assert first.cache_tokens == second.cache_tokens == GIB // (6 * 16 * 4 * 2 * 128 * 2) * 16


def test_the_first_layers_may_weigh_less_than_the_others() -> None:
    light = replace(
        EXPERTS,
        layer_weights=((EACH // 4, 0), *((EACH, OF_EXPERTS),) * 7),
        weights_bytes=EACH // 4 + 7 * EACH + INPUT,
        tensors=(replace(EXPERTS.tensors[0], stored_bytes=EACH // 4 + 7 * EACH), EXPERTS.tensors[1]),
    )
    asked = replace(BASE, pipeline_parallel=2)
    assert [stage_bytes(light, asked, stage) for stage in range(2)] == [EACH // 4 + 3 * EACH + INPUT, 4 * EACH]
