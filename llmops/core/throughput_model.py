"""Seconds of a decode step by streams, and where more streams stop adding tokens."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass

from llmops.core.plan import MeasuredRates
from llmops.core.throughput_work import touched_share
from llmops.core.workload import Workload

# The share of the plateau at which the knee is, and the most streams at which one is looked for.
KNEE_SHARE = 0.9
KNEE_MOST_STREAMS = 512
_WITHOUT_END = 1_000_000


@dataclass(frozen=True)
class RateModel:
    """One consistent set of rates: seconds per decode step by streams, and prefill tokens per second.

    A step reads the weights (`weights_seconds`, and the touched share of `expert_seconds`) while it computes
    (`arithmetic_seconds` per stream): the longer of the two, and of the shorter what does not overlap. Each stream's
    cache comes on top. `unshared_reads`: share of what each of the first `unshared_streams` would read alone that it
    reads again though another one has read it. `measured_steps`, where there are any, replace all of it. `copies`
    of the model share the streams, each at these rates.
    """

    fixed_seconds: float
    weights_seconds: float
    expert_seconds: float
    expert_share: float
    stream_seconds: float
    prefill_tokens_per_second: float
    arithmetic_seconds: float = 0.0
    overlap: float = 1.0
    unshared_reads: float = 0.0
    unshared_streams: int = 1
    measured_steps: tuple[tuple[int, float], ...] = ()
    copies: int = 1

    def of_each(self, streams: float) -> float:
        """Streams of each of the equal copies of the model that serve side by side."""
        return min(streams, max(1.0, streams / self.copies))

    def step_seconds(self, streams: float) -> float:
        """Seconds of one decode step that gives each of the streams one token."""
        if self.measured_steps:
            return self._between_measured(streams)
        each = self.of_each(streams)
        reading, computing = self.reading_seconds(streams), each * self.arithmetic_seconds
        both = max(reading, computing) + (1.0 - self.overlap) * min(reading, computing)
        return self.fixed_seconds + both + each * self.stream_seconds

    def reading_seconds(self, streams: float) -> float:
        """Seconds of a step that go into reading weights."""
        streams = self.of_each(streams)
        few = max(1.0, min(streams, float(self.unshared_streams)))
        again = few * self._reading_together(1.0) - self._reading_together(few)
        return self._reading_together(streams) + self.unshared_reads * again

    def _reading_together(self, streams: float) -> float:
        return self.weights_seconds + touched_share(self.expert_share, streams) * self.expert_seconds

    def total_tokens_per_second(self, streams: float) -> float:
        """Tokens per second of all streams together."""
        return streams / self.step_seconds(streams)

    def request_seconds(self, streams: float, workload: Workload) -> float:
        """One request in its slot while `streams` are served: all their prefills, which stop each other, and decode."""
        prefill = self.of_each(streams) * workload.prompt_tokens / self.prefill_tokens_per_second
        return prefill + workload.reply_tokens * self.step_seconds(streams)

    def _between_measured(self, streams: float) -> float:
        """Straight between two measured numbers of streams; by `stream_seconds` each outside of them."""
        place = bisect_right([count for count, _ in self.measured_steps], streams)
        if place == 0 or place == len(self.measured_steps):
            count, seconds = self.measured_steps[max(place - 1, 0)]
            return seconds + (streams - count) * self.stream_seconds
        (fewer, low), (more, high) = self.measured_steps[place - 1], self.measured_steps[place]
        return low + (high - low) * (streams - fewer) / (more - fewer)


@dataclass(frozen=True)
class Rates:
    """The pessimistic, likely and optimistic rate model, and where they come from; `basis` says which class."""

    low: RateModel
    likely: RateModel
    high: RateModel
    source: str
    measured: MeasuredRates | None = None
    basis: str = ""

    def measured_rate(self, streams: int) -> float | None:
        """Tokens per second of one stream, where exactly this many streams were measured."""
        return dict(self.measured.decode_tokens_per_second).get(streams) if self.measured else None


@dataclass(frozen=True)
class Knee:
    """The number of streams from which more add little; None where `KNEE_MOST_STREAMS` do not reach it.

    `cause`: arithmetic (computing takes as long as reading the weights) or plateau (nearly all that there can be).
    """

    streams: int | None
    total_tokens_per_second: float
    plateau_tokens_per_second: float
    cause: str


def find_knee(model: RateModel) -> Knee:
    """Where the total reaches `KNEE_SHARE` of its limit, or computing passes reading, whichever comes first."""
    plateau = model.total_tokens_per_second(_WITHOUT_END)
    for streams in range(1, KNEE_MOST_STREAMS + 1):
        total = model.total_tokens_per_second(streams)
        if total >= KNEE_SHARE * plateau:
            return Knee(streams, total, plateau, "plateau")
        computing = model.of_each(streams) * model.arithmetic_seconds
        if not model.measured_steps and computing >= model.reading_seconds(streams) > 0.0:
            return Knee(streams, total, plateau, "arithmetic")
    return Knee(None, model.total_tokens_per_second(KNEE_MOST_STREAMS), plateau, "plateau")
