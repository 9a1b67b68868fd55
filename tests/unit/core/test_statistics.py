"""Percentiles, spread and gaps, against values worked out by hand and laws that hold for all numbers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmops.core.statistics import Percentiles, intervals, median, percentile, percentiles, spread, stalls

NUMBERS = st.lists(st.floats(0, 1e6), min_size=1, max_size=50)


def test_worked_out_by_hand() -> None:
    values = [15.0, 20.0, 35.0, 40.0, 50.0]
    assert percentile(values, 0.4) == pytest.approx(29.0)  # position 1.6: 20 + 0.6 x 15
    assert median([4.0, 1.0, 3.0, 2.0]) == 2.5
    found = percentiles(values)
    assert (found.p50, found.p95, found.p99, found.max) == pytest.approx((35.0, 48.0, 49.6, 50.0))
    assert spread([9.0, 10.0, 12.0]) == pytest.approx(0.3)


@given(NUMBERS, st.floats(0, 1))
def test_a_percentile_lies_between_the_extremes_and_grows(values: list[float], fraction: float) -> None:
    assert min(values) <= percentile(values, fraction) <= max(values)
    assert percentile(values, 0.0) == min(values)
    assert percentile(values, 1.0) == max(values)
    assert percentile(values, fraction / 2) <= percentile(values, fraction) + 1e-6


def test_nothing_measured_is_none_and_not_zero() -> None:
    assert percentiles([]) == Percentiles(None, None, None, None)
    with pytest.raises(ValueError, match="of 0 values"):
        percentile([], 0.5)
    with pytest.raises(ValueError, match="around 0"):
        spread([0.0, 0.0])


def test_one_stall_hides_in_a_p95_and_not_in_the_gaps() -> None:
    times = [number * 0.05 for number in range(100)]
    times += [times[-1] + 7.3]
    gaps = intervals(times)
    assert percentile(gaps, 0.95) < 0.06
    assert list(stalls(gaps, 2.0)) == pytest.approx([7.3])
    assert intervals([1.0]) == ()
