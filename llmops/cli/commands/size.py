"""llmops size: memory and capacity of one explicit configuration."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from llmops.cli.hosts import reading_host
from llmops.cli.options import common_options, planning_options
from llmops.cli.planning import planned_data, planned_text, with_engine_warnings
from llmops.cli.result import Result, Status, failed
from llmops.cli.session import Session
from llmops.core.errors import DoesNotFit
from llmops.core.units import format_bytes

if TYPE_CHECKING:
    from llmops.core.plan import Plan


@click.command("size")
@planning_options
@common_options
@click.pass_obj
def command(session: Session, /, *, explain: bool, **flags: Any) -> Result:
    """Show memory and capacity of one explicit configuration.

    No search: exactly the given --slots and --context, the engine's own defaults for the rest. Exit code 4 when it does
    not fit; the figures are shown all the same.
    """
    from llmops.actions.plan import size_one
    from llmops.cli.request import check_context, plan_request
    from llmops.cli.settings import read_settings
    from llmops.core.sizing import fits

    live = flags["snapshot"] is None
    settings = read_settings(flags, flags["config"], search=live)
    with reading_host(flags["snapshot"]) as host:
        planned = size_one(host, plan_request(settings), progress=session.progress)
    check_context(settings, planned.model)
    planned = with_engine_warnings(planned)
    data = planned_data(planned, settings)

    def text() -> str:
        return planned_text(planned, settings, explain=explain, title="Size of this configuration")

    if fits(planned.plan.budgets, planned.plan.policy.safety_factor):
        return Result("size", Status.OK, data=data, text=text)
    return failed("size", _too_large(planned.plan), data=data, text=text)


def _too_large(plan: Plan) -> DoesNotFit:
    worst = min(plan.budgets, key=lambda budget: budget.free_bytes)
    asked = f"{plan.slots} slots of {plan.context_tokens_per_slot:,} tokens"
    margin = f"cache at most {plan.policy.safety_factor:.0%} of its room"
    return DoesNotFit(
        f"{asked} need {format_bytes(worst.used_bytes)} on {worst.device}, which has"
        f" {format_bytes(worst.available_bytes)} ({margin})",
        hint="llmops plan with the same options searches for a configuration that fits",
    )
