"""Many users in a closed loop: each sends, reads the reply, thinks, and sends again."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass

from llmops.core.statistics import Percentiles, percentiles, stalls
from llmops.host import Host, StreamTimings
from llmops.load.prompts import random_prompt
from llmops.load.stream import CHAT_PATH, DEFAULT_TIMEOUT_SECONDS, completion_payload
from llmops.load.timings import RequestTiming, read_timings

# A reader waits this long in the middle of a sentence before it looks broken.
LONGEST_GAP_SECONDS = 2.0


@dataclass(frozen=True)
class LoadResult:
    """Every request of one run in the order in which they ended, and how long the run took."""

    requests: tuple[RequestTiming, ...]
    wall_seconds: float

    @property
    def answered(self) -> tuple[RequestTiming, ...]:
        """The requests that got a whole reply."""
        return tuple(request for request in self.requests if request.error is None)

    @property
    def rejected(self) -> tuple[RequestTiming, ...]:
        """The requests that were refused at once: the queue was full."""
        return tuple(request for request in self.requests if request.rejected)

    @property
    def failed(self) -> tuple[RequestTiming, ...]:
        """The requests that got no whole reply and were not refused."""
        return tuple(request for request in self.requests if request.error is not None and not request.rejected)

    @property
    def first_token_seconds(self) -> tuple[float, ...]:
        """Time to first token of every answered request."""
        return tuple(one.first_token_seconds for one in self.answered if one.first_token_seconds is not None)

    @property
    def headers_seconds(self) -> tuple[float, ...]:
        """Time to headers: the queue on llama-server, nothing of interest elsewhere."""
        return tuple(one.headers_seconds for one in self.answered if one.headers_seconds is not None)

    @property
    def inter_token_seconds(self) -> tuple[float, ...]:
        """Gaps between tokens of all answered requests."""
        return tuple(gap for request in self.answered for gap in request.inter_token_seconds)

    @property
    def reply_tokens(self) -> int:
        """Tokens of all answered requests, as the engine counted them where it did."""
        counts = (len(one.token_seconds) if one.reply_tokens is None else one.reply_tokens for one in self.answered)
        return sum(counts)

    @property
    def tokens_per_second(self) -> float:
        """Reply tokens of all streams together over the whole run."""
        return self.reply_tokens / self.wall_seconds if self.wall_seconds > 0 else 0.0

    @property
    def first_token(self) -> Percentiles:
        """Percentiles of the time to first token."""
        return percentiles(self.first_token_seconds)

    def stalls(self, longest_gap_seconds: float = LONGEST_GAP_SECONDS) -> int:
        """Gaps inside answered replies that were longer than this."""
        return len(stalls(self.inter_token_seconds, longest_gap_seconds))

    @property
    def longest_gaps_seconds(self) -> tuple[float, ...]:
        """The longest gap of every stream that began, whole or not: a mean over all gaps hides the few that hurt."""
        return tuple(one.longest_gap_seconds for one in self.requests if one.longest_gap_seconds is not None)

    def stalled_streams(self, longest_gap_seconds: float = LONGEST_GAP_SECONDS) -> int:
        """Streams that fell silent for longer than this, also those that broke off then."""
        return len(stalls(self.longest_gaps_seconds, longest_gap_seconds))

    @property
    def last_reply_seconds(self) -> float:
        """From the first request to the end of the last reply; 0 where nothing was answered."""
        if not self.answered:
            return 0.0
        began = min(one.started_seconds for one in self.requests)
        return max(one.started_seconds + one.ended_seconds for one in self.answered) - began

    @property
    def gathers_tokens(self) -> bool:
        """Whether events held several tokens: gaps are then between events and longer than between tokens."""
        return any(request.gathers_tokens for request in self.answered)


def users_closed_loop(
    host: Host,
    url: str,
    *,
    users: int,
    requests: int,
    prompt_tokens: int,
    reply_tokens: int,
    think_seconds: float = 0.0,
    seed: int = 1,
    model: str | None = None,
    timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS,
) -> LoadResult:
    """Send `requests` in all, at most `users` at a time; all users ask at once in the beginning.

    Prompts are equally long and share no beginning. A failed request is counted and its user goes on.
    """
    path = url.rstrip("/") + CHAT_PATH
    done: list[RequestTiming] = []
    take = _ticket_machine(requests)

    def one_user() -> StreamTimings:
        last = StreamTimings(host.monotonic(), None, None, (), 0.0, "this user had nothing to ask")
        while (number := take()) is not None:
            payload = completion_payload(random_prompt(prompt_tokens, seed * 1_000_003 + number), reply_tokens, model)
            last = host.stream_completion(path, payload, timeout_seconds=timeout_seconds)
            done.append(read_timings(last))
            if think_seconds > 0:
                host.sleep(think_seconds)
        return last

    started = host.monotonic()
    host.together([one_user] * min(users, requests))
    return LoadResult(tuple(done), host.monotonic() - started)


def _ticket_machine(count: int) -> Callable[[], int | None]:
    """Numbers from 0, each to one taker, then None: nobody idles while another still has a pile of requests."""
    lock = threading.Lock()
    numbers = iter(range(count))

    def take() -> int | None:
        with lock:
            return next(numbers, None)

    return take
