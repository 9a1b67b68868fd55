"""Step times from bytes and arithmetic, for dense models, experts, cards and processors."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmops.core.card_rates import card_rates
from llmops.core.hardware import Bandwidth, Gpu
from llmops.core.plan import MeasuredRates
from llmops.core.throughput import predict_rates, rates_from_measured, speeds
from llmops.core.workload import DEFAULTS, WorkloadKind
from tests.unit.core.example_models import GIB, cpu_host, eight_billion_16_bit, one_card

CHAT = DEFAULTS[WorkloadKind.CHAT]


def test_decode_on_a_processor_is_bound_by_reading_the_weights() -> None:
    model = eight_billion_16_bit()
    rates = predict_rates(cpu_host(64 * GIB, cores=16, bandwidth=50_000_000_000), model, CHAT, on_gpu=False)
    alone = 1.0 / rates.likely.step_seconds(1)
    assert alone < 50e9 / model.active_weights_bytes, "never faster than the bytes allow"
    assert 1.0 / rates.low.step_seconds(1) < alone < 1.0 / rates.high.step_seconds(1)
    assert "memory bandwidth of this host" in rates.source


def test_an_assumed_bandwidth_is_called_assumed() -> None:
    rates = predict_rates(cpu_host(bandwidth=None), eight_billion_16_bit(), CHAT, on_gpu=False)
    assert "assumed" in rates.source


def test_a_24_gb_card_runs_an_8b_model_in_16_bit_at_about_50_tokens_per_second() -> None:
    rates = predict_rates(one_card(), eight_billion_16_bit(), CHAT, on_gpu=True)
    assert 1.0 / rates.low.step_seconds(1) < 50 < 1.0 / rates.high.step_seconds(1)


def step_bandwidth(*gpus: Gpu) -> float:
    """Bytes per second of the bus that the likely rates of these cards stand for."""
    rates = card_rates(gpus)
    return rates.bandwidth[1] / rates.speed_class.bandwidth_share[1]


def card(index: int, gigabytes: int, gigabytes_per_second: int | None) -> Gpu:
    rate = None if gigabytes_per_second is None else gigabytes_per_second * 10**9
    size = gigabytes * 10**9
    return Gpu(index, None, f"card {index}", size, size, bandwidth_bytes_per_second=rate)


def test_the_times_of_several_cards_add_up_by_their_shares_of_the_layers() -> None:
    # Two thirds of a model of 30 GB at 900 GB/s take 22.2 ms, one third at 300 GB/s takes 33.3 ms: 55.6 ms, 540 GB/s.
    assert step_bandwidth(card(0, 20, 900), card(1, 10, 300)) == pytest.approx(540e9)
    assert step_bandwidth(card(0, 24, 936), card(1, 24, 936)) == pytest.approx(936e9)
    two = replace(one_card(), gpus=(card(0, 20, 900), card(1, 10, 300)))
    rates = predict_rates(two, eight_billion_16_bit(), CHAT, on_gpu=True)
    assert rates.source == "predicted from the card's memory bandwidth, each of 2 cards with its share of the layers"


@given(st.lists(st.tuples(st.integers(1, 200), st.integers(50, 1800)), min_size=1, max_size=8))
def test_several_cards_are_as_fast_as_something_between_the_slowest_and_the_fastest(
    rows: list[tuple[int, int]],
) -> None:
    together = step_bandwidth(*(card(number, size, rate) for number, (size, rate) in enumerate(rows)))
    rates = [rate * 10**9 for _, rate in rows]
    assert min(rates) * 0.999 <= together <= max(rates) * 1.001


def test_one_card_of_unknown_bandwidth_widens_the_range_of_all() -> None:
    rates = card_rates((card(0, 24, 936), card(1, 24, None)))
    low, _, high = rates.bandwidth
    assert low < 350e9 * rates.speed_class.bandwidth_share[1] < high
    assert "assumed card bandwidth" in rates.source and "the card's memory bandwidth and" in rates.source


def test_shared_memory_is_read_at_least_as_fast_as_the_processor_measured() -> None:
    shared = Gpu(0, None, "graphics", 119 * GIB, 110 * GIB, unified=True)
    measured = Bandwidth(120_000_000_000, 0.01, None, None, 5, reliable=True, reason=None)
    rates = card_rates((shared,), measured)
    shares = rates.speed_class.bandwidth_share
    assert rates.bandwidth == pytest.approx((120e9 * shares[0], 156e9 * shares[1], 240e9 * shares[2]))
    assert "which the card shares" in rates.source
    assert "shared with the processor" in rates.speed_class.name
    assert "assumed bandwidth of shared memory" in card_rates((shared,)).source


def test_a_card_of_unknown_bandwidth_is_assumed_and_said() -> None:
    unknown = replace(one_card(), gpus=(Gpu(0, None, "card", 24 * GIB, 24 * GIB),))
    assert "assumed card bandwidth" in predict_rates(unknown, eight_billion_16_bit(), CHAT, on_gpu=True).source


def test_batching_shares_the_weights_so_the_total_grows_and_each_stream_slows() -> None:
    rates = predict_rates(one_card(), eight_billion_16_bit(), CHAT, on_gpu=True)
    rows = speeds(rates, CHAT)
    assert [row.streams for row in rows] == [1, 2, 5, 20]
    totals = [row.decode_tokens_per_second_total for row in rows]
    each = [row.decode_tokens_per_second_per_stream.likely for row in rows]
    assert totals == sorted(totals)
    assert each == sorted(each, reverse=True)
    assert all(row.basis == "predicted" for row in rows)


def test_experts_are_read_more_with_more_streams_up_to_all_of_them() -> None:
    dense = eight_billion_16_bit()
    mixture = replace(dense, experts=32, experts_used=4, active_weights_bytes=dense.weights_bytes // 4)
    model = predict_rates(one_card(), mixture, CHAT, on_gpu=True).likely
    growth_early = model.step_seconds(2) - model.step_seconds(1)
    growth_late = model.step_seconds(101) - model.step_seconds(100)
    assert growth_early > 2 * growth_late
    # All experts of 32, 4 of them for each stream: after 200 streams all have been read, and nothing more is.
    assert model.reading_seconds(200) == pytest.approx(model.reading_seconds(100), rel=1e-4)


def test_measured_step_times_are_continued_by_their_slope() -> None:
    predicted = predict_rates(cpu_host(), eight_billion_16_bit(), CHAT, on_gpu=False)
    measured = rates_from_measured(MeasuredRates(((1, 20.0), (2, 16.0)), 100.0), predicted)
    assert measured.likely.step_seconds(1) == pytest.approx(1 / 20)
    assert measured.likely.step_seconds(2) == pytest.approx(1 / 16)
    assert measured.likely.step_seconds(3) == pytest.approx(2 / 16 - 1 / 20)
    assert measured.likely.prefill_tokens_per_second == 100.0


def test_noise_that_makes_two_streams_faster_than_one_gives_no_negative_slope() -> None:
    predicted = predict_rates(cpu_host(), eight_billion_16_bit(), CHAT, on_gpu=False)
    measured = rates_from_measured(MeasuredRates(((1, 20.0), (2, 22.0)), 100.0), predicted)
    assert measured.likely.step_seconds(1) == pytest.approx(1 / 20)
    assert measured.likely.step_seconds(20) > 2 * measured.likely.step_seconds(1), "twenty are never free"


def test_time_to_first_token_counts_the_prompts_of_the_others() -> None:
    measured = rates_from_measured(
        MeasuredRates(((1, 10.0),), 750.0), predict_rates(cpu_host(), eight_billion_16_bit(), CHAT, on_gpu=False)
    )
    rows = {row.streams: row for row in speeds(measured, CHAT)}
    assert rows[1].ttft_seconds == pytest.approx(1500 / 750 + 0.1)
    assert rows[5].ttft_seconds > 3 * 1500 / 750
