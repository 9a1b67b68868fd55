"""Plans that were saved with `plan --output json`, and the engine that they are for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from llmops.core.errors import UnreadableInput, UsageError

if TYPE_CHECKING:
    from llmops.core.plan import Plan
    from llmops.engines.base import Engine
    from llmops.engines.found import Installation
    from llmops.host import Host


def plan_from_file(path: str) -> Plan:
    """The plan in the saved output of plan or tune; raise UnreadableInput naming what is wrong with it."""
    from llmops.cli.request import hinting, json_input
    from llmops.core.documents import plan_from_document

    hint = "save one: llmops plan --output json > FILE"
    document = json_input(path, "plan file", hint)
    if not isinstance(document, dict) or not isinstance(document.get("data"), dict):
        raise UnreadableInput(f"plan file {path}: no plan in it", hint=hint)
    if document.get("exit_code", 0) != 0:
        raise UnreadableInput(f"plan file {path}: it holds an error, not a plan", hint="see its `errors`")
    with hinting(hint):
        return plan_from_document(document["data"], f"plan file {path}")


def plan_to_verify(host: Host, path: str | None) -> Plan:
    """The saved plan, else the one that was applied last; raise UsageError where llmops has applied none."""
    from llmops.engines import ENGINES
    from llmops.state import read_last_applied_plan

    if path is not None:
        return plan_from_file(path)
    recalled = read_last_applied_plan(host, [engine.name for engine in ENGINES])
    if recalled.plan is not None:
        return recalled.plan
    raise UsageError(
        "llmops has applied no plan on this machine" + (f" ({recalled.warning})" if recalled.warning else ""),
        hint="apply one: llmops tune --apply; or name a saved one: --plan FILE",
    )


def installed_for(host: Host, plan: Plan) -> tuple[Engine, Installation]:
    """The engine of a plan as it is installed here; raise Unsupported where it is not."""
    from llmops.actions.plan import PlanRequest, find_engine
    from llmops.cli.applying import require_present
    from llmops.core.plan import Fixed
    from llmops.host.one_look import OneLook

    request = PlanRequest(plan.workload, plan.policy, Fixed(), engine=plan.engine)
    engine, installation = find_engine(OneLook(host), request)
    require_present(engine, installation)
    return engine, installation
