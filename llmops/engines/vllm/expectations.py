"""What must be seen once a plan is live, from the same settings that were rendered."""

from __future__ import annotations

from llmops.core.plan import Plan
from llmops.core.verification import Expectation
from llmops.engines.found import InForce, Installation
from llmops.engines.verdicts import unit_expectations
from llmops.engines.vllm.arguments import LAYERS_VARIABLE, variables
from llmops.engines.vllm.command import build

ON, OFF = "on", "off"
AT_LEAST = "at least "


def expectations(plan: Plan, installation: Installation, in_force: InForce | None) -> tuple[Expectation, ...]:
    """Options of the process, the engine's own word, its cache, listener, hidden sources; of a unit also systemd's."""
    command = build(plan, installation, in_force)
    options = [one for one in command.settings if one.name.startswith("--") and one.name != "--model"]
    found = [Expectation(one.name, "command_line", _wanted(one.name, one.value)) for one in options]
    found += [Expectation(one.name, "environment", one.value or "") for one in variables(plan)]
    if plan.pipeline_parallel > 1 and not plan.layer_partition:
        found.append(Expectation(LAYERS_VARIABLE, "environment", "unset"))
    found += [
        Expectation("model", "models", command.model),
        Expectation("longest_request", "models", str(plan.context_tokens_per_slot)),
    ]
    if installation.version_text is not None:
        found.append(Expectation("version", "version", installation.version_text))
    tokens = cache_tokens(plan)
    if tokens is not None:
        found.append(Expectation("cache_tokens", "metrics", tokens))
    found += [
        Expectation("listener", "listener", "vllm"),
        Expectation("hidden_variables", "environment", "none"),
    ]
    found += unit_expectations(installation, in_force)
    if installation.unit is not None:
        found.append(Expectation("running_command", "unit", "as configured"))
    return tuple(found)


def cache_tokens(plan: Plan) -> str | None:
    """What the engine must print of its cache: exactly so many tokens for a given pool, at least so many otherwise.

    A pool that is what remains of the memory is planned at its low end; of engines side by side each prints its own,
    and the smallest counts. None where the plan names no tokens.
    """
    known = [budget.cache_tokens for budget in plan.budgets if budget.cache_tokens is not None]
    if not known:
        return None
    return f"{'' if plan.kv_memory_bytes is not None else AT_LEAST}{min(known):,}"


def _wanted(name: str, value: str | None) -> str:
    if value is not None:
        return value
    return OFF if name.startswith("--no-") else ON
