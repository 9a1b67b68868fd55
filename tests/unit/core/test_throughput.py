"""Step times from bytes and arithmetic, for dense models, experts, cards and processors."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmops.core.card_rates import card_rates
from llmops.core.hardware import Bandwidth, Gpu
from llmops.core.plan import MeasuredRates
from llmops.core.throughput import find_knee, predict_rates, rates_from_measured, speeds
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


def test_cards_that_share_each_layer_are_faster_and_wait_for_each_other() -> None:
    model = eight_billion_16_bit()
    cards = tuple(card(index, 24, 936) for index in range(4))
    alone, in_a_row, together = (
        predict_rates(replace(one_card(), gpus=gpus), model, CHAT, on_gpu=True, engine="vllm", tensor_parallel=count)
        for gpus, count in ((cards[:1], 1), (cards, 1), (cards, 4))
    )
    step = alone.likely.step_seconds(1)
    assert in_a_row.likely.step_seconds(1) == pytest.approx(step), "layers split over cards add room, not speed"
    assert step / 4 < together.likely.step_seconds(1) < step / 2
    assert "4 cards that share each layer" in together.source


def test_without_graphs_every_kernel_is_started_by_python() -> None:
    model = eight_billion_16_bit()
    graphs, eager = (
        predict_rates(one_card(), model, CHAT, on_gpu=True, engine="vllm", eager=eager) for eager in (False, True)
    )
    assert eager.likely.fixed_seconds > 5 * graphs.likely.fixed_seconds
    assert eager.basis.endswith("eager")


def test_the_range_of_a_processor_holds_no_gain_and_full_gain_of_batching() -> None:
    rates = predict_rates(cpu_host(), eight_billion_16_bit(), CHAT, on_gpu=False)
    low, high = rates.low.total_tokens_per_second, rates.high.total_tokens_per_second
    assert low(4) == pytest.approx(low(1), rel=0.02)
    assert high(4) > 3 * high(1)


def test_virtual_processors_are_not_taken_for_a_desktop() -> None:
    host = cpu_host()
    virtual = replace(host, cpu=replace(host.cpu, hypervisor="kvm"))
    metal, guest = (predict_rates(one, eight_billion_16_bit(), CHAT, on_gpu=False) for one in (host, virtual))
    assert guest.high.prefill_tokens_per_second < metal.high.prefill_tokens_per_second
    assert guest.likely == metal.likely


def test_few_tokens_for_each_of_many_experts_are_slow_to_compute() -> None:
    dense = eight_billion_16_bit()
    few, many = (
        replace(dense, experts=count, experts_used=4, active_weights_bytes=dense.weights_bytes // 4)
        for count in (16, 128)
    )
    rates = [predict_rates(one_card(), model, CHAT, on_gpu=True).likely for model in (few, many)]
    assert rates[0].prefill_tokens_per_second > rates[1].prefill_tokens_per_second


@given(st.integers(20, 8000), st.integers(1, 2000), st.sampled_from(["llama-server", "ollama", "vllm"]), st.booleans())
def test_more_bandwidth_is_never_slower(rate: int, more: int, engine: str, on_gpu: bool) -> None:
    model = eight_billion_16_bit()
    slow, fast = (
        replace(
            cpu_host(bandwidth=bandwidth * 10**9),
            gpus=(Gpu(0, None, "card", None, None, (8, 6), bandwidth * 10**9),),
        )
        for bandwidth in (rate, rate + more)
    )
    first, second = (predict_rates(one, model, CHAT, on_gpu=on_gpu, engine=engine) for one in (slow, fast))
    for end in ("low", "likely", "high"):
        for streams in (1, 2, 7, 64):
            assert getattr(second, end).step_seconds(streams) <= getattr(first, end).step_seconds(streams)
        assert getattr(second, end).prefill_tokens_per_second >= getattr(first, end).prefill_tokens_per_second


@given(
    st.integers(20, 8000), st.sampled_from(["llama-server", "vllm"]), st.booleans(), st.integers(1, 63), st.booleans()
)
def test_more_streams_never_get_less_together_and_never_more_each(
    rate: int, engine: str, on_gpu: bool, streams: int, mixture: bool
) -> None:
    model = eight_billion_16_bit()
    if mixture:
        model = replace(model, experts=64, experts_used=6, active_weights_bytes=model.weights_bytes // 5)
    host = replace(cpu_host(bandwidth=rate * 10**9), gpus=(Gpu(0, None, "card", None, None, None, rate * 10**9),))
    rates = predict_rates(host, model, CHAT, on_gpu=on_gpu, engine=engine)
    for one in (rates.low, rates.likely, rates.high):
        assert one.step_seconds(streams + 1) >= one.step_seconds(streams)
        assert one.total_tokens_per_second(streams + 1) >= one.total_tokens_per_second(streams) * (1 - 1e-9)
    assert rates.low.step_seconds(streams) >= rates.likely.step_seconds(streams) >= rates.high.step_seconds(streams)
    prefill = [one.prefill_tokens_per_second for one in (rates.low, rates.likely, rates.high)]
    assert prefill == sorted(prefill)


def test_measured_steps_are_kept_as_they_are_and_joined_by_lines() -> None:
    predicted = predict_rates(cpu_host(), eight_billion_16_bit(), CHAT, on_gpu=False)
    # A virtual machine where two streams together get less than one alone.
    rates = rates_from_measured(MeasuredRates(((1, 86.0), (2, 24.0), (4, 16.75), (8, 13.875)), 300.0), predicted)
    step = rates.likely.step_seconds
    for streams, each in ((1, 86.0), (2, 24.0), (4, 16.75), (8, 13.875)):
        assert step(streams) == pytest.approx(1 / each)
    assert step(3) == pytest.approx((1 / 24.0 + 1 / 16.75) / 2)
    assert step(64) > step(8)
    assert 64 / step(64) >= 8 / step(8), "the total does not fall beyond what was measured"


@given(st.lists(st.tuples(st.integers(1, 64), st.floats(0.1, 500)), min_size=1, max_size=6), st.integers(1, 63))
def test_steps_from_any_measurement_rise_and_stay_above_zero(rows: list[tuple[int, float]], streams: int) -> None:
    predicted = predict_rates(cpu_host(), eight_billion_16_bit(), CHAT, on_gpu=False)
    rates = rates_from_measured(MeasuredRates(tuple(rows), 100.0), predicted)
    for one in (rates.low, rates.likely, rates.high):
        assert 0 < one.step_seconds(streams) <= one.step_seconds(streams + 1) * (1 + 1e-9)
    last = max(count for count, _ in rows)
    totals = [rates.likely.total_tokens_per_second(last + more) for more in (0, 1, 10, 100)]
    assert all(after >= before * (1 - 1e-9) for before, after in pairwise(totals))


def test_the_knee_is_where_computing_takes_as_long_as_reading() -> None:
    rates = predict_rates(
        one_card(), eight_billion_16_bit(), replace(CHAT, prompt_tokens=1, reply_tokens=2), on_gpu=True
    )
    knee = find_knee(rates.likely)
    assert knee.cause == "arithmetic" and knee.streams is not None
    computing = rates.likely.arithmetic_seconds
    assert knee.streams * computing >= rates.likely.reading_seconds(knee.streams)
    assert (knee.streams - 1) * computing < rates.likely.reading_seconds(knee.streams - 1)
    assert knee.total_tokens_per_second < knee.plateau_tokens_per_second


def test_the_knee_of_measured_rates_is_where_nearly_all_is_reached() -> None:
    predicted = predict_rates(cpu_host(), eight_billion_16_bit(), CHAT, on_gpu=False)
    # 50 ms and 5 ms more for each further stream: at most 200 tokens/s, 180 of them with 81 streams.
    knee = find_knee(rates_from_measured(MeasuredRates(((1, 20.0), (5, 1 / 0.07)), 100.0), predicted).likely)
    assert (knee.streams, knee.cause) == (81, "plateau")
    assert knee.plateau_tokens_per_second == pytest.approx(200, rel=1e-3)
