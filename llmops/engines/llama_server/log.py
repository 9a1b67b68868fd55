"""What the log of a llama-server at verbosity 4 says of memory: caches, and layers on cards."""

from __future__ import annotations

import re

from llmops.core.plan import Plan
from llmops.core.units import MIB, format_bytes
from llmops.core.verification import Check, CheckStatus

_CACHE_SIZE = re.compile(r"llama_kv_cache: size =\s*([\d.]+) MiB")
_OFFLOADED = re.compile(r"offloaded (\d+)/(\d+) layers to GPU")
_PORT_TAKEN = re.compile(r"couldn't bind|address already in use", re.IGNORECASE)
# The log rounds each cache to 0.01 MiB.
_CACHE_TOLERANCE_BYTES = MIB


def port_was_taken(output: str) -> bool:
    """Whether the server could not have its port."""
    return _PORT_TAKEN.search(output) is not None


def log_checks(plan: Plan, output: str) -> tuple[Check, ...]:
    """Cache really allocated against the budget, and the layers that went to cards."""
    return (_cache(plan, output), *(_layers(plan, output) if plan.gpu_layers else ()))


def _cache(plan: Plan, output: str) -> Check:
    planned = sum(budget.cache_bytes for budget in plan.budgets)
    said = [float(mebibytes) * MIB for mebibytes in _CACHE_SIZE.findall(output)]
    expected = f"at most {format_bytes(planned)}"
    if not said or not plan.budgets:
        return Check("cache_memory", expected, None, CheckStatus.NOT_EVALUATED, "this build logs no cache sizes")
    status = CheckStatus.PASS if sum(said) <= planned + _CACHE_TOLERANCE_BYTES else CheckStatus.FAIL
    return Check(
        "cache_memory", expected, format_bytes(sum(said)), status, "keys and values, as the engine logged them"
    )


def _layers(plan: Plan, output: str) -> tuple[Check, ...]:
    expected = str(plan.gpu_layers)
    said = _OFFLOADED.findall(output)
    if not said:
        why = "this build logs no placement of layers"
        return (Check("layers_on_cards", expected, None, CheckStatus.NOT_EVALUATED, why),)
    status = CheckStatus.PASS if said[-1][0] == expected else CheckStatus.FAIL
    return (Check("layers_on_cards", expected, said[-1][0], status, f"of {said[-1][1]} layers"),)
