"""What two readings of vLLM's metrics say of the requests between them."""

from __future__ import annotations

from llmops.core.verification import Check, CheckStatus
from llmops.engines.vllm.metrics import VllmMetrics

PREEMPTIONS, REJECTIONS = "preemptions", "rejections"


def preemption_check(before: VllmMetrics | None, after: VllmMetrics | None) -> Check:
    """No request may have lost its cache to another one: its reader would see a long gap and nothing else.

    The log never tells it and the percentiles of the times hide it; only the counter shows it.
    """
    grown = _grown(
        None if before is None else before.preemptions,
        None if after is None else after.preemptions,
        "vllm:num_preemptions_total",
    )
    if isinstance(grown, str):
        return Check(PREEMPTIONS, "0", None, CheckStatus.NOT_EVALUATED, grown)
    if grown == 0:
        return Check(PREEMPTIONS, "0", "0", CheckStatus.PASS, "no request was put back for want of cache")
    return Check(
        PREEMPTIONS,
        "0",
        str(grown),
        CheckStatus.FAIL,
        "the cache was full: requests were put back and computed again, which their readers saw as long gaps;"
        " lower --max-num-seqs or give the cache more memory",
    )


def rejection_check(before: VllmMetrics | None, after: VllmMetrics | None) -> Check:
    """No request of the test may have been refused for a full queue (counted from 0.32.0 on)."""
    grown = _grown(
        None if before is None else before.rejections,
        None if after is None else after.rejections,
        "vllm:admission_rejections_total",
    )
    if isinstance(grown, str):
        return Check(REJECTIONS, "0", None, CheckStatus.NOT_EVALUATED, grown)
    status = CheckStatus.FAIL if grown else CheckStatus.PASS
    detail = "requests were refused: the queue was full" if grown else "no request was refused"
    return Check(REJECTIONS, "0", str(grown), status, detail)


def _grown(before: int | None, after: int | None, name: str) -> int | str:
    """By how much a counter grew, or why that cannot be told."""
    if before is None or after is None:
        return f"the server does not tell {name}: it is older, was started with --disable-log-stats, or did not answer"
    if after < before:
        return f"{name} went from {before} to {after}: the server was started anew meanwhile"
    return after - before
