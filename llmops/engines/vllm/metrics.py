"""What a running vLLM tells at /metrics: its requests, its cache, and how often it took a request off the cards."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from llmops.core.errors import EngineNotAnswering, UnreadableInput
from llmops.core.prometheus import Sample, counted, read_samples
from llmops.core.version import Since, Timeline, Version
from llmops.host import Host

PREFIX = "vllm:"
PATH = "/metrics"
_OK = 200
_FIRST = Version((0,))


def _always(name: str, source: str) -> Timeline[str]:
    return Timeline((Since(_FIRST, name, source),))


# What each figure is called from which version on. The newest name that is there is read: a server may still show an
# old name beside the new one. From 0.9.2 on both were shown for a while (docs/usage/metrics.md: hidden one release
# after they were deprecated, gone two after).
NAMES: dict[str, Timeline[str]] = {
    "running": _always("vllm:num_requests_running", "vllm 0.8.5, v1/metrics/loggers.py"),
    "waiting": _always("vllm:num_requests_waiting", "vllm 0.8.5, v1/metrics/loggers.py: with those put back"),
    "cache_usage": Timeline(
        (
            Since(_FIRST, "vllm:gpu_cache_usage_perc", "vllm 0.8.5, v1/metrics/loggers.py; gone in 0.12.0"),
            Since(Version((0, 9, 2)), "vllm:kv_cache_usage_perc", "vllm 0.9.2, v1/metrics/loggers.py"),
        )
    ),
    "preemptions": _always("vllm:num_preemptions_total", "vllm 0.8.5, v1/metrics/loggers.py"),
    "prefix_queries": Timeline(
        (
            Since(_FIRST, "vllm:gpu_prefix_cache_queries_total", "vllm 0.8.5, v1/metrics/loggers.py; gone in 0.12.0"),
            Since(Version((0, 9, 2)), "vllm:prefix_cache_queries_total", "vllm 0.9.2, v1/metrics/loggers.py"),
        )
    ),
    "prefix_hits": Timeline(
        (
            Since(_FIRST, "vllm:gpu_prefix_cache_hits_total", "vllm 0.8.5, v1/metrics/loggers.py; gone in 0.12.0"),
            Since(Version((0, 9, 2)), "vllm:prefix_cache_hits_total", "vllm 0.9.2, v1/metrics/loggers.py"),
        )
    ),
    "prompt_tokens": _always("vllm:prompt_tokens_total", "vllm 0.8.5, v1/metrics/loggers.py"),
    "reply_tokens": _always("vllm:generation_tokens_total", "vllm 0.8.5, v1/metrics/loggers.py"),
    "rejections": _always("vllm:admission_rejections_total", "vllm 0.32.0; before it nothing counts them"),
    "finished": _always("vllm:request_success_total", "vllm 0.8.5, v1/metrics/loggers.py"),
    "first_token": _always("vllm:time_to_first_token_seconds", "vllm 0.8.5, v1/metrics/loggers.py"),
    "queue_time": _always("vllm:request_queue_time_seconds", "vllm 0.8.5, v1/metrics/loggers.py"),
    "prefill_time": _always("vllm:request_prefill_time_seconds", "vllm 0.8.5, v1/metrics/loggers.py"),
    "decode_time": _always("vllm:request_decode_time_seconds", "vllm 0.8.5, v1/metrics/loggers.py"),
    "between_tokens": Timeline(
        (
            Since(_FIRST, "vllm:time_per_output_token_seconds", "vllm 0.8.5, v1/metrics/loggers.py; gone in 0.15"),
            Since(Version((0, 10, 2)), "vllm:inter_token_latency_seconds", "vllm 0.10.2, v1/metrics/loggers.py"),
        )
    ),
    "cache": _always("vllm:cache_config_info", "vllm 0.8.5, v1/metrics/loggers.py: the settings are its labels"),
}


@dataclass(frozen=True)
class Histogram:
    """How many values there were, their sum, and how many were at or below each bound."""

    count: int
    sum_seconds: float
    buckets: tuple[tuple[float, int], ...] = ()

    @property
    def mean_seconds(self) -> float | None:
        """None where there were no values."""
        return self.sum_seconds / self.count if self.count else None

    def since(self, before: Histogram) -> Histogram:
        """What came after an earlier reading of the same server."""
        earlier = dict(before.buckets)
        buckets = tuple((bound, count - earlier.get(bound, 0)) for bound, count in self.buckets)
        return Histogram(self.count - before.count, self.sum_seconds - before.sum_seconds, buckets)


@dataclass(frozen=True)
class CacheInfo:
    """The labels of cache_config_info for one engine; None for what this version does not tell.

    `size_tokens` and `max_concurrency` are there since 0.24.0 and are those of the start's log.
    """

    blocks: int | None = None
    block_size: int | None = None
    size_tokens: int | None = None
    max_concurrency: float | None = None
    memory_bytes: int | None = None
    gpu_memory_utilization: float | None = None
    data_type: str | None = None
    prefix_caching: bool | None = None

    @property
    def usable_blocks(self) -> int | None:
        """All but the one that stands for nothing and is never given to a request (v1/core/block_pool.py)."""
        return None if self.blocks is None else max(0, self.blocks - 1)


@dataclass(frozen=True)
class VllmMetrics:
    """One reading. Several engines behind one address are added up; `cache_usage` (0 to 1) is that of the fullest.

    None is not told: by this version, or by a server that was started with --disable-log-stats. Counters begin at 0
    when the server starts. `waiting` holds those that were put back too.
    """

    running: int | None = None
    waiting: int | None = None
    cache_usage: float | None = None
    preemptions: int | None = None
    prefix_queries_tokens: int | None = None
    prefix_hits_tokens: int | None = None
    prompt_tokens: int | None = None
    reply_tokens: int | None = None
    rejections: int | None = None
    finished: int | None = None
    first_token: Histogram | None = None
    queue_time: Histogram | None = None
    prefill_time: Histogram | None = None
    decode_time: Histogram | None = None
    between_tokens: Histogram | None = None
    caches: tuple[CacheInfo, ...] = ()

    @property
    def cache(self) -> CacheInfo | None:
        """The cache of the first engine; with several engines each has its own of the same settings."""
        return self.caches[0] if self.caches else None


def ask_metrics(host: Host, url: str, *, timeout_seconds: float = 10.0) -> VllmMetrics:
    """The metrics of the server at `url` (without path).

    Raise EngineNotAnswering where it gives none, UnreadableInput for an answer that is not such a text.
    """
    address = url.rstrip("/") + PATH
    try:
        answer = host.get(address, timeout_seconds=timeout_seconds)
    except OSError as problem:
        raise EngineNotAnswering(f"{address} does not answer: {problem}") from problem
    if answer.status != _OK:
        raise EngineNotAnswering(f"{address} answers with HTTP {answer.status}")
    return read_metrics(answer.body)


def read_metrics(text: str) -> VllmMetrics:
    """Read the text of /metrics; raise UnreadableInput for a broken line of vLLM's or an impossible value."""
    samples: dict[str, list[Sample]] = {}
    for sample in read_samples(text, PREFIX):
        samples.setdefault(sample.name, []).append(sample)
    return VllmMetrics(
        running=_sum(samples, "running"),
        waiting=_sum(samples, "waiting"),
        cache_usage=_largest(samples, "cache_usage"),
        preemptions=_sum(samples, "preemptions"),
        prefix_queries_tokens=_sum(samples, "prefix_queries"),
        prefix_hits_tokens=_sum(samples, "prefix_hits"),
        prompt_tokens=_sum(samples, "prompt_tokens"),
        reply_tokens=_sum(samples, "reply_tokens"),
        rejections=_sum(samples, "rejections"),
        finished=_sum(samples, "finished"),
        first_token=_histogram(samples, "first_token"),
        queue_time=_histogram(samples, "queue_time"),
        prefill_time=_histogram(samples, "prefill_time"),
        decode_time=_histogram(samples, "decode_time"),
        between_tokens=_histogram(samples, "between_tokens"),
        caches=tuple(_cache(sample) for sample in _named(samples, "cache")),
    )


def _named(samples: dict[str, list[Sample]], figure: str, ending: str = "") -> Sequence[Sample]:
    """The samples of one figure under the newest of its names that is there."""
    for row in reversed(NAMES[figure].rows):
        if found := samples.get(row.value + ending):
            return found
    return ()


def _sum(samples: dict[str, list[Sample]], figure: str, ending: str = "") -> int | None:
    found = _named(samples, figure, ending)
    return round(sum(counted(one.name, one.value) for one in found)) if found else None


def _largest(samples: dict[str, list[Sample]], figure: str) -> float | None:
    found = [counted(one.name, one.value) for one in _named(samples, figure)]
    return max(found, default=None)


def _histogram(samples: dict[str, list[Sample]], figure: str) -> Histogram | None:
    count = _sum(samples, figure, "_count")
    if count is None:
        return None
    total = sum(counted(one.name, one.value) for one in _named(samples, figure, "_sum"))
    buckets: dict[float, int] = {}
    for one in _named(samples, figure, "_bucket"):
        bound = _number(one.label("le"))
        if bound is None:
            raise UnreadableInput(f"a bucket of {one.name} has no bound: {one.label('le')!r}")
        buckets[bound] = buckets.get(bound, 0) + round(counted(one.name, one.value))
    return Histogram(count, total, tuple(sorted(buckets.items())))


def _cache(sample: Sample) -> CacheInfo:
    """The labels as numbers; `None` as a word, and what is no number, is not told."""
    return CacheInfo(
        blocks=_whole(sample.label("num_gpu_blocks")),
        block_size=_whole(sample.label("block_size")),
        size_tokens=_whole(sample.label("kv_cache_size_tokens")),
        max_concurrency=_number(sample.label("kv_cache_max_concurrency")),
        memory_bytes=_whole(sample.label("kv_cache_memory_bytes")),
        gpu_memory_utilization=_number(sample.label("gpu_memory_utilization")),
        data_type=_told(sample.label("cache_dtype")),
        prefix_caching={"True": True, "False": False}.get(sample.label("enable_prefix_caching") or ""),
    )


def _told(text: str | None) -> str | None:
    return None if text in (None, "", "None") else text


def _whole(text: str | None) -> int | None:
    number = _number(text)
    return None if number is None or number in (float("inf"), float("-inf")) or number < 0 else int(number)


def _number(text: str | None) -> float | None:
    try:
        number = float(text or "")
    except ValueError:
        return None
    return None if number != number else number  # noqa: PLR0124 - not a number
