"""What a plan says of the machine that it is for."""

from __future__ import annotations

from dataclasses import replace

from llmops.core.hardware import Gpu, Hardware
from llmops.core.plan import Fixed, Plan, Policy
from llmops.core.problem import Problem
from llmops.core.sizing import size
from llmops.core.throughput import predict_rates
from llmops.core.visible_devices import served_by
from llmops.core.workload import DEFAULTS, WorkloadKind
from llmops.engines import engine_named
from tests.unit.core.example_models import GIB, eight_billion_16_bit, one_card

CHAT = DEFAULTS[WorkloadKind.CHAT]
AMD = Gpu(1, "0000:03:00.0", "AMD card", 16 * GIB, 15 * GIB, vendor="amd")


def planned(hardware: Hardware) -> Plan:
    model = eight_billion_16_bit()
    on_gpu = bool(hardware.gpus)
    return size(
        Problem(
            engine="llama-server",
            engine_version=None,
            hardware=hardware,
            model=model,
            workload=CHAT,
            policy=Policy(),
            fixed=Fixed(),
            rates=predict_rates(hardware, model, CHAT, on_gpu=on_gpu),
            memory=engine_named("llama-server").memory_model(hardware, model, None),
            on_gpu=on_gpu,
        )
    )


def with_second(gibibytes: int, rate: int) -> Hardware:
    machine = one_card()
    first = replace(machine.gpus[0], total_bytes=80 * GIB, free_bytes=79 * GIB)
    second = Gpu(1, None, "second", gibibytes * GIB, gibibytes * GIB, bandwidth_bytes_per_second=rate)
    return replace(machine, gpus=(first, second))


def test_a_plan_that_the_fast_card_alone_would_hold_says_so() -> None:
    warnings = planned(with_second(12, 360 * 10**9)).warnings
    assert any("alone would hold this plan" in line for line in warnings)
    assert any("the cards are unequal" in line for line in warnings)


def test_equal_cards_and_a_needed_split_are_not_called_needless() -> None:
    first_rate = one_card().gpus[0].bandwidth_bytes_per_second
    assert first_rate is not None
    assert not any("alone would" in line for line in planned(with_second(80, first_rate)).warnings)
    needed = with_second(12, 360 * 10**9)
    small = replace(needed.gpus[0], total_bytes=14 * GIB, free_bytes=14 * GIB)
    assert not any("alone would" in line for line in planned(replace(needed, gpus=(small, needed.gpus[1]))).warnings)


def test_a_hot_card_is_in_the_plan() -> None:
    machine = one_card()
    hot = replace(machine.gpus[0], throttle_reasons=("thermal",), temperature_celsius=95)
    assert any("too hot (95 degrees" in line for line in planned(replace(machine, gpus=(hot,))).warnings)


def test_a_build_uses_the_cards_of_its_own_vendor() -> None:
    both = replace(one_card(), gpus=(one_card().gpus[0], AMD))
    nvidia = served_by(both, ("CUDA0",))
    assert [gpu.vendor for gpu in nvidia.gpus] == ["nvidia"]
    assert nvidia.other_gpus == (AMD,)
    assert nvidia.observations[-1].reason == "this build of the engine uses devices of another vendor"
    assert [gpu.vendor for gpu in served_by(both, ("ROCm0",)).gpus] == ["amd"]
    assert served_by(both, ("Vulkan0", "Vulkan1")) == both


def test_without_knowing_the_build_the_vendor_with_the_most_memory_counts() -> None:
    both = replace(one_card(), gpus=(one_card().gpus[0], AMD))
    assert [gpu.vendor for gpu in served_by(both, None).gpus] == ["nvidia"]
    assert served_by(one_card(), None) == one_card()
    assert served_by(both, ()) == both, "a build without any device is told of elsewhere"
    assert served_by(Hardware(), None) == Hardware()
