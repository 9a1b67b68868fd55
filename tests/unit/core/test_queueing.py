"""Waiting times against closed forms and against a simulation of the same system."""

from __future__ import annotations

import heapq
import itertools
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmops.core.queueing import fewest_slots, occupancy, queue_within_patience, waiting


@pytest.mark.parametrize(("slots", "chance"), [(4, 0.290), (5, 0.111), (6, 0.035)])
def test_twenty_chat_users(slots: int, chance: float) -> None:
    assert waiting(20, 78.0, slots, lambda _: 12.0).probability == pytest.approx(chance, abs=0.0005)


def test_with_a_slot_per_user_nobody_waits() -> None:
    met = waiting(5, 30.0, 5, lambda _: 12.0)
    assert met.probability == 0.0
    assert met.seconds_mean == 0.0


def test_without_thinking_time_everybody_is_always_there() -> None:
    assert occupancy(3, 0.0, 2, lambda _: 1.0) == (0.0, 0.0, 0.0, 1.0)
    assert waiting(3, 0.0, 2, lambda _: 1.0).probability == 1.0


def test_fewest_slots_keeps_the_limit_and_one_less_breaks_it() -> None:
    slots, met = fewest_slots(20, 78.0, 0.10, lambda _: 12.0, most_slots=256)
    assert slots == 6
    assert met.probability <= 0.10
    assert waiting(20, 78.0, slots - 1, lambda _: 12.0).probability > 0.10


def test_more_slots_than_the_engine_has_are_never_asked_for() -> None:
    slots, met = fewest_slots(1000, 1.0, 0.10, lambda _: 100.0, most_slots=256)
    assert slots == 256
    assert met.probability > 0.10


def test_queue_is_what_patience_allows() -> None:
    assert queue_within_patience(4, 12.0, 60.0) == 20
    assert queue_within_patience(1, 300.0, 60.0) == 1


@given(
    users=st.integers(2, 40),
    think=st.floats(0.1, 300.0),
    service=st.floats(0.1, 100.0),
    slowdown=st.floats(0.0, 1.0),
)
def test_another_slot_never_makes_waiting_likelier_while_batching_pays(
    users: int, think: float, service: float, slowdown: float
) -> None:
    def service_seconds(streams: int) -> float:
        return service * (1.0 + slowdown * (streams - 1))

    chances = [waiting(users, think, slots, service_seconds).probability for slots in range(1, users + 1)]
    assert all(later <= earlier + 1e-9 for earlier, later in itertools.pairwise(chances))
    assert chances[-1] == 0.0


@given(users=st.integers(1, 5000), think=st.floats(0.001, 1000.0), slots=st.integers(1, 256))
def test_chances_sum_to_one_whatever_the_size(users: int, think: float, slots: int) -> None:
    assert sum(occupancy(users, think, min(slots, users), lambda _: 10.0)) == pytest.approx(1.0)


def test_agrees_with_a_simulation_of_the_same_users() -> None:
    """60,000 requests of 8 users with exponential times; wait seen by who arrives."""
    chance, mean = _simulate(users=8, think=20.0, slots=2, service=5.0, requests=60_000)
    met = waiting(8, 20.0, 2, lambda _: 5.0)
    assert chance == pytest.approx(met.probability, abs=0.02)
    assert mean == pytest.approx(met.seconds_mean, rel=0.06)


def _simulate(*, users: int, think: float, slots: int, service: float, requests: int) -> tuple[float, float]:
    generator = random.Random(7)
    events = [(generator.expovariate(1 / think), "arrive") for _ in range(users)]
    heapq.heapify(events)
    queue: list[float] = []
    busy = waited = done = 0
    wait_seconds = 0.0
    while done < requests:
        now, kind = heapq.heappop(events)
        if kind == "arrive":
            done += 1
            waited += busy >= slots
            queue.append(now)
        else:
            busy -= 1
            heapq.heappush(events, (now + generator.expovariate(1 / think), "arrive"))
        while queue and busy < slots:
            busy += 1
            wait_seconds += now - queue.pop(0)
            heapq.heappush(events, (now + generator.expovariate(1 / service), "leave"))
    return waited / done, wait_seconds / done


def test_a_queue_is_never_longer_than_people_can_be() -> None:
    assert queue_within_patience(1, 1e-300, 1e9) == 1_000_000
