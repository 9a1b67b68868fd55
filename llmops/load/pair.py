"""The two-request test: does the second request run beside the first, or does it wait for it?

A queue makes the second silent until the first has ended; shared bandwidth makes both slow at once. The two look the
same to a person who waits, and call for opposite cures.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum

from llmops.host import Host
from llmops.load.prompts import random_prompt
from llmops.load.stream import CHAT_PATH, completion_payload, stream_one, warm_up
from llmops.load.timings import RequestTiming, read_timings

# Shares of the shorter generation during which both produced tokens. Two slots give 0.9 and more, one slot gives 0;
# between them a busy machine or a long prefill blurs the picture and no verdict is given.
SERIAL_BELOW = 0.1
OVERLAPPED_FROM = 0.5
# With fewer tokens a generation is too short to overlap with anything.
FEWEST_TOKENS = 4
# A blurred picture is taken anew: what blurs it (another process, a first compilation) seldom comes three times.
MOST_TRIES = 3
# Two streams at 0.625 of the single speed or less: the second stream costs the first its speed.
SHARED_SPEED_SLOWDOWN = 1.6


class Overlap(str, Enum):
    """What the token times of two requests say."""

    OVERLAPPED = "overlapped"
    SERIAL = "serial"
    UNCLEAR = "unclear"


@dataclass(frozen=True)
class TwoRequests:
    """One request alone, then two together; `reason` says in words why the verdict is what it is.

    `tries` counts how often the two were sent until their token times told one case from the other.
    """

    alone: RequestTiming
    first: RequestTiming
    second: RequestTiming
    verdict: Overlap
    reason: str
    overlap_seconds: float
    overlap_ratio: float
    tries: int = 1

    @property
    def is_blurred(self) -> bool:
        """Both were answered, yet neither one after the other nor side by side."""
        answered = self.first.error is None and self.second.error is None
        return answered and SERIAL_BELOW <= self.overlap_ratio < OVERLAPPED_FROM

    @property
    def single_tokens_per_second(self) -> float | None:
        """Speed of a request that has the engine to itself."""
        return self.alone.tokens_per_second

    @property
    def per_stream_tokens_per_second(self) -> float | None:
        """Mean speed of the two."""
        first, second = self.first.tokens_per_second, self.second.tokens_per_second
        return None if first is None or second is None else (first + second) / 2.0

    @property
    def slowdown(self) -> float | None:
        """Speed alone over speed of each of two: near 1 is free, near 2 is half speed."""
        alone, each = self.single_tokens_per_second, self.per_stream_tokens_per_second
        return None if alone is None or each is None else alone / each

    @property
    def shares_speed(self) -> bool:
        """Both ran at once and each paid for it: limited by bandwidth or threads, not by the number of slots."""
        slowdown = self.slowdown
        return self.verdict is Overlap.OVERLAPPED and slowdown is not None and slowdown >= SHARED_SPEED_SLOWDOWN


def two_requests(
    host: Host,
    url: str,
    *,
    prompt_tokens: int,
    reply_tokens: int,
    seed: int = 1,
    model: str | None = None,
    timeout_seconds: float = 300.0,
) -> TwoRequests:
    """Warm up, time one request alone, then two of equal length with different beginnings at the same moment.

    Where the two blur into each other they are sent again, at most MOST_TRIES times.

    Raises EngineNotAnswering when already the warm-up gets no proper answer; later failures are in the result.
    """
    lengths = {"prompt_tokens": prompt_tokens, "reply_tokens": reply_tokens}
    warm_up(host, url, **lengths, model=model, seed=seed * 10, timeout_seconds=timeout_seconds)
    prompts = iter([random_prompt(prompt_tokens, seed * 10 + number) for number in range(1, 2 * MOST_TRIES + 2)])
    alone = stream_one(host, url, next(prompts), reply_tokens, model=model, timeout_seconds=timeout_seconds)
    for tries in range(1, MOST_TRIES + 1):
        pair = [completion_payload(next(prompts), reply_tokens, model) for _ in range(2)]
        found = replace(judge(alone, *_at_once(host, url, pair, timeout_seconds)), tries=tries)
        if not found.is_blurred:
            break
    return found


def _at_once(
    host: Host, url: str, payloads: list[dict[str, object]], timeout_seconds: float
) -> tuple[RequestTiming, RequestTiming]:
    path = url.rstrip("/") + CHAT_PATH
    one, other = host.together(
        [
            lambda payload=payload: host.stream_completion(path, payload, timeout_seconds=timeout_seconds)  # type: ignore[misc]
            for payload in payloads
        ]
    )
    return read_timings(one), read_timings(other)


def judge(alone: RequestTiming, one: RequestTiming, other: RequestTiming) -> TwoRequests:
    """The verdict on three timings; of the two, the one whose first token came first is the first."""
    first, second = sorted((one, other), key=_first_token_time)
    seconds, ratio = _overlap(first, second)
    verdict, reason = _verdict(first, second, ratio)
    return TwoRequests(alone, first, second, verdict, reason, seconds, ratio)


def _first_token_time(request: RequestTiming) -> float:
    return request.generation[0] if request.generation else float("inf")


def _overlap(first: RequestTiming, second: RequestTiming) -> tuple[float, float]:
    if first.generation is None or second.generation is None:
        return 0.0, 0.0
    together = min(first.generation[1], second.generation[1]) - max(first.generation[0], second.generation[0])
    shorter = min(end - start for start, end in (first.generation, second.generation))
    seconds = max(0.0, together)
    return seconds, seconds / shorter if shorter > 0 else 0.0


def _verdict(first: RequestTiming, second: RequestTiming, ratio: float) -> tuple[Overlap, str]:
    for request in (first, second):
        if request.error is not None:
            what = "was refused, the queue is full" if request.rejected else "failed"
            return Overlap.UNCLEAR, f"a request {what}: {request.error}"
    fewest = min(len(first.token_seconds), len(second.token_seconds))
    if fewest < FEWEST_TOKENS:
        gathered = first.gathers_tokens or second.gathers_tokens
        what = f"{fewest} events with several tokens each" if gathered else f"{fewest} tokens"
        return Overlap.UNCLEAR, f"a reply of {what} is too short to judge"
    waited = second.headers_seconds if second.headers_seconds is not None else second.token_seconds[0]
    if ratio < SERIAL_BELOW:
        return Overlap.SERIAL, (
            f"the second produced nothing until the first ended: first token after {second.token_seconds[0]:.2f} s, "
            f"the first request ended after {first.ended_seconds:.2f} s"
        )
    shared = f"both produced tokens during {ratio:.0%} of the shorter generation"
    if ratio < OVERLAPPED_FROM:
        return Overlap.UNCLEAR, f"{shared}, neither one after the other nor side by side; the machine may be busy"
    return Overlap.OVERLAPPED, f"{shared}; the second was taken after {waited:.2f} s"
