"""llmops verify: what is in force against the last applied plan."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from llmops.cli.hosts import reading_host
from llmops.cli.options import common_options, snapshot_option
from llmops.cli.result import Result, Status, failed
from llmops.cli.session import Session
from llmops.core.errors import UsageError

if TYPE_CHECKING:
    from llmops.core.plan import Plan
    from llmops.host import Host


@click.command("verify")
@click.option("--plan", "plan_file", metavar="FILE", help="Compare with this saved plan instead of the applied one.")
@snapshot_option
@common_options
@click.pass_obj
def command(session: Session, /, *, plan_file: str | None, snapshot: str | None) -> Result:
    """Compare what is in force with the last applied plan.

    Nothing is changed; two test requests are sent. Unit, running process, listener, the engine's own word, memory,
    swap, and whether two requests really run together. Exit code 3 when a check fails; what could not be seen is never
    a pass.
    """
    from llmops.actions.verify import verify
    from llmops.cli.saved import installed_for
    from llmops.cli.trying import problems, report_data, report_text
    from llmops.core.documents import plan_document

    with reading_host(snapshot) as host:
        plan = _expected(host, plan_file)
        engine, installation = installed_for(host, plan)
        verified = verify(host, engine, installation, plan, progress=session.progress)
    data = {**plan_document(plan), **report_data(verified.report, verified.rates)}

    def text() -> str:
        return report_text(verified.report, verified.rates, verbose=session.verbose)

    hint = "put the plan in force again: llmops tune --apply; or go back: llmops rollback"
    problem = problems(verified.report, "what is in force is not the plan", hint)
    if problem is not None:
        return failed("verify", problem, data=data, text=text)
    return Result("verify", Status.OK, data=data, text=text)


def _expected(host: Host, plan_file: str | None) -> Plan:
    from llmops.cli.saved import plan_from_file
    from llmops.engines import ENGINES
    from llmops.state import read_applied_plan

    if plan_file is not None:
        return plan_from_file(plan_file)
    recalled = [read_applied_plan(host, engine.name) for engine in ENGINES]
    for found in recalled:
        if found.plan is not None:
            return found.plan
    why = next((found.warning for found in recalled if found.warning), None)
    raise UsageError(
        "llmops has applied no plan on this machine" + (f" ({why})" if why else ""),
        hint="apply one: llmops tune --apply; or name a saved one: --plan FILE",
    )
