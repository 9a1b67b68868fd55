"""llmops size: memory and capacity of one explicit configuration."""

from __future__ import annotations

from dataclasses import replace
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
    from llmops.core.sizing import fits_at_the_start

    live = flags["snapshot"] is None
    settings = read_settings(flags, flags["config"], search=live)
    with reading_host(flags["snapshot"]) as host:
        planned = size_one(host, plan_request(settings), progress=session.progress)
    check_context(settings, planned.model)
    planned = with_engine_warnings(planned)
    data = planned_data(planned, settings)

    def text() -> str:
        return planned_text(planned, settings, explain=explain, title="Size of this configuration", advise=False)

    if fits_at_the_start(planned.plan.budgets, planned.plan.policy.safety_factor):
        return Result("size", Status.OK, data=data, text=text)
    return failed("size", _too_large(planned.plan), data=data, text=text)


def _too_large(plan: Plan) -> DoesNotFit:
    from llmops.core.fitting import short_by_bytes

    if any(budget.needed_cache_bytes is not None for budget in plan.budgets):
        return _pool_too_small(plan)
    safety = plan.policy.safety_factor
    # Saved prompts grow with traffic only, and could hide the device that lacks room from the start.
    worst = max(plan.budgets, key=lambda budget: short_by_bytes((replace(budget, prompt_cache_bytes=0),), safety))
    plural = "slot" if plan.slots == 1 else "slots"
    beside = ", saved prompts not counted" if worst.prompt_cache_bytes else ""
    needed = worst.used_bytes - worst.prompt_cache_bytes
    return DoesNotFit(
        f"{plan.slots} {plural} of {plan.context_tokens_per_slot:,} tokens need {format_bytes(needed)} on"
        f" {worst.device}, which has {format_bytes(worst.available_bytes)} (cache at most {safety:.0%} of its"
        f" room{beside})",
        hint="llmops plan with the same options searches for a configuration that fits",
    )


def _pool_too_small(plan: Plan) -> DoesNotFit:
    """An engine with one pool of pages: it starts where one request fits, and interrupts what is too much."""
    from llmops.core.fitting import short_by_bytes

    worst = max(plan.budgets, key=lambda budget: short_by_bytes((budget,), 1.0))
    hint = "llmops plan with the same options searches for a configuration that fits"
    needed, pool = worst.needed_cache_bytes or 0, worst.cache_bytes
    alone = needed == worst.request_cache_bytes
    asked = "one request" if alone else f"{plan.slots} slots"
    asked = f"{asked} of {plan.context_tokens_per_slot:,} tokens {'needs' if alone else 'need'}"
    if worst.free_bytes < 0:
        return DoesNotFit(
            f"{asked} {format_bytes(worst.required_bytes)} on {worst.device}, which has"
            f" {format_bytes(worst.available_bytes)}",
            hint=hint,
        )
    held = worst.max_concurrency or 0.0
    starts = "; it would start, and interrupt and compute again what is too much" if held >= 1 else ""
    return DoesNotFit(
        f"{asked} {format_bytes(needed)} of cache on {worst.device}, which has {format_bytes(pool)}: room for"
        f" {held:.2f} of them{starts}",
        hint=hint,
    )
