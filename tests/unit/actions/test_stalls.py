"""The longest silence in the replies of a test, and when it is a fault."""

from __future__ import annotations

from dataclasses import replace

import pytest

from llmops.actions.stalls import allowed_seconds, has_stalled, longest_gap_check
from llmops.core.plan import Plan, Policy
from llmops.core.verification import CheckStatus
from llmops.load import RequestTiming
from tests.unit.engines.llama_host import a_plan


def reply(*token_seconds: float, tokens: int | None = None) -> RequestTiming:
    return RequestTiming(0.0, 0.0, token_seconds, token_seconds[-1] if token_seconds else 0.0, reply_tokens=tokens)


SMOOTH, STALLED = reply(0.5, 0.6, 0.7), reply(0.5, 0.6, 9.6)


def protecting(what: str) -> Plan:
    plan = a_plan()
    return replace(plan, policy=replace(plan.policy, protect=what))


def test_a_steady_stream_passes_with_its_longest_gap() -> None:
    check = longest_gap_check(a_plan(), (SMOOTH, reply(1.0, 1.8)), "")
    assert (check.status, check.expected, check.observed) == (CheckStatus.PASS, "at most 2 s", "0.80 s")


def test_a_stream_that_fell_silent_fails() -> None:
    assert has_stalled(a_plan(), (SMOOTH, STALLED))
    check = longest_gap_check(a_plan(), (SMOOTH, STALLED), "")
    assert (check.status, check.observed) == (CheckStatus.FAIL, "9.00 s")


@pytest.mark.parametrize(
    ("plan", "replies", "disturbed", "why"),
    [
        (a_plan(), (STALLED,), "other work took 40% of the processors meanwhile", "other work took 40%"),
        (protecting("ttft"), (STALLED,), "", "--protect ttft"),
        (a_plan(), (replace(STALLED, reply_tokens=90),), "", "several tokens at a time"),
    ],
)
def test_what_explains_a_gap_makes_no_fault(
    plan: Plan, replies: tuple[RequestTiming, ...], disturbed: str, why: str
) -> None:
    check = longest_gap_check(plan, replies, disturbed)
    assert (check.status, check.observed) == (CheckStatus.NOT_EVALUATED, "9.00 s")
    assert why in check.detail


def test_what_a_machine_needs_for_a_batch_of_another_is_no_stall() -> None:
    """The plan was made with a prediction; here is a machine that reads half as fast."""
    plan = replace(a_plan(), batch_tokens=128)
    alone = replace(SMOOTH, prompt_tokens=200, prefill_seconds=4.0)
    silent = reply(8.0, 11.0, 11.1)
    assert not has_stalled(plan, (alone, silent, SMOOTH))
    check = longest_gap_check(plan, (alone, silent, SMOOTH), "")
    assert (check.status, check.observed) == (CheckStatus.NOT_EVALUATED, "3.00 s")
    assert "a batch of another's prompt in 2.6 s" in check.detail
    longer = (alone, reply(8.0, 15.0, 15.1), SMOOTH)
    assert has_stalled(plan, longer)
    assert longest_gap_check(plan, longer, "").status is CheckStatus.FAIL


def test_no_token_is_no_gap() -> None:
    assert not has_stalled(a_plan(), (reply(),))
    assert longest_gap_check(a_plan(), (reply(),), "").status is CheckStatus.NOT_EVALUATED


def test_a_plan_for_very_slow_replies_allows_their_gaps() -> None:
    assert allowed_seconds(Policy()) == 2.0
    assert allowed_seconds(Policy(minimum_tokens_per_second=0.5)) == 6.0
