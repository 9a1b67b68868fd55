"""What only vLLM tells of the requests of a test: its counters before them and after."""

from __future__ import annotations

from llmops.core.errors import LlmopsError
from llmops.core.verification import Check
from llmops.engines.found import InForce
from llmops.engines.vllm.metric_checks import preemption_check, rejection_check
from llmops.engines.vllm.metrics import VllmMetrics, ask_metrics
from llmops.engines.vllm.observe import VllmInForce
from llmops.host import Host


def load_checks(host: Host, in_force: InForce) -> tuple[Check, ...]:
    """`in_force` was seen before the requests."""
    before = in_force.metrics if isinstance(in_force, VllmInForce) else None
    after: VllmMetrics | None = None
    if in_force.url is not None:
        try:
            after = ask_metrics(host, in_force.url)
        except LlmopsError:  # then both checks say that it did not answer
            after = None
    return (preemption_check(before, after), rejection_check(before, after))
