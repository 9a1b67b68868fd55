"""What timed streams mean: a queue, shared speed, nonsense, and the swap of the machine meanwhile."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Mapping, Sequence

import pytest

from llmops.core.errors import EngineNotAnswering, UnreadableInput
from llmops.core.statistics import percentile
from llmops.host import StreamTimings
from llmops.host.recorded import RecordedHost
from llmops.host.recording import Question, Recording, encode_bytes
from llmops.load import (
    LoadResult,
    Overlap,
    RequestTiming,
    random_prompt,
    stream_one,
    swap_counters,
    swap_traffic,
    two_requests,
    users_closed_loop,
)
from llmops.load.pair import judge
from llmops.load.timings import read_timings

URL = "http://127.0.0.1:8080"


def token(text: str = "a") -> str:
    return json.dumps({"choices": [{"delta": {"content": text}, "finish_reason": None}]})


def last(tokens: int, prompt_ms: float = 100.0) -> tuple[str, str]:
    """The two events with which llama-server ends a stream."""
    timings = {"cache_n": 0, "prompt_n": 60, "prompt_ms": prompt_ms, "predicted_n": tokens, "predicted_per_second": 9.5}
    usage = {"prompt_tokens": 60, "completion_tokens": tokens}
    return (
        json.dumps({"choices": [{"delta": {}, "finish_reason": "length"}]}),
        json.dumps({"choices": [], "usage": usage, "timings": timings}),
    )


def reply(started: float, headers: float, first: float, tokens: int, gap: float) -> StreamTimings:
    """A whole reply; times as in StreamTimings."""
    events = [(first + number * gap, token()) for number in range(tokens)]
    ended = events[-1][0]
    events += [(ended, text) for text in last(tokens)]
    return StreamTimings(started, 200, headers, tuple(events), ended, None)


class Engine(RecordedHost):
    """Answers streams by a rule; jobs that run together all start at the same time."""

    def __init__(self, rule: Callable[[int, float], StreamTimings]) -> None:
        super().__init__(Recording())
        self.rule = rule
        self.payloads: list[Mapping[str, object]] = []

    def stream_completion(
        self, url: str, payload: Mapping[str, object], *, timeout_seconds: float = 300.0
    ) -> StreamTimings:
        assert url == f"{URL}/v1/chat/completions"
        self.payloads.append(payload)
        found = self.rule(len(self.payloads), self.monotonic())
        self.sleep(found.ended_seconds)
        return found

    def together(self, jobs: Sequence[Callable[[], StreamTimings]]) -> tuple[StreamTimings, ...]:
        start, found, ends = self._slept_seconds, [], []
        for job in jobs:
            self._slept_seconds = start
            found.append(job())
            ends.append(self._slept_seconds)
        self._slept_seconds = max(ends, default=start)
        return tuple(found)


def one_slot(number: int, now: float) -> StreamTimings:
    """llama-server -np 1 as it was measured: the fourth request gets its headers when the third has ended."""
    if number < 4:
        return reply(now, 0.004, 0.14, 128, 0.037)
    return reply(now, 4.81, 4.98, 128, 0.037)


def two_slots(number: int, now: float) -> StreamTimings:
    """llama-server -np 2 as it was measured: both at once, both slower."""
    if number < 3:
        return reply(now, 0.004, 0.14, 128, 0.025)
    return reply(now, 0.17 if number == 4 else 0.006, 0.5, 128, 0.05)


def test_one_slot_makes_the_second_wait() -> None:
    found = two_requests(Engine(one_slot), URL, prompt_tokens=60, reply_tokens=128)
    assert found.verdict is Overlap.SERIAL
    assert found.reason.startswith("the second produced nothing until the first ended")
    assert found.overlap_seconds == 0.0
    assert found.second.headers_seconds == 4.81
    assert found.slowdown == pytest.approx(1.0)
    assert not found.shares_speed


def test_two_slots_overlap_and_the_price_is_told() -> None:
    found = two_requests(Engine(two_slots), URL, prompt_tokens=60, reply_tokens=128)
    assert found.verdict is Overlap.OVERLAPPED
    assert found.overlap_ratio == pytest.approx(1.0)
    assert (found.single_tokens_per_second, found.per_stream_tokens_per_second) == pytest.approx((40.0, 20.0))
    assert found.slowdown == pytest.approx(2.0)
    assert found.shares_speed


def busy_for(tries: int) -> Callable[[int, float], StreamTimings]:
    """Two slots of a busy machine: in the first tries the second request starts late, the first still running."""

    def rule(number: int, now: float) -> StreamTimings:
        late = number >= 4 and number % 2 == 0 and number < 4 + 2 * tries
        return reply(now, 0.004, 4.5 if late else 0.14, 128, 0.05)

    return rule


@pytest.mark.parametrize(
    ("busy_tries", "verdict", "tries"),
    [(0, Overlap.OVERLAPPED, 1), (1, Overlap.OVERLAPPED, 2), (2, Overlap.OVERLAPPED, 3), (3, Overlap.UNCLEAR, 3)],
)
def test_a_blurred_picture_is_taken_anew(busy_tries: int, verdict: Overlap, tries: int) -> None:
    engine = Engine(busy_for(busy_tries))
    found = two_requests(engine, URL, prompt_tokens=60, reply_tokens=128)
    assert (found.verdict, found.tries, len(engine.payloads)) == (verdict, tries, 2 + 2 * tries)
    prompts = {str(payload["messages"]) for payload in engine.payloads}
    assert len(prompts) == len(engine.payloads), "a repeated prompt could be answered from a cache"


def test_equal_lengths_different_beginnings_and_a_warm_up_first() -> None:
    engine = Engine(two_slots)
    two_requests(engine, URL, prompt_tokens=60, reply_tokens=128, model="m")
    prompts = [payload["messages"][0]["content"] for payload in engine.payloads]  # type: ignore[index]
    assert len(prompts) == 4
    assert len({len(prompt.split()) for prompt in prompts}) == 1
    assert len({prompt.split()[:3][0] + prompt.split()[1] + prompt.split()[2] for prompt in prompts}) == 4
    assert [payload["max_tokens"] for payload in engine.payloads] == [16, 128, 128, 128]
    assert all(payload["cache_prompt"] is False and payload["model"] == "m" for payload in engine.payloads)


def timing(first: float, tokens: int, gap: float, error: str | None = None) -> RequestTiming:
    times = tuple(first + number * gap for number in range(tokens))
    return RequestTiming(0.0, 0.0, times, times[-1] if times else first, error=error)


@pytest.mark.parametrize(
    ("one", "other", "words"),
    [
        (timing(0.1, 2, 0.1), timing(0.1, 2, 0.1), "too short to judge"),
        (timing(0.1, 10, 0.1), timing(0.1, 0, 0.1), "too short to judge"),
        (timing(0.1, 10, 0.1), timing(0.1, 10, 0.1, "HTTP 500: x"), "a request failed: HTTP 500: x"),
        (timing(0.0, 11, 0.1), timing(0.7, 11, 0.1), "neither one after the other nor side by side"),
    ],
)
def test_what_cannot_be_judged_is_unclear_and_says_why(one: RequestTiming, other: RequestTiming, words: str) -> None:
    for pair in ((one, other), (other, one)):
        found = judge(timing(0.1, 10, 0.1), *pair)
        assert found.verdict is Overlap.UNCLEAR
        assert words in found.reason


def test_the_first_is_the_one_that_speaks_first() -> None:
    found = judge(timing(0.1, 10, 0.1), timing(5.0, 10, 0.1), timing(0.1, 10, 0.1))
    assert (found.first.token_seconds[0], found.second.token_seconds[0]) == (0.1, 5.0)
    assert found.verdict is Overlap.SERIAL


def test_an_engine_that_does_not_answer_is_named() -> None:
    engine = Engine(lambda _number, now: StreamTimings(now, None, None, (), 0.0, "Connection refused"))
    with pytest.raises(EngineNotAnswering, match="Connection refused") as found:
        two_requests(engine, URL, prompt_tokens=60, reply_tokens=8)
    assert found.value.exit_code == 11


def test_the_figures_of_a_stream() -> None:
    found = stream_one(Engine(lambda _n, now: reply(now, 0.1, 0.3, 5, 0.1)), URL + "/", "hello", 5)
    assert found.first_token_seconds == pytest.approx(0.3)
    assert found.inter_token_seconds == pytest.approx((0.1,) * 4)
    assert found.tokens_per_second == pytest.approx(10.0)
    assert (found.prompt_tokens, found.cached_tokens, found.reply_tokens) == (60, 0, 5)
    assert (found.prefill_seconds, found.decode_tokens_per_second) == (0.1, 9.5)
    assert (found.finish_reason, found.error) == ("length", None)


@pytest.mark.parametrize(
    ("events", "words"),
    [
        (["<html>"], "an event is not JSON"),
        (["[1]"], "an event is not an object"),
        ([token(), '{"error": {"message": "Context size has been exceeded.", "code": 500}}'], "Context size has been"),
        (['{"error": 7}'], "the engine says: 7"),
        ([token(), token()], "ended unfinished after 2 tokens"),
        ([], "ended unfinished after 0 tokens"),
        (['{"choices": 7, "usage": [], "timings": "x"}', '{"choices": [null, {"delta": null}]}'], "after 0 tokens"),
    ],
)
def test_nonsense_is_an_error_in_the_result(events: list[str], words: str) -> None:
    stream = StreamTimings(0.0, 200, 0.1, tuple((0.2, text) for text in events), 0.3, None)
    found = read_timings(stream)
    assert found.error is not None
    assert words in found.error


def test_reasoning_counts_as_tokens_and_empty_deltas_do_not() -> None:
    deltas = [{"role": "assistant", "content": None}, {"content": ""}, {"reasoning_content": "hm"}, {"content": "so"}]
    events = tuple((float(place), json.dumps({"choices": [{"delta": delta}]})) for place, delta in enumerate(deltas))
    assert read_timings(StreamTimings(0.0, 200, 0.0, events, 9.0, None)).token_seconds == (2.0, 3.0)


def test_the_loop_sends_every_request_once_and_counts_failures() -> None:
    def rule(number: int, now: float) -> StreamTimings:
        return reply(now, 0.1, 0.2, 10, 0.1) if number % 4 else StreamTimings(now, 503, 0.1, (), 0.1, "HTTP 503: busy")

    engine = Engine(rule)
    found = users_closed_loop(engine, URL, users=5, requests=12, prompt_tokens=40, reply_tokens=10, think_seconds=0.5)
    assert len(engine.payloads) == len({json.dumps(payload) for payload in engine.payloads}) == 12
    assert (len(found.requests), len(found.rejected), len(found.failed), found.reply_tokens) == (12, 3, 0, 90)
    assert found.first_token.p50 == pytest.approx(0.2)
    assert len(found.inter_token_seconds) == 81
    assert (found.stalls(0.05), found.stalls(0.2)) == (81, 0)
    assert found.tokens_per_second == pytest.approx(90 / found.wall_seconds)


VLLM_BUSY = json.dumps({
    "error": {
        "message": "The engine is currently busy and cannot accept new requests.",
        "type": "Service Unavailable",
        "param": None,
        "code": 503,
    }
})  # fmt: skip


@pytest.mark.parametrize(
    ("stream", "rejected"),
    [
        # vLLM 0.32.0 in a burst: HTTP 200, and the refusal as an event.
        (StreamTimings(0.0, 200, 0.1, ((0.2, VLLM_BUSY),), 0.2, None), True),
        (StreamTimings(0.0, 503, 0.1, (), 0.1, f"HTTP 503: {VLLM_BUSY}"), True),
        (StreamTimings(0.0, 429, 0.1, (), 0.1, "HTTP 429: slow down"), True),
        (StreamTimings(0.0, 500, 0.1, (), 0.1, "HTTP 500: broken"), False),
        (StreamTimings(0.0, 200, 0.1, ((0.2, token()), (0.3, VLLM_BUSY)), 0.3, None), False),
        (StreamTimings(0.0, 200, 0.1, ((0.2, '{"error": {"code": "503"}}'),), 0.2, None), False),
        (StreamTimings(0.0, None, None, (), 0.1, "Connection refused"), False),
    ],
)
def test_a_refusal_is_told_from_a_failure_whatever_the_status(stream: StreamTimings, *, rejected: bool) -> None:
    found = read_timings(stream)
    assert found.rejected is rejected
    assert found.error is not None
    result = LoadResult((found,), 1.0)
    assert (len(result.rejected), len(result.failed), result.answered) == (rejected, not rejected, ())
    words = "a request was refused, the queue is full: " if rejected else "a request failed: "
    assert judge(timing(0.1, 10, 0.1), timing(0.1, 10, 0.1), found).reason.startswith(words)


def test_a_preempted_stream_shows_only_in_its_longest_gap() -> None:
    times = [0.1 + number * 0.005 for number in range(900)] + [24.0 + number * 0.005 for number in range(900)]
    calm = [0.1 + number * 0.01 for number in range(1_800)]
    requests = tuple(RequestTiming(0.0, 0.0, tuple(one), one[-1], reply_tokens=1_800) for one in (times, calm))
    found = LoadResult(requests, 30.0)
    assert (found.stalls(), found.stalled_streams(), found.stalled_streams(20.0)) == (1, 1, 0)
    assert found.longest_gaps_seconds == pytest.approx((24.0 - times[899], 0.01))
    assert found.first_token.max == 0.1
    assert percentile(found.inter_token_seconds, 0.95) < 0.02
    assert found.last_reply_seconds == pytest.approx(times[-1])


def test_a_stream_that_broke_off_in_silence_counts_as_stalled() -> None:
    broken = RequestTiming(0.0, 0.0, (0.1, 0.2), 9.2, error="the answer was not complete after 9 s")
    found = LoadResult((broken, timing(0.1, 0, 0.1)), 9.2)
    assert (found.stalls(), found.stalled_streams()) == (0, 1)
    assert found.longest_gaps_seconds == pytest.approx((9.0,))
    assert found.last_reply_seconds == 0.1


def test_events_that_gather_tokens_are_noticed() -> None:
    assert RequestTiming(0.0, 0.0, (0.1,) * 283, 1.0, reply_tokens=300).gathers_tokens is False
    gathered = RequestTiming(0.0, 0.0, (0.1, 0.4, 0.7), 1.0, reply_tokens=30)
    assert gathered.tokens_per_event == 10.0
    assert gathered.tokens_per_second == pytest.approx(20 / 0.6), "those of the first event came before the clock ran"
    assert "3 events with several tokens each" in judge(gathered, gathered, gathered).reason
    assert LoadResult((gathered,), 1.0).gathers_tokens
    assert not timing(0.1, 5, 0.1).gathers_tokens, "not known without a count"


def test_vllm_counts_the_cached_part_of_a_prompt_elsewhere() -> None:
    usage = {"prompt_tokens": 1_512, "completion_tokens": 1, "prompt_tokens_details": {"cached_tokens": 1_408}}
    events = ((0.1, token()), (0.1, last(1)[0]), (0.2, json.dumps({"choices": [], "usage": usage})))
    found = read_timings(StreamTimings(0.0, 200, 0.0, events, 0.2, None))
    assert (found.prompt_tokens, found.cached_tokens, found.reply_tokens, found.error) == (1_512, 1_408, 1, None)


def test_prompts_are_repeatable_and_as_long_as_asked() -> None:
    assert random_prompt(112, 1) == random_prompt(112, 1) != random_prompt(112, 2)
    assert len(random_prompt(112, 1).split()) == 100
    assert random_prompt(1, 1)


def vmstat(**counters: int) -> str:
    usual = {"pgpgin": 1000, "pgpgout": 5, "pswpin": 10, "pswpout": 20, "pgmajfault": 3, **counters}
    return "".join(f"{name} {value}\n" for name, value in usual.items())


def machine(*texts: str, page_bytes: int | None) -> RecordedHost:
    answers = Recording()
    for text in texts:
        answers.add(Question.of("read_text", "/proc/vmstat"), text)
    vector = Question.of("read_bytes", "/proc/self/auxv", 0, 4096)
    if page_bytes is None:
        answers.add_failure(vector, PermissionError(13, "Permission denied"))
    else:
        answers.add(vector, encode_bytes(struct.pack("@LLLL", 6, page_bytes, 0, 0)))
    return RecordedHost(answers)


@pytest.mark.parametrize(("page_bytes", "expected"), [(4096, 4096), (65536, 65536), (None, 4096)])
def test_swap_is_counted_in_pages_and_reads_in_kib(page_bytes: int | None, expected: int) -> None:
    host = machine(vmstat(), vmstat(pswpin=12, pswpout=1020, pgpgin=1500, pgmajfault=9), page_bytes=page_bytes)
    before = swap_counters(host)
    host.sleep(5.0)
    traffic = swap_traffic(before, swap_counters(host))
    assert (traffic.swapped_in_bytes, traffic.swapped_out_bytes) == (2 * expected, 1000 * expected)
    assert (traffic.read_bytes, traffic.major_faults, traffic.seconds) == (500 * 1024, 6, 5.0)
    assert traffic.swapped


@pytest.mark.parametrize(
    ("change", "swapped", "reread"),
    [
        ({}, False, False),
        ({"pswpin": 100}, False, False),
        ({"pswpout": 1000}, True, False),
        ({"pgpgin": 41_000, "pgmajfault": 500}, False, False),
        ({"pgpgin": 61_000, "pgmajfault": 500}, False, True),
        ({"pgpgin": 61_000}, False, False),
    ],
)
def test_swapping_and_reading_the_model_again_are_told_apart(
    change: dict[str, int], swapped: bool, reread: bool
) -> None:
    host = machine(vmstat(), vmstat(**change), page_bytes=4096)
    traffic = swap_traffic(swap_counters(host), swap_counters(host))
    assert (traffic.swapped, traffic.reread(weights_bytes=1_000_000_000)) == (swapped, reread)


def test_a_kernel_that_does_not_count_is_named() -> None:
    with pytest.raises(UnreadableInput, match="no pswpin and no pswpout"):
        swap_counters(machine("pgpgin 1\npgmajfault 2\n", page_bytes=4096))
