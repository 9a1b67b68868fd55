"""The two-request test and the swap check around it, and what their outcomes mean for a plan."""

from __future__ import annotations

from dataclasses import dataclass

from llmops.core.errors import LlmopsError
from llmops.core.plan import MeasuredRates, Plan
from llmops.core.units import format_bytes
from llmops.core.verification import Check, CheckStatus
from llmops.host import Host
from llmops.load import Overlap, SwapTraffic, TwoRequests, swap_counters, swap_traffic, two_requests

# Long enough to judge, short enough for slow machines: about this long for each phase at the predicted rates.
_PREFILL_SECONDS, _DECODE_SECONDS = 2.0, 4.0
_FEWEST_PROMPT_TOKENS, _MOST_PROMPT_TOKENS = 48, 384
_FEWEST_REPLY_TOKENS, _MOST_REPLY_TOKENS = 24, 96
_TIMEOUT_SECONDS = 300.0


@dataclass(frozen=True)
class Load:
    """One run of the test; `traffic` is None, with the reason, where the kernel's counters could not be read.

    `processing` counts requests of other people when it began.
    """

    requests: TwoRequests
    prompt_tokens: int
    reply_tokens: int
    traffic: SwapTraffic | None
    traffic_unseen: str
    processing: int
    repeated: bool = False

    def is_good(self, plan: Plan) -> bool:
        """Whether nothing speaks for doing it again."""
        swapped = self.traffic is not None and (
            self.traffic.swapped or self.traffic.reread(plan.model.active_weights_bytes)
        )
        return self.requests.verdict is wanted_overlap(plan) and not swapped


def wanted_overlap(plan: Plan) -> Overlap:
    """Two slots serve two requests side by side, one slot serves them one after the other."""
    return Overlap.OVERLAPPED if plan.slots >= 2 else Overlap.SERIAL


def put_under_load(host: Host, url: str, plan: Plan, *, processing: int, before_it: Load | None = None) -> Load:
    """Send the requests; raise EngineNotAnswering where not even the first is answered properly.

    A repetition takes its lengths from what the first run measured, which may be far from what was predicted.
    """
    rates = measured_rates(before_it) if before_it else None
    prompt_tokens, reply_tokens = _lengths(plan, rates)
    unseen = ""
    before = None
    try:
        before = swap_counters(host)
    except (OSError, LlmopsError) as problem:
        unseen = str(problem)
    requests = two_requests(
        host,
        url,
        prompt_tokens=prompt_tokens,
        reply_tokens=reply_tokens,
        seed=1 if before_it is None else 2,
        timeout_seconds=_TIMEOUT_SECONDS,
    )
    traffic = None if before is None else swap_traffic(before, swap_counters(host))
    return Load(requests, prompt_tokens, reply_tokens, traffic, unseen, processing, repeated=before_it is not None)


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
    """A proper first reply, the two requests as the slots promise, no swapping, no reading the model again."""
    return (_first_reply(load), _two_requests(plan, load), _no_swap(load), _no_rereading(plan, load))


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
        shared = f"; each at 1/{requests.slowdown:.1f} of the speed alone" if requests.slowdown else ""
        return Check("two_requests", wanted.value, observed, CheckStatus.PASS, requests.reason + shared)
    if requests.verdict is Overlap.UNCLEAR:
        failed = requests.first.error or requests.second.error
        status = CheckStatus.FAIL if failed else CheckStatus.NOT_EVALUATED
        return Check("two_requests", wanted.value, observed, status, requests.reason)
    if load.processing:
        why = f"{load.processing} requests of others were being served meanwhile: {requests.reason}"
        return Check("two_requests", wanted.value, observed, CheckStatus.NOT_EVALUATED, why)
    return Check("two_requests", wanted.value, observed, CheckStatus.FAIL, requests.reason)


def _no_swap(load: Load) -> Check:
    traffic = load.traffic
    if traffic is None:
        return Check("no_swap", "none", None, CheckStatus.NOT_EVALUATED, load.traffic_unseen)
    moved = f"{format_bytes(traffic.swapped_in_bytes)} in, {format_bytes(traffic.swapped_out_bytes)} out"
    detail = f"{moved} in {traffic.seconds:.1f} s of test requests{_twice(load)}"
    status = CheckStatus.FAIL if traffic.swapped else CheckStatus.PASS
    return Check("no_swap", "none", "swapping" if traffic.swapped else "none", status, detail)


def _no_rereading(plan: Plan, load: Load) -> Check:
    traffic = load.traffic
    if traffic is None:
        return Check("no_rereading", "none", None, CheckStatus.NOT_EVALUATED, load.traffic_unseen)
    again = traffic.reread(plan.model.active_weights_bytes)
    read = f"{format_bytes(traffic.read_bytes)} read from disk, {traffic.major_faults} major faults{_twice(load)}"
    status = CheckStatus.FAIL if again else CheckStatus.PASS
    return Check("no_rereading", "none", "the model is read again" if again else "none", status, read)


def _twice(load: Load) -> str:
    return ", and in the test before it" if load.repeated else ""


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
