"""What must be seen once a plan is live, from the same settings that were rendered."""

from __future__ import annotations

from llmops.core.plan import Plan
from llmops.core.verification import Expectation
from llmops.engines.found import InForce, Installation
from llmops.engines.llama_server.command import build, model_path
from llmops.engines.llama_server.settings import slot_context_tokens
from llmops.engines.verdicts import unit_expectations

SET = "set"


def expectations(plan: Plan, installation: Installation, in_force: InForce | None) -> tuple[Expectation, ...]:
    """Command line, the engine's own word, listener, hidden sources; for a unit also what systemd has loaded."""
    command = build(plan, installation, in_force)
    found = [
        Expectation(
            one.name, "variable" if one.environment else "command_line", SET if one.value is None else one.value
        )
        for one in command.settings
    ]
    context = str(slot_context_tokens(plan, installation))
    found += [
        Expectation("total_slots", "props", str(plan.slots)),
        Expectation("slot_context", "props", context),
        Expectation("model", "props", model_path(plan)),
        Expectation("every_slot_context", "slots", context),
        Expectation("listener", "listener", "llama-server"),
        Expectation("hidden_variables", "environment", "none"),
        Expectation("hidden_config_keys", "config_file", "none"),
    ]
    found += unit_expectations(installation, in_force)
    if installation.unit is not None:
        found.append(Expectation("running_command", "unit", "as configured"))
    return tuple(found)
