"""The fixed point of generation time and requests in flight, and what follows from it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmops.core.demand import queue_requests, read_demand, service_seconds, slots_fast_enough, waiting_with
from llmops.core.plan import Policy
from llmops.core.throughput import RateModel, Rates
from llmops.core.workload import DEFAULTS, WorkloadKind

CHAT = DEFAULTS[WorkloadKind.CHAT]


def rates(*, step: float = 0.02, per_stream: float = 0.01, prefill: float = 500.0) -> Rates:
    model = RateModel(step, 0.0, 0.0, 0.0, per_stream, prefill)
    return Rates(model, model, model, "test")


@given(
    users=st.integers(1, 200),
    turn=st.floats(5.0, 600.0),
    step=st.floats(0.001, 0.2),
    per_stream=st.floats(0.0001, 0.1),
)
def test_generation_and_in_flight_agree_with_each_other(
    users: int, turn: float, step: float, per_stream: float
) -> None:
    load = replace(CHAT, users=users, turn_seconds=turn)
    used = rates(step=step, per_stream=per_stream)
    demand = read_demand(load, Policy(), used, most_slots=256)
    again = used.likely.request_seconds(max(1.0, demand.in_flight), load)
    assert again == pytest.approx(demand.generation_seconds, rel=1e-3)
    assert demand.in_flight == pytest.approx(min(users, users * again / turn), rel=1e-3)


def test_near_saturation_they_agree_too() -> None:
    load, used = replace(CHAT, users=71, turn_seconds=220.0), rates(step=0.015625, per_stream=0.0001)
    demand = read_demand(load, Policy(), used, most_slots=256)
    assert demand.in_flight == pytest.approx(71 * used.likely.request_seconds(demand.in_flight, load) / 220.0, rel=1e-6)


def test_given_generation_seconds_are_taken_as_they_are() -> None:
    demand = read_demand(replace(CHAT, users=20, generation_seconds=12.0), Policy(), rates(), most_slots=256)
    assert demand.generation_seconds == 12.0
    assert demand.think_seconds == 78.0
    assert demand.slots_wanted == 6


def test_users_without_idle_time_get_a_slot_each() -> None:
    demand = read_demand(DEFAULTS[WorkloadKind.BATCH], Policy(), rates(), most_slots=256)
    assert demand.in_flight == 4.0
    assert demand.slots_wanted == 4
    assert not demand.saturated


def test_users_who_ask_faster_than_the_machine_answers_are_told() -> None:
    demand = read_demand(replace(CHAT, users=50, turn_seconds=20.0), Policy(), rates(per_stream=0.1), most_slots=256)
    assert demand.saturated
    assert demand.slots_wanted == 50


def test_prefills_of_others_count_into_the_time_in_a_slot() -> None:
    seconds = service_seconds(CHAT, rates(step=0.0, per_stream=0.0, prefill=500.0))
    assert seconds(1) == pytest.approx(3.0)
    assert seconds(4) == pytest.approx(12.0)


def test_slots_are_limited_by_the_minimum_speed() -> None:
    used = rates(step=0.05, per_stream=0.05)  # m streams: 1 / (0.05 + 0.05 m) tokens/s
    assert slots_fast_enough(used, Policy(minimum_tokens_per_second=5.0), 8) == 3
    assert slots_fast_enough(used, Policy(minimum_tokens_per_second=50.0), 8) == 0


def test_queue_and_wait_follow_the_slots() -> None:
    load = replace(CHAT, users=20, generation_seconds=12.0)
    demand = read_demand(load, Policy(), rates(), most_slots=256)
    assert waiting_with(demand, load, rates(), 4).probability == pytest.approx(0.29, abs=0.005)
    assert queue_requests(load, rates(), Policy(patience_seconds=60.0), 4) == 20
