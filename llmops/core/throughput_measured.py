"""Rates that this host measured, continued to every other number of streams."""

from __future__ import annotations

from llmops.core.plan import MeasuredRates
from llmops.core.throughput_model import RateModel, Rates

# Around a rate that was extrapolated from measured ones.
EXTRAPOLATED_RANGE = (0.7, 1.0, 1.3)
# The share of a step that one more stream costs at least, where a measurement says that it costs nothing.
LEAST_SLOPE = 0.1


def rates_from_measured(measured: MeasuredRates, predicted: Rates) -> Rates:
    """The measured steps, straight lines between them, and a cost per stream outside of them.

    Noise may make the second stream look free; twenty would then be as fast as one. So no step is shorter than that of
    fewer streams, and beyond the last each stream costs something: what an optimistic prediction says or LEAST_SLOPE
    of a step; and none costs more than its share of the last step, so that more streams do not lower the total.
    """
    steps = _rising(measured)
    slope = _slope(steps, predicted)
    low, likely, high = (
        RateModel(
            0.0,
            0.0,
            0.0,
            0.0,
            slope / factor,
            measured.prefill_tokens_per_second * factor,
            measured_steps=tuple((streams, seconds / factor) for streams, seconds in steps),
        )
        for factor in EXTRAPOLATED_RANGE
    )
    return Rates(low, likely, high, "measured on this host by an earlier verification", measured)


def _rising(measured: MeasuredRates) -> tuple[tuple[int, float], ...]:
    steps: list[tuple[int, float]] = []
    for streams, rate in sorted(dict(measured.decode_tokens_per_second).items()):
        steps.append((streams, max(1.0 / rate, steps[-1][1] if steps else 0.0)))
    return tuple(steps)


def _slope(steps: tuple[tuple[int, float], ...], predicted: Rates) -> float:
    """Seconds per stream beyond the measured ones, from the first and the last of them, else as predicted."""
    (fewest, first), (most, last) = steps[0], steps[-1]
    likely, high = predicted.likely, predicted.high
    slope = (likely.step_seconds(fewest + 1) / likely.step_seconds(fewest) - 1.0) * first
    if most > fewest:
        least = min(high.stream_seconds + high.arithmetic_seconds, LEAST_SLOPE * first)
        slope = max((last - first) / (most - fewest), least)
    return min(slope, first / fewest, last / most)
