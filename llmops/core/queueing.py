"""Waiting for a slot: N users who think, k slots, batching that slows every stream.

The finite-source queue M/M/k//N, solved exactly as a birth-death chain (Kleinrock, Queueing Systems 1, 3.6-3.8).
With n requests present, m = min(n, k) are served, each finishing at rate 1 / S(m); users who think arrive at rate
(N - n) / Z.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

ServiceSeconds = Callable[[int], float]

# Weights are only ratios; scaling them down before they leave the range of a float changes no chance.
_LARGEST_WEIGHT = 1e200
_LONGEST_QUEUE = 1_000_000


@dataclass(frozen=True)
class Waiting:
    """What an arriving user meets: the chance to wait (0-1) and the mean wait of all."""

    probability: float
    seconds_mean: float


def waiting(users: int, think_seconds: float, slots: int, service_seconds: ServiceSeconds) -> Waiting:
    """Wait of a user who arrives and finds what the N - 1 others left (arrival theorem).

    `service_seconds(m)` is one request's time in a slot while m are served. Without thinking time everybody is always
    there: whoever finds k of the others served waits.
    """
    present = occupancy(users - 1, think_seconds, slots, service_seconds)
    probability = sum(present[slots:])
    drain_seconds = service_seconds(slots) / slots
    seconds = sum(chance * (others - slots + 1) * drain_seconds for others, chance in enumerate(present[slots:], slots))
    return Waiting(probability, seconds)


def occupancy(users: int, think_seconds: float, slots: int, service_seconds: ServiceSeconds) -> tuple[float, ...]:
    """Chance of 0..N requests being present, of `users` who think `think_seconds` between requests."""
    if think_seconds <= 0:
        return (*(0.0 for _ in range(users)), 1.0)
    weights = [1.0]
    for number in range(1, users + 1):
        served = min(number, slots)
        arrival_rate = (users - number + 1) / think_seconds
        departure_rate = served / service_seconds(served)
        weights.append(weights[-1] * arrival_rate / departure_rate)
        if weights[-1] > _LARGEST_WEIGHT:
            weights = [weight / _LARGEST_WEIGHT for weight in weights]
    total = sum(weights)
    return tuple(weight / total for weight in weights)


def fewest_slots(
    users: int, think_seconds: float, wait_probability: float, service_seconds: ServiceSeconds, *, most_slots: int
) -> tuple[int, Waiting]:
    """The fewest slots, at most `most_slots`, for which the chance to wait stays under the limit.

    One slot per user always suffices; more slots never wait more, so halving the interval finds the fewest.
    """
    low, high = 1, min(users, most_slots)
    while low < high:
        middle = (low + high) // 2
        if waiting(users, think_seconds, middle, service_seconds).probability <= wait_probability:
            high = middle
        else:
            low = middle + 1
    return low, waiting(users, think_seconds, low, service_seconds)


def queue_within_patience(slots: int, service_seconds_full: float, patience_seconds: float) -> int:
    """How many may queue so that the last one is still served within the client's patience; at least one.

    Position q starts after q departures, and with all slots busy one leaves every S(k) / k seconds.
    """
    return max(1, int(min(patience_seconds * slots / service_seconds_full, _LONGEST_QUEUE)))
