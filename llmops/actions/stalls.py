"""The longest silence in the middle of the replies of a test: readers see it, and no other check does.

A request that an engine puts back for want of cache was answered at once and never fails; so does one whose reply stops
while the engine reads somebody else's long prompt.
"""

from __future__ import annotations

from collections.abc import Sequence

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
    """Whether a reply fell silent for longer than the plan allows, where it bounds that at all."""
    longest = longest_gap_seconds(replies)
    return plan.policy.protect == "itl" and longest is not None and longest > allowed_seconds(plan.policy)


def longest_gap_check(plan: Plan, replies: Sequence[RequestTiming], disturbed_by: str) -> Check:
    """`disturbed_by` says what else went on that makes gaps; empty where nothing did."""
    longest = longest_gap_seconds(replies)
    expected = f"at most {allowed_seconds(plan.policy):g} s"
    if longest is None:
        return Check(NAME, expected, None, CheckStatus.NOT_EVALUATED, "no token came")
    observed = f"{longest:.2f} s"
    if longest <= allowed_seconds(plan.policy):
        return Check(NAME, expected, observed, CheckStatus.PASS, f"in the middle of {len(replies)} replies")
    why = disturbed_by or _unbounded(plan, replies)
    if why:
        return Check(NAME, expected, observed, CheckStatus.NOT_EVALUATED, why)
    detail = "a reply fell silent: it was put back for want of cache, or waited for a long prompt of another"
    return Check(NAME, expected, observed, CheckStatus.FAIL, detail)


def _unbounded(plan: Plan, replies: Sequence[RequestTiming]) -> str:
    """Why a long gap is no fault of this plan, or nothing."""
    if plan.policy.protect != "itl":
        return f"--protect {plan.policy.protect}: replies may wait for prompts"
    if any(one.gathers_tokens for one in replies):
        return "the engine sends several tokens at a time, so that gaps are between those"
    return ""
