"""The two-request test and the swap check around it, and what their outcomes mean for a plan."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from llmops.actions.contention import MOST_SHARE_OF_OTHERS, processor_time, share_of_others
from llmops.actions.paging import Paging, begin, end, paging_checks
from llmops.actions.stalls import has_stalled, longest_gap_check
from llmops.core.plan import MeasuredRates, Plan
from llmops.core.verification import Check, CheckStatus
from llmops.engines.found import InForce
from llmops.host import Host
from llmops.load import Overlap, RequestTiming, TwoRequests, two_requests

# Long enough to judge, short enough for slow machines: about this long for each phase at the predicted rates.
_PREFILL_SECONDS, _DECODE_SECONDS = 2.0, 4.0
_FEWEST_PROMPT_TOKENS, _MOST_PROMPT_TOKENS = 48, 384
_FEWEST_REPLY_TOKENS, _MOST_REPLY_TOKENS = 24, 96
_TIMEOUT_SECONDS = 300.0
# A slot is given back a moment after its last token was sent; it must not pass for somebody else's request.
_SETTLE_SECONDS = 0.2


@dataclass(frozen=True)
class Load:
    """One run of the test, what swap and disk did meanwhile, and what else went on.

    `processing` counts requests of others at its begin or its end; `others_share` is the part of all processor time
    that other work took.
    """

    requests: TwoRequests
    prompt_tokens: int
    reply_tokens: int
    paging: Paging
    processing: int
    repeated: bool = False
    others_share: float | None = None

    @property
    def was_disturbed(self) -> bool:
        """Whether the machine was too busy with other work for its rates to be remembered."""
        return (self.others_share or 0.0) > MOST_SHARE_OF_OTHERS

    @property
    def replies(self) -> tuple[RequestTiming, ...]:
        """The one alone, then the two together."""
        return (self.requests.alone, self.requests.first, self.requests.second)

    @property
    def disturbed_by(self) -> str:
        """What else went on meanwhile, in words; empty where nothing did."""
        if self.processing:
            return f"{self.processing} requests of others were being served meanwhile"
        share = self.others_share
        if share is None:
            return "what other work took of the processors meanwhile is not known"
        return f"other work took {share:.0%} of the processors meanwhile" if self.was_disturbed else ""

    def is_good(self, plan: Plan) -> bool:
        """Whether nothing speaks for doing it again."""
        paged = self.paging.swapped or self.paging.reread(plan.model.active_weights_bytes)
        return self.requests.verdict is wanted_overlap(plan) and not paged and not has_stalled(plan, self.replies)


def wanted_overlap(plan: Plan) -> Overlap:
    """Two slots serve two requests side by side, one slot serves them one after the other."""
    return Overlap.OVERLAPPED if plan.slots >= 2 else Overlap.SERIAL


def put_under_load(
    host: Host,
    in_force: InForce,
    plan: Plan,
    *,
    others: Callable[[], int],
    model: str | None = None,
    before_it: Load | None = None,
) -> Load:
    """Send the requests; raise EngineNotAnswering where not even the first is answered properly.

    `others` counts the requests that other people have running.
    A repetition takes its lengths from what the first run measured, which may be far from what was predicted.
    """
    rates = measured_rates(before_it) if before_it else None
    prompt_tokens, reply_tokens = _lengths(plan, rates)
    pid = in_force.computing_pid
    processing = others()
    before, time_before = begin(host, pid), processor_time(host, in_force.pids)
    requests = two_requests(
        host,
        in_force.url or "",
        prompt_tokens=prompt_tokens,
        reply_tokens=reply_tokens,
        seed=1 if before_it is None else 2,
        model=model,
        timeout_seconds=_TIMEOUT_SECONDS,
    )
    paging = end(host, pid, before)
    share = share_of_others(time_before, processor_time(host, in_force.pids))
    host.sleep(_SETTLE_SECONDS)
    processing = max(processing, others())
    return Load(requests, prompt_tokens, reply_tokens, paging, processing, before_it is not None, share)


def _lengths(plan: Plan, rates: MeasuredRates | None) -> tuple[int, int]:
    """Tokens of prompt and reply: a few seconds each on this machine, and together well inside a slot."""
    speed = plan.speeds[0] if plan.speeds else None
    if rates is not None:
        prefill, decode = rates.prefill_tokens_per_second, rates.decode_tokens_per_second[0][1]
    elif speed is not None:
        prefill, decode = speed.prefill_tokens_per_second, speed.decode_tokens_per_second_per_stream.low
    else:
        prefill, decode = float(_FEWEST_PROMPT_TOKENS), float(_FEWEST_REPLY_TOKENS)
    prompt_tokens = _within(prefill * _PREFILL_SECONDS, _FEWEST_PROMPT_TOKENS, _MOST_PROMPT_TOKENS)
    reply_tokens = _within(decode * _DECODE_SECONDS, _FEWEST_REPLY_TOKENS, _MOST_REPLY_TOKENS)
    room = plan.context_tokens_per_slot // 2
    return min(prompt_tokens, room), min(reply_tokens, room // 2)


def _within(value: float, least: int, most: int) -> int:
    return int(max(least, min(most, value)))


def load_checks(plan: Plan, load: Load) -> tuple[Check, ...]:
    """A proper first reply, two requests as the slots promise, no stall, no swapping, no reading the model again."""
    paging = paging_checks(load.paging, plan.model.active_weights_bytes, repeated=load.repeated)
    gap = longest_gap_check(plan, load.replies, load.disturbed_by)
    return (_first_reply(load), _two_requests(plan, load), gap, *paging)


def _first_reply(load: Load) -> Check:
    alone = load.requests.alone
    expected = f"{load.reply_tokens} tokens"
    if alone.error is not None:
        return Check("first_reply", expected, alone.error, CheckStatus.FAIL, "a request with the engine to itself")
    count = len(alone.token_seconds) if alone.reply_tokens is None else alone.reply_tokens
    # A model may still end by itself where the engine does not know `ignore_eos`.
    good = alone.finish_reason in {"length", "stop"} and 0 < count <= load.reply_tokens and alone.token_seconds
    rate = f", {alone.tokens_per_second:.1f} tokens/s" if alone.tokens_per_second else ""
    first = f"first token after {alone.token_seconds[0]:.2f} s{rate}" if alone.token_seconds else "no token came"
    return Check("first_reply", expected, f"{count} tokens", CheckStatus.PASS if good else CheckStatus.FAIL, first)


def _two_requests(plan: Plan, load: Load) -> Check:
    wanted, requests = wanted_overlap(plan), load.requests
    observed = requests.verdict.value
    if requests.verdict is wanted:
        shared = f"; each at 1/{requests.slowdown:.1f} of the speed alone" if (requests.slowdown or 0) >= 1 else ""
        return Check("two_requests", wanted.value, observed, CheckStatus.PASS, requests.reason + shared)
    if requests.verdict is Overlap.UNCLEAR:
        failed = any(one.error is not None and not _crowded_out(one, load) for one in (requests.first, requests.second))
        status = CheckStatus.FAIL if failed else CheckStatus.NOT_EVALUATED
        return Check("two_requests", wanted.value, observed, status, requests.reason)
    if load.processing:
        why = f"{load.processing} requests of others were being served meanwhile: {requests.reason}"
        return Check("two_requests", wanted.value, observed, CheckStatus.NOT_EVALUATED, why)
    return Check("two_requests", wanted.value, observed, CheckStatus.FAIL, requests.reason)


def _crowded_out(request: RequestTiming, load: Load) -> bool:
    """Whether the queue was full with the requests of others: that says nothing of the plan."""
    return request.rejected and load.processing > 0


def measured_rates(load: Load) -> MeasuredRates | None:
    """The rates of the test; None where other people's requests shared the engine, or none was whole."""
    alone = load.requests.alone
    decode = alone.decode_tokens_per_second or alone.tokens_per_second
    prefill_seconds = alone.prefill_seconds or alone.first_token_seconds
    if load.processing or alone.error is not None or not decode or not prefill_seconds:
        return None
    prompt_tokens = (alone.prompt_tokens or load.prompt_tokens) - (alone.cached_tokens or 0)
    rates = [(1, decode)]
    each = load.requests.per_stream_tokens_per_second
    if load.requests.verdict is Overlap.OVERLAPPED and each:
        rates.append((2, each))
    return MeasuredRates(tuple(rates), prompt_tokens / prefill_seconds) if prompt_tokens > 0 else None
