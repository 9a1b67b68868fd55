"""Memory that a running engine holds, against the budget of its plan: on the host and on the cards."""

from __future__ import annotations

from llmops.core.memory.budget import MemoryBudget
from llmops.core.plan import Plan
from llmops.core.units import MIB, format_bytes
from llmops.core.verification import Check, CheckStatus
from llmops.engines.found import InForce
from llmops.host import Host

# A process has a base that differs from build to build; a plan that is wrong is wrong by more than this.
HOST_TOLERANCE, HOST_TOLERANCE_BYTES = 0.05, 64 * MIB
# Weights and cache that are not on the cards are on the processor; the driver's own share is not known exactly.
CARD_TOLERANCE = 0.10
HOST = "host"


def memory_checks(host: Host, plan: Plan, in_force: InForce) -> tuple[Check, ...]:
    """Resident memory within the host's budget, and the planned weights really on the cards."""
    return (_resident(plan, in_force), _on_cards(host, plan, in_force))


def held_bytes(budget: MemoryBudget) -> int:
    """What the engine itself may hold of a budget: all of it but the reserve."""
    return budget.used_bytes - budget.reserve_bytes


def _resident(plan: Plan, in_force: InForce) -> Check:
    name = "resident_memory"
    budget = next((budget for budget in plan.budgets if budget.device == HOST), None)
    if budget is None:
        return Check(name, "", None, CheckStatus.NOT_EVALUATED, "the plan has no budget of the host")
    planned = held_bytes(budget)
    expected = f"at most {format_bytes(planned)}"
    if in_force.resident_bytes is None:
        why = dict(in_force.unseen).get("resident_bytes", "the memory of the process was not observed")
        return Check(name, expected, None, CheckStatus.NOT_EVALUATED, why)
    most = planned + max(planned * HOST_TOLERANCE, HOST_TOLERANCE_BYTES)
    status = CheckStatus.PASS if in_force.resident_bytes <= most else CheckStatus.FAIL
    own = "" if in_force.anonymous_bytes is None else f"{format_bytes(in_force.anonymous_bytes)} of it not from files"
    return Check(name, expected, format_bytes(in_force.resident_bytes), status, own)


def _on_cards(host: Host, plan: Plan, in_force: InForce) -> Check:
    name = "weights_on_cards"
    cards = [budget for budget in plan.budgets if budget.device != HOST]
    if in_force.loaded is not None:
        return Check(name, "", None, CheckStatus.NOT_EVALUATED, "the engine says itself where each model lies")
    if not plan.gpu_layers or not cards:
        return Check(name, "", None, CheckStatus.NOT_EVALUATED, "the plan uses no card of its own")
    planned = sum(budget.weights_bytes + budget.cache_bytes for budget in cards)
    expected = f"at least {format_bytes(planned * (1 - CARD_TOLERANCE))}"
    reading = host.gpus()
    if reading.outcome != "ok":
        return Check(name, expected, None, CheckStatus.NOT_EVALUATED, reading.detail or reading.outcome)
    held = [process.used_bytes for gpu in reading.gpus for process in gpu.processes if process.pid in in_force.pids]
    known = [used for used in held if used is not None]
    if held and not known:
        return Check(name, expected, None, CheckStatus.NOT_EVALUATED, "the driver does not say how much it holds")
    status = CheckStatus.PASS if sum(known) >= planned * (1 - CARD_TOLERANCE) else CheckStatus.FAIL
    detail = f"memory of process {in_force.pid} on {len(reading.gpus)} card(s); what is missing runs on the processor"
    return Check(name, expected, format_bytes(sum(known)), status, detail)
