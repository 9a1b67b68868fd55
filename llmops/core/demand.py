"""What the users ask for: requests in flight, the slots for them, and how long who waits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from llmops.core.plan import Policy
from llmops.core.queueing import Waiting, fewest_slots, queue_within_patience, waiting
from llmops.core.throughput import Rates
from llmops.core.workload import Workload, in_flight_requests

_HALVINGS = 60


@dataclass(frozen=True)
class Demand:
    """The load in the engine's terms; `think_seconds` is what a user spends between reply and next prompt."""

    generation_seconds: float
    in_flight: float
    think_seconds: float
    slots_wanted: int
    saturated: bool


def service_seconds(workload: Workload, rates: Rates) -> Callable[[int], float]:
    """Seconds in a slot while m are served: as the user gave it, else from the likely rates."""
    given = workload.generation_seconds
    if given is not None:
        return lambda _streams: given
    return lambda streams: rates.likely.request_seconds(streams, workload)


def read_demand(workload: Workload, policy: Policy, rates: Rates, *, most_slots: int) -> Demand:
    """In flight = users x generation / turn, where generation depends on how many are in flight: a fixed point."""
    generation, in_flight = _fixed_point(workload, rates)
    turn = workload.turn_seconds
    think = 0.0 if turn is None else max(0.0, turn - generation)
    slots, _ = fewest_slots(
        workload.users, think, policy.wait_probability, service_seconds(workload, rates), most_slots=most_slots
    )
    return Demand(generation, in_flight, think, slots, saturated=turn is not None and think == 0.0)


def waiting_with(demand: Demand, workload: Workload, rates: Rates, slots: int) -> Waiting:
    """The wait of an arriving user with that many slots."""
    return waiting(workload.users, demand.think_seconds, min(slots, workload.users), service_seconds(workload, rates))


def queue_requests(workload: Workload, rates: Rates, policy: Policy, slots: int) -> int:
    """As many waiting requests as can be served within the client's patience."""
    return queue_within_patience(slots, service_seconds(workload, rates)(slots), policy.patience_seconds)


def slots_fast_enough(rates: Rates, policy: Policy, slots_wanted: int) -> int:
    """The most slots, at most those wanted, at which each stream still gets the minimum speed; 0 if none does."""
    for slots in range(slots_wanted, 0, -1):
        if 1.0 / rates.likely.step_seconds(slots) >= policy.minimum_tokens_per_second:
            return slots
    return 0


def _fixed_point(workload: Workload, rates: Rates) -> tuple[float, float]:
    """Generation seconds and requests in flight that agree with each other.

    More in flight makes generation longer, and that more in flight: the answer lies where the two meet, at most at all
    users. Halving finds it also near saturation, where steps from one to the other creep.
    """
    if workload.generation_seconds is not None:
        given = workload.generation_seconds
        return given, in_flight_requests(workload.users, given, workload.turn_seconds)

    def generation(in_flight: float) -> float:
        return rates.likely.request_seconds(max(1.0, in_flight), workload)

    low, high = 0.0, float(workload.users)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if in_flight_requests(workload.users, generation(middle), workload.turn_seconds) > middle:
            low = middle
        else:
            high = middle
    return generation(high), in_flight_requests(workload.users, generation(high), workload.turn_seconds)
