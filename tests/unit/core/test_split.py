"""A model of which the processor keeps a part: what it weighs, how fast it is, what a refusal names."""

from __future__ import annotations

from dataclasses import replace

import pytest

from llmops.core.errors import DoesNotFit
from llmops.core.layer_weights import expert_bytes, layer_weights
from llmops.core.memory.budget import MemoryBudget
from llmops.core.memory.ggml import budgets
from llmops.core.memory.ggml_settings import GgmlSettings
from llmops.core.memory.ggml_weights import HOST, device_weights, place_layers
from llmops.core.model import ModelSpec
from llmops.core.plan import Fixed, Shape
from llmops.core.problem import Choices, Problem
from llmops.core.sizing import size, size_explicit
from llmops.core.throughput import host_part, predict_rates
from llmops.engines.ggml import ggml_settings
from tests.unit.core.example_models import CHAT, one_card, problem
from tests.unit.core.memory.ggml_models import LLAMA_8B, QWEN_30B

GIB, MIB = 1024**3, 1024**2
# 48 layers of 512 MiB, 480 of them in 128 experts of which a token uses eight.
SIZES = ((512 * MIB, 480 * MIB),) * 48
EXPERTS = replace(
    QWEN_30B,
    tensors=tuple(
        replace(group, stored_bytes=48 * 512 * MIB, matrix_bytes=48 * 512 * MIB)
        for group in QWEN_30B.tensors
        if (group.role, group.storage_type) == ("repeating", "q4_K")
    )
    + tuple(group for group in QWEN_30B.tensors if group.role != "repeating"),
    weights_bytes=48 * 512 * MIB + 181 * MIB,
    active_weights_bytes=48 * (32 + 30) * MIB + 80 * MIB,
    layer_weights=SIZES,
)


def test_layers_have_their_own_weights_where_they_were_read() -> None:
    assert layer_weights(EXPERTS) == SIZES
    even = layer_weights(replace(EXPERTS, layer_weights=()))
    assert sum(size for size, _ in even) == 48 * 512 * MIB
    assert even[0] == pytest.approx((512 * MIB, 480 * MIB), rel=0.01)


def test_converted_weights_keep_the_shares_of_the_layers() -> None:
    sizes = ((300, 0), (100, 0))
    group = replace(LLAMA_8B.tensors[0], stored_bytes=8000)
    model = replace(LLAMA_8B, layers=2, tensors=(group,), layer_weights=sizes)
    assert layer_weights(model) == ((6000, 0), (2000, 0))


def test_a_dense_model_has_no_experts() -> None:
    assert expert_bytes(LLAMA_8B) == 0.0
    assert {routed for _, routed in layer_weights(LLAMA_8B)} == {0}


def test_experts_of_the_first_layers_move_to_the_host_and_nothing_else() -> None:
    everything = place_layers(48, None, (40 * GIB,))
    some = replace(everything, host_expert_layers=10)
    moved = device_weights(EXPERTS, everything, 0) - device_weights(EXPERTS, some, 0)
    assert moved == 10 * 480 * MIB
    assert device_weights(EXPERTS, some, HOST) == device_weights(EXPERTS, everything, HOST) + moved
    assert some.reads_from_host
    assert not everything.reads_from_host


def test_experts_of_layers_on_the_host_are_counted_once() -> None:
    placement = replace(place_layers(48, 20, (40 * GIB,)), host_expert_layers=35)
    whole = sum(device_weights(EXPERTS, placement, device) for device in (HOST, 0))
    assert whole == sum(group.stored_bytes for group in EXPERTS.tensors)
    assert device_weights(EXPERTS, placement, 0) == 13 * 512 * MIB + 6 * 32 * MIB + 81 * MIB


@pytest.mark.parametrize(
    ("layers", "free", "split", "expected"),
    [
        (40, (24, 24), (3.0, 1.0), (31, 9)),
        (40, (24, 24), (0.0, 0.0), (21, 19)),
        (80, (24, 24, 24), (), (27, 27, 26)),
        (35, (1, 1, 1), (), (12, 12, 11)),
        (65, (1, 1), (), (33, 32)),
    ],
)
def test_shares_of_cards(
    layers: int, free: tuple[int, ...], split: tuple[float, ...], expected: tuple[int, ...]
) -> None:
    """Positions and shares are 32-bit floats: a layer exactly on a border goes to the next card."""
    placement = place_layers(layers, None, tuple(size * GIB for size in free), split)
    assert tuple(placement.layers.count(card) for card in range(len(free))) == expected
    assert placement.output == len(free) - 1


def test_what_reads_pictures_goes_to_the_first_card() -> None:
    encoder = replace(LLAMA_8B.tensors[0], role="encoder", stored_bytes=800 * MIB, matrix_bytes=0)
    model = replace(LLAMA_8B, tensors=(*LLAMA_8B.tensors, encoder))
    two, none = place_layers(32, None, (GIB, GIB)), place_layers(32, 0, (GIB,))
    added = [device_weights(model, two, card) - device_weights(LLAMA_8B, two, card) for card in (0, 1, HOST)]
    assert added == [800 * MIB, 0, 0]
    assert device_weights(model, none, HOST) - device_weights(LLAMA_8B, none, HOST) == 800 * MIB


def test_a_card_that_reads_from_the_host_has_room_for_a_copy() -> None:
    settings = GgmlSettings(1, 8192)
    host, card = budgets(one_card(40 * GIB), EXPERTS, settings)
    split_host, split_card = budgets(one_card(40 * GIB), EXPERTS, replace(settings, cpu_expert_layers=20))
    assert card.weights_bytes - split_card.weights_bytes == 20 * 480 * MIB
    assert split_host.weights_bytes - host.weights_bytes == 20 * 480 * MIB
    assert card.cache_bytes == split_card.cache_bytes


def test_time_of_a_step_is_the_sum_of_both_sides() -> None:
    machine = one_card(40 * GIB)
    whole = predict_rates(machine, EXPERTS, CHAT, on_gpu=True)
    half = predict_rates(machine, EXPERTS, CHAT, on_gpu=True, part=host_part(EXPERTS, None, 24))
    alone = predict_rates(machine, EXPERTS, CHAT, on_gpu=False)
    steps = [rates.likely.step_seconds(1) for rates in (whole, half, alone)]
    assert steps[0] < steps[1] < steps[2]
    assert half.likely.expert_seconds > whole.likely.expert_seconds
    assert half.low.step_seconds(1) > half.likely.step_seconds(1) > half.high.step_seconds(1)
    assert "for the part on the host" in half.source


def test_parts_of_a_model() -> None:
    assert host_part(EXPERTS, None, 0) is None
    assert host_part(EXPERTS, 49, 0) is None
    assert host_part(LLAMA_8B, None, 8) is None, "there are no experts to keep"
    part = host_part(EXPERTS, 25, 0)
    assert part is not None
    assert part.layers == 0.5
    assert part.experts == 0.5
    assert part.bytes == 24 * 512 * MIB
    experts = host_part(EXPERTS, None, 12)
    assert experts is not None
    assert (experts.weights, experts.experts, experts.layers) == (0.0, 0.25, 0.0)
    assert experts.crossings == 24


def asked(model: ModelSpec, fixed: Fixed | None = None, *, splits: bool = True) -> Problem:
    machine = one_card(16 * GIB)
    made = replace(problem(machine), model=model, fixed=fixed or Fixed(), choices=Choices(splits_with_host=splits))

    def memory(shape: Shape) -> tuple[MemoryBudget, ...]:
        return budgets(machine, model, ggml_settings(shape, machine.cpu.flags))

    return replace(
        made,
        memory=memory,
        split_rates=lambda shape: predict_rates(
            machine, model, CHAT, on_gpu=True, part=host_part(model, shape.gpu_layers, shape.cpu_expert_layers)
        ),
    )


def test_a_refusal_names_the_fewest_experts_in_main_memory() -> None:
    with pytest.raises(DoesNotFit) as refused:
        size(asked(EXPERTS))
    hint = str(refused.value.hint)
    assert "tokens/s alone" in hint
    count = int(hint.split("--n-cpu-moe ")[1].split(maxsplit=1)[0])
    plan = size(asked(EXPERTS, Fixed(cpu_expert_layers=count)))
    assert plan.cpu_expert_layers == count
    assert any("as asked for" in line for line in plan.warnings)
    with pytest.raises(DoesNotFit) as one_less:
        size(asked(EXPERTS, Fixed(cpu_expert_layers=count - 1)))
    assert "--n-cpu-moe" not in str(one_less.value.hint), "what the user fixed is not advised against"


def test_a_refusal_names_the_most_layers_of_a_dense_model() -> None:
    large = replace(
        LLAMA_8B,
        tensors=tuple(replace(group, stored_bytes=group.stored_bytes * 20) for group in LLAMA_8B.tensors),
        weights_bytes=LLAMA_8B.weights_bytes * 20,
    )
    with pytest.raises(DoesNotFit) as refused:
        size(asked(large))
    layers = int(str(refused.value.hint).split("--gpu-layers ")[1].split()[0])
    plan = size(asked(large, Fixed(gpu_layers=layers)))
    assert plan.gpu_layers == layers
    with pytest.raises(DoesNotFit):
        size(asked(large, Fixed(gpu_layers=layers + 1)))


def test_an_engine_that_divides_by_itself_is_told_nothing() -> None:
    problem_of_ollama = replace(asked(EXPERTS, splits=False), engine="ollama", choices=Choices(spills_by_itself=True))
    with pytest.raises(DoesNotFit) as refused:
        size(problem_of_ollama)
    assert "ollama by itself would leave layers to the processor" in refused.value.message
    assert "--n-cpu-moe" not in str(refused.value.hint)
    assert "--gpu-layers" not in str(refused.value.hint)


def test_more_layers_than_there_are_mean_all() -> None:
    plan = size_explicit(asked(LLAMA_8B, Fixed(gpu_layers=999, slots=1, context_tokens=4096)))
    assert plan.gpu_layers == 33
    assert not any("as asked for" in line for line in plan.warnings)


def test_given_shares_and_experts_have_their_reasons() -> None:
    fixed = Fixed(gpu_layers=49, cpu_expert_layers=30, tensor_split=(1.0,), slots=1, context_tokens=4096)
    plan = size_explicit(asked(EXPERTS, fixed))
    given = {reason.quantity: reason.value for reason in plan.reasons if reason.source == "the user"}
    assert (given["cpu_expert_layers"], given["tensor_split"], given["gpu_layers"]) == ("30", "1", "49")
