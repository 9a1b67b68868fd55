"""vLLM's metrics: every figure that is used, older names, several engines, and text that is none."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llmops.core.errors import EngineNotAnswering, UnreadableInput
from llmops.core.prometheus import LARGEST_CHARACTERS, read_samples
from llmops.core.verification import CheckStatus
from llmops.core.version import Version
from llmops.engines.vllm.metric_checks import preemption_check, rejection_check
from llmops.engines.vllm.metrics import NAMES, CacheInfo, VllmMetrics, ask_metrics, read_metrics
from llmops.host import Response
from llmops.host.recorded import RecordedHost
from llmops.host.recording import Recording
from tests.unit.engines.vllm_metrics import AFTER_PREEMPTIONS, OLD_NAMES


def test_every_figure_is_read() -> None:
    found = read_metrics(AFTER_PREEMPTIONS)
    assert (found.running, found.waiting, found.cache_usage) == (0, 0, 0.0)
    assert (found.preemptions, found.rejections, found.finished) == (18, 0, 8)
    assert (found.prompt_tokens, found.reply_tokens) == (904, 14_400)
    assert (found.prefix_queries_tokens, found.prefix_hits_tokens) == (904, 0)
    assert found.first_token is not None
    assert found.first_token.buckets == ((0.08, 1), (0.25, 8), (float("inf"), 8))
    assert found.first_token.mean_seconds == pytest.approx(0.1143, abs=1e-4)
    assert found.queue_time is not None
    assert found.queue_time.sum_seconds == pytest.approx(0.000319, abs=1e-6)
    assert found.between_tokens is not None
    assert found.between_tokens.count == 14_392


def test_the_cache_is_read_from_labels_without_a_log() -> None:
    cache = read_metrics(AFTER_PREEMPTIONS).cache
    assert cache == CacheInfo(24, 128, 3_072, 1.5, 6_291_456, 0.92, "auto", prefix_caching=True)
    assert cache.usable_blocks == 23


def test_the_names_and_labels_of_older_versions() -> None:
    found = read_metrics(OLD_NAMES)
    assert (found.running, found.waiting, found.cache_usage, found.preemptions) == (2, 1, 0.75, 3)
    assert (found.prefix_queries_tokens, found.prefix_hits_tokens) == (100, 64)
    assert found.between_tokens is not None
    assert found.between_tokens.mean_seconds == 0.05
    assert found.rejections is None, "nothing counted them before 0.32.0"
    assert found.cache == CacheInfo(1_234, 16, gpu_memory_utilization=0.9, data_type="auto")


def test_a_new_name_beats_the_old_one_beside_it() -> None:
    both = "vllm:gpu_cache_usage_perc 0.1\nvllm:kv_cache_usage_perc 0.2\n"
    assert read_metrics(both).cache_usage == 0.2


def test_several_engines_are_added_up_and_the_fullest_counts() -> None:
    text = "".join(
        f'vllm:num_preemptions_total{{engine="{engine}"}} {count}\n'
        f'vllm:kv_cache_usage_perc{{engine="{engine}"}} {usage}\n'
        f'vllm:request_queue_time_seconds_count{{engine="{engine}"}} 2\n'
        f'vllm:request_queue_time_seconds_sum{{engine="{engine}"}} 1.5\n'
        f'vllm:request_queue_time_seconds_bucket{{engine="{engine}",le="1.0"}} 1\n'
        for engine, count, usage in (("0", 2, 0.5), ("1", 3, 0.9))
    )
    found = read_metrics(text)
    assert (found.preemptions, found.cache_usage) == (5, 0.9)
    assert found.queue_time is not None
    assert (found.queue_time.count, found.queue_time.sum_seconds, found.queue_time.buckets) == (4, 3.0, ((1.0, 2),))


def test_what_came_between_two_readings() -> None:
    before = read_metrics("vllm:request_queue_time_seconds_count 2\nvllm:request_queue_time_seconds_sum 1.0\n")
    after = read_metrics("vllm:request_queue_time_seconds_count 6\nvllm:request_queue_time_seconds_sum 9.0\n")
    assert after.queue_time is not None
    assert before.queue_time is not None
    assert after.queue_time.since(before.queue_time).mean_seconds == 2.0


def test_a_server_without_statistics_tells_nothing() -> None:
    assert read_metrics('http_requests_total{status="2xx"} 8.0\n') == VllmMetrics()
    assert read_metrics("") == VllmMetrics()


@pytest.mark.parametrize(
    "text",
    [
        "vllm:num_preemptions_total",
        "vllm:num_preemptions_total{",
        'vllm:num_preemptions_total{engine="0"',
        'vllm:num_preemptions_total{engine="0} 1',
        "vllm:num_preemptions_total{engine=0} 1",
        'vllm:num_preemptions_total{engine="0"} many',
        'vllm:num_preemptions_total{engine="0"} 1 2 3',
        "vllm:num_preemptions_total NaN",
        "vllm:num_preemptions_total -1",
        "vllm:num_preemptions_total 1e999",
        'vllm:num_preemptions_total{engine="0"} 1e308\nvllm:num_preemptions_total{engine="1"} 1e308',
        "vllm:request_queue_time_seconds_count 1\nvllm:request_queue_time_seconds_bucket 1",
        "<html>\nvllm:num_preemptions_total is not here",
    ],
)
def test_nonsense_is_our_own_error(text: str) -> None:
    with pytest.raises(UnreadableInput):
        read_metrics(text)


def test_far_too_much_is_refused() -> None:
    with pytest.raises(UnreadableInput, match="far more"):
        read_samples(" " * (LARGEST_CHARACTERS + 1), "vllm:")


@settings(deadline=None)
@given(st.text(max_size=200), st.text(max_size=40))
def test_no_text_raises_anything_else(text: str, label: str) -> None:
    for hostile in (text, f"vllm:cache_config_info{{{text}", f'vllm:cache_config_info{{a="{label}"}} {text}'):
        try:
            read_metrics(hostile)
        except UnreadableInput as problem:
            assert "metrics" in problem.message or "counts nothing" in problem.message


@settings(deadline=None)
@given(st.text(max_size=60))
def test_any_value_of_a_label_comes_back(value: str) -> None:
    written = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\r", "")
    (sample,) = read_samples(f'vllm:x{{a="{written}",}} 1 1700000000 # {{trace="1"}} 2', "vllm:")
    assert (sample.label("a"), sample.label("b"), sample.value) == (value.replace("\r", ""), None, 1.0)


def test_rows_are_sorted_and_have_sources() -> None:
    for names in NAMES.values():
        assert all(row.source for row in names.rows)
        versions = [row.version for row in names.rows]
        assert versions == sorted(versions)
    assert NAMES["cache_usage"].at(read_version("0.9.1")) == "vllm:gpu_cache_usage_perc"
    assert NAMES["cache_usage"].at(read_version("0.9.2")) == "vllm:kv_cache_usage_perc"
    assert NAMES["between_tokens"].at(read_version("0.10.1")) == "vllm:time_per_output_token_seconds"
    assert NAMES["between_tokens"].at(read_version("0.10.2")) == "vllm:inter_token_latency_seconds"


def read_version(text: str) -> Version:
    found = Version.parse(text)
    assert found is not None
    return found


class Server(RecordedHost):
    """Answers /metrics with one thing."""

    def __init__(self, answer: Response | OSError) -> None:
        super().__init__(Recording())
        self.answer = answer

    def get(self, url: str, *, timeout_seconds: float = 5.0) -> Response:
        assert url == "http://127.0.0.1:8000/metrics"
        if isinstance(self.answer, OSError):
            raise self.answer
        return self.answer


def test_the_server_is_asked() -> None:
    found = ask_metrics(Server(Response(200, AFTER_PREEMPTIONS)), "http://127.0.0.1:8000/")
    assert found.preemptions == 18
    for answer in (Response(404, "no"), ConnectionRefusedError("nobody listens"), TimeoutError("late")):
        with pytest.raises(EngineNotAnswering):
            ask_metrics(Server(answer), "http://127.0.0.1:8000")


@pytest.mark.parametrize(
    ("before", "after", "status", "observed"),
    [
        (VllmMetrics(preemptions=4), VllmMetrics(preemptions=4), CheckStatus.PASS, "0"),
        (VllmMetrics(preemptions=4), VllmMetrics(preemptions=22), CheckStatus.FAIL, "18"),
        (VllmMetrics(preemptions=4), VllmMetrics(preemptions=0), CheckStatus.NOT_EVALUATED, None),
        (VllmMetrics(), VllmMetrics(preemptions=0), CheckStatus.NOT_EVALUATED, None),
        (None, VllmMetrics(preemptions=0), CheckStatus.NOT_EVALUATED, None),
        (VllmMetrics(preemptions=0), None, CheckStatus.NOT_EVALUATED, None),
    ],
)
def test_preemptions_of_a_test(
    before: VllmMetrics | None, after: VllmMetrics | None, status: CheckStatus, observed: str | None
) -> None:
    check = preemption_check(before, after)
    assert (check.name, check.expected, check.observed, check.status) == ("preemptions", "0", observed, status)
    assert check.detail


def test_rejections_of_a_test() -> None:
    assert rejection_check(VllmMetrics(rejections=1), VllmMetrics(rejections=1)).status is CheckStatus.PASS
    refused = rejection_check(VllmMetrics(rejections=1), VllmMetrics(rejections=4))
    assert (refused.status, refused.observed) == (CheckStatus.FAIL, "3")
    assert rejection_check(VllmMetrics(), VllmMetrics()).status is CheckStatus.NOT_EVALUATED
