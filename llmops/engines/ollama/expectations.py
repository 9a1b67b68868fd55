"""What must be seen once a plan is live, from the same variables that were rendered."""

from __future__ import annotations

from llmops.core.plan import Plan
from llmops.core.verification import Expectation
from llmops.engines.found import InForce, Installation
from llmops.engines.ollama.settings import compose
from llmops.engines.verdicts import unit_expectations

# Settings that the server prints as it was given them; others are printed in another form.
PRINTED = ("OLLAMA_NUM_PARALLEL", "OLLAMA_CONTEXT_LENGTH", "OLLAMA_MAX_LOADED_MODELS", "OLLAMA_MAX_QUEUE")


def expectations(plan: Plan, installation: Installation, in_force: InForce | None) -> tuple[Expectation, ...]:
    """Variables, the log's word, the child, /api/ps, listener; for a unit also what systemd has loaded."""
    settings = compose(plan, installation.version, in_force)
    found = [Expectation(one.name, "variable", one.value or "") for one in settings]
    printed = " ".join(f"{one.name}={one.value}" for one in settings if one.name in PRINTED)
    found.append(Expectation("server_config", "log", printed))
    found.append(Expectation("listener", "listener", "ollama"))
    if plan.model.source_paths:
        found.append(Expectation("runner_model", "runner", plan.model.source_paths[0]))
    context = str(min(plan.context_tokens_per_slot, plan.model.context_tokens_trained))
    found.append(Expectation("slots", "runner", str(plan.slots)))
    found.append(Expectation("slot_context", "runner", context))
    found.append(Expectation("loaded_context", "api_ps", f"{plan.model.reference} {context}"))
    found.append(Expectation("gpu_share", "api_ps", f"{plan.model.reference} {100 if plan.gpu_layers else 0} %"))
    return (*found, *unit_expectations(installation, in_force))
