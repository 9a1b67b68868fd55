"""What the log of a vLLM says: the size of its cache, and that its port was taken."""

from __future__ import annotations

import re

from llmops.core.plan import Plan
from llmops.core.verification import Check, CheckStatus
from llmops.engines.vllm.checks import tokens_verdict
from llmops.engines.vllm.expectations import cache_tokens
from llmops.engines.vllm.printed import printed_cache_tokens

_CONCURRENCY = re.compile(r"Maximum concurrency for ([\d,]+) tokens per request: ([\d.]+)x")
# A line of the log begins with the name of its process; requests are never printed into such a line.
_PORT_TAKEN = re.compile(r"address already in use", re.IGNORECASE)


def port_was_taken(output: str) -> bool:
    """Whether the server could not have its port."""
    return _PORT_TAKEN.search(output) is not None


def log_checks(plan: Plan, output: str) -> tuple[Check, ...]:
    """Tokens and concurrency that the start printed, against the plan."""
    return (_tokens(plan, output), _concurrency(plan, output))


def _tokens(plan: Plan, output: str) -> Check:
    name, expected, tokens = "printed_cache_tokens", cache_tokens(plan), printed_cache_tokens(output)
    if expected is None or tokens is None:
        why = "the plan names no tokens" if expected is None else "the log does not hold the line of the cache size"
        return Check(name, expected or "", None, CheckStatus.NOT_EVALUATED, why)
    status, observed, detail = tokens_verdict(expected, tokens, "KV cache size, as the engine logged it")
    return Check(name, expected, observed, status, detail)


def _concurrency(plan: Plan, output: str) -> Check:
    """As many longest requests as each engine has slots: with less it would put some back and start them anew."""
    slots = plan.shape.slots_of_each
    name, expected = "printed_concurrency", f"at least {slots}"
    said = _CONCURRENCY.findall(output)
    if not said:
        return Check(name, expected, None, CheckStatus.NOT_EVALUATED, "the log does not hold this line")
    length, times = min(said, key=lambda pair: float(pair[1]))
    status = CheckStatus.PASS if float(times) >= slots else CheckStatus.FAIL
    return Check(name, expected, f"{float(times):.2f}", status, f"requests of {length} tokens that fit at once")
