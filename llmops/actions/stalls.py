"""The longest silence in the middle of the replies of a test: readers see it, and no other check does.

A request that an engine puts back for want of cache was answered at once and never fails; so does one whose reply stops
while the engine reads somebody else's long prompt.
"""

from __future__ import annotations

from collections.abc import Sequence

from llmops.core.limits import RATE_TOLERANCE
from llmops.core.plan import Plan, Policy
from llmops.core.verification import Check, CheckStatus
from llmops.load import RequestTiming

NAME = "longest_gap"
# A reply at the slowest speed that is accepted has gaps of its own: so many tokens may come late at once.
_TOKENS_AT_THE_SLOWEST = 3.0


def allowed_seconds(policy: Policy) -> float:
    """The longest gap that a plan allows."""
    return max(policy.max_gap_seconds, _TOKENS_AT_THE_SLOWEST / policy.minimum_tokens_per_second)


def longest_gap_seconds(replies: Sequence[RequestTiming]) -> float | None:
    """Over all replies that began; None where none did."""
    return max((one.longest_gap_seconds for one in replies if one.longest_gap_seconds is not None), default=None)


def has_stalled(plan: Plan, replies: Sequence[RequestTiming]) -> bool:
    """Whether a reply fell silent for longer than the plan allows, and nothing explains it."""
    longest = longest_gap_seconds(replies)
    return longest is not None and longest > allowed_seconds(plan.policy) and not _unbounded(plan, replies, longest)


def longest_gap_check(plan: Plan, replies: Sequence[RequestTiming], disturbed_by: str) -> Check:
    """`disturbed_by` says what else went on that makes gaps; empty where nothing did."""
    longest = longest_gap_seconds(replies)
    expected = f"at most {allowed_seconds(plan.policy):g} s"
    if longest is None:
        return Check(NAME, expected, None, CheckStatus.NOT_EVALUATED, "no token came")
    observed = f"{longest:.2f} s"
    if longest <= allowed_seconds(plan.policy):
        return Check(NAME, expected, observed, CheckStatus.PASS, f"in the middle of {len(replies)} replies")
    why = disturbed_by or _unbounded(plan, replies, longest)
    if why:
        return Check(NAME, expected, observed, CheckStatus.NOT_EVALUATED, why)
    detail = "a reply fell silent: it was put back for want of cache, or waited for a long prompt of another"
    return Check(NAME, expected, observed, CheckStatus.FAIL, detail)


def _unbounded(plan: Plan, replies: Sequence[RequestTiming], longest_seconds: float) -> str:
    """Why a long gap is no fault of this plan, or nothing."""
    if plan.policy.protect != "itl":
        return f"--protect {plan.policy.protect}: replies may wait for prompts"
    if any(one.gathers_tokens for one in replies):
        return "the engine sends several tokens at a time, so that gaps are between those"
    batch_seconds = _one_batch_seconds(plan, replies)
    if longest_seconds <= RATE_TOLERANCE * batch_seconds:
        return (
            f"this machine reads a batch of another's prompt in {batch_seconds:.1f} s, and every reply waits for that:"
            " a new plan knows how fast it reads"
        )
    return ""


def _one_batch_seconds(plan: Plan, replies: Sequence[RequestTiming]) -> float:
    """How long one batch of a prompt took when the engine had nothing else to do; 0 where nobody said."""
    alone = replies[0]
    seconds = alone.prefill_seconds or alone.first_token_seconds or 0.0
    tokens = (alone.prompt_tokens or 0) - (alone.cached_tokens or 0)
    return seconds * min(1.0, plan.batch_tokens / tokens) if tokens > 0 else 0.0
