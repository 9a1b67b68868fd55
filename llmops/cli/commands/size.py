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
    worst = max(plan.budgets, key=lambda budget: short_by_bytes((budget,), safety))
    asked = f"{plan.slots} slots of {plan.context_tokens_per_slot:,} tokens"
    hint = "llmops plan with the same options searches for a configuration that fits"
    # Saved prompts grow up to their limit with traffic, and the limit of the engine's own choice is large.
    room = worst.prompt_cache_bytes - short_by_bytes((worst,), safety)
    if room >= 0:
        hint = (
            f"it fits while saved prompts stay small: bound them, such as --cache-ram 0 --ctx-checkpoints 0; or {hint}"
        )
    return DoesNotFit(
        f"{asked} need {format_bytes(worst.used_bytes)} on {worst.device}, which has"
        f" {format_bytes(worst.available_bytes)} (cache at most {safety:.0%} of its room)",
        hint=hint,
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
