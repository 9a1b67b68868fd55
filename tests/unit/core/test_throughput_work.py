"""What one step reads and computes: experts, windows, latent caches, states, cards that share a layer."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmops.core.model import AttentionLayer, ModelSpec, StateLayer, TensorGroup
from llmops.core.throughput_work import (
    KERNELS_PER_EXPERTS,
    KERNELS_PER_LAYER,
    KERNELS_PER_STATE,
    multiplied_parameters,
    prefill_parameters,
    touched_share,
    work,
)
from llmops.core.workload import Workload, WorkloadKind
from tests.unit.core.example_models import eight_billion_16_bit


def load(prompt: int, reply: int = 0) -> Workload:
    return Workload(WorkloadKind.BATCH, 1, None, prompt, reply, prompt + reply)


def with_layers(*layers: AttentionLayer, states: tuple[StateLayer, ...] = ()) -> ModelSpec:
    return replace(eight_billion_16_bit(), attention_layers=layers, state_layers=states)


def test_a_dense_model_reads_its_active_weights_and_the_cache_in_the_middle_of_the_reply() -> None:
    model = eight_billion_16_bit()
    cost = work(model, load(1000, 500))
    assert cost.shared_bytes == model.active_weights_bytes
    assert cost.expert_bytes == 0
    assert cost.stream_bytes == 1250 * 147_456
    attention = 36 * 2 * 32 * 256 * 1250
    embeddings = 151_936 * 4096
    assert cost.operations == 2 * (model.active_parameters - embeddings) + attention
    assert cost.prompt_operations == 2 * (model.active_parameters - 2 * embeddings) + 36 * 2 * 32 * 256 * 500
    assert cost.kernels == 36 * KERNELS_PER_LAYER


def test_windows_end_what_is_read() -> None:
    full, window = AttentionLayer(8, 128, 128), AttentionLayer(8, 128, 128, window_tokens=512)
    assert work(with_layers(full, window), load(10_000)).stream_bytes == 4096 * (10_000 + 512)
    assert work(with_layers(full, window), load(100)).stream_bytes == 4096 * 200


def test_a_latent_cache_is_read_once_for_all_heads_and_multiplied_by_each() -> None:
    cost = work(with_layers(AttentionLayer(1, 576, 0, is_latent=True)), load(1000))
    assert cost.stream_bytes == 576 * 2 * 1000
    assert cost.operations - 2 * multiplied_parameters(eight_billion_16_bit()) == 2 * 32 * 2 * 576 * 1000


def test_a_state_is_read_and_written_whatever_the_context() -> None:
    model = with_layers(states=(StateLayer("mamba2", 1000, 50_000),) * 3)
    assert work(model, load(10)).stream_bytes == work(model, load(10_000)).stream_bytes == 3 * 51_000 * 4 * 2
    assert work(replace(model, state_data_type="bfloat16"), load(10)).stream_bytes == 3 * 51_000 * 2 * 2
    assert work(model, load(10)).kernels == 36 * KERNELS_PER_LAYER + 3 * KERNELS_PER_STATE


def test_an_8_bit_cache_of_a_checkpoint_is_half_as_long_to_read() -> None:
    model = eight_billion_16_bit()
    halved = work(replace(model, cache_data_type="fp8_e4m3"), load(1000)).stream_bytes
    assert 2 * halved == work(model, load(1000)).stream_bytes


def test_ranks_without_a_head_of_their_own_read_what_another_reads() -> None:
    model = with_layers(AttentionLayer(4, 128, 128))
    alone = work(model, load(1000)).stream_bytes
    assert work(model, load(1000), tensor_parallel=4).stream_bytes == alone
    assert work(model, load(1000), tensor_parallel=8).stream_bytes == 2 * alone
    latent = with_layers(AttentionLayer(1, 576, 0, is_latent=True))
    assert work(latent, load(10), tensor_parallel=8).stream_bytes == 8 * work(latent, load(10)).stream_bytes


def mixture(experts: int, used: int) -> ModelSpec:
    """Half of the weights are experts, with nothing else that stays unread."""
    dense = eight_billion_16_bit()
    half = dense.weights_bytes // 2
    active = half + half * used // experts
    return replace(
        dense,
        experts=experts,
        experts_used=used,
        active_weights_bytes=active,
        tensors=(),
        active_parameters=active // 2,
    )


@given(st.integers(2, 256), st.data())
def test_one_token_reads_the_active_weights_and_very_many_read_all(experts: int, data: st.DataObject) -> None:
    used = data.draw(st.integers(1, experts - 1))
    model = mixture(experts, used)
    cost = work(model, load(100))
    assert cost.shared_bytes + cost.touched(1) * cost.expert_bytes == pytest.approx(model.active_weights_bytes)
    many = cost.shared_bytes + cost.touched(1e5) * cost.expert_bytes
    assert many == pytest.approx(model.weights_bytes, rel=1e-3)
    assert cost.kernels == 36 * (KERNELS_PER_LAYER + KERNELS_PER_EXPERTS)
    assert cost.prompt_operations >= 0 and cost.prompt_expert_operations >= 0


def test_two_tokens_of_four_experts_in_32_touch_about_seven_and_a_half() -> None:
    assert 32 * touched_share(4 / 32, 1) == pytest.approx(4)
    assert 32 * touched_share(4 / 32, 2) == pytest.approx(7.5)
    assert touched_share(0.0, 5) == touched_share(1.0, 5) == 1.0


def test_one_table_for_input_and_output_is_multiplied_once_and_looked_up_once() -> None:
    model = eight_billion_16_bit()
    table = 151_936 * 4096
    assert multiplied_parameters(model) == model.active_parameters - table
    tied = replace(model, tied_output=True, tensors=model.tensors[:1])
    assert multiplied_parameters(tied) == model.active_parameters
    assert prefill_parameters(tied) == model.active_parameters - table


def test_weights_of_encoders_and_draft_layers_are_no_experts() -> None:
    model = mixture(32, 4)
    seeing = replace(model, weights_bytes=model.weights_bytes + 10**9, encoder_weights_bytes=10**9)
    assert work(seeing, load(100)).expert_bytes == work(model, load(100)).expert_bytes
    draft = TensorGroup("draft", "BF16", 1, 5 * 10**8, 10**9, 10**9)
    guessing = replace(model, weights_bytes=model.weights_bytes + 10**9, tensors=(draft,))
    assert work(guessing, load(100)).expert_bytes == work(model, load(100)).expert_bytes
