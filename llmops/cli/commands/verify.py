"""llmops verify: what is in force against the last applied plan."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from llmops.cli.hosts import reading_host
from llmops.cli.options import api_key_option, common_options, snapshot_option
from llmops.cli.result import Result, Status, failed
from llmops.cli.session import Session
from llmops.core.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from llmops.core.plan import MeasuredRates
    from llmops.core.verification import VerificationReport
    from llmops.host import Host


@click.command("verify")
@click.option("--plan", "plan_file", metavar="FILE", help="Compare with this saved plan instead of the applied one.")
@snapshot_option
@api_key_option
@common_options
@click.pass_obj
def command(session: Session, /, *, plan_file: str | None, snapshot: str | None) -> Result:
    """Compare what is in force with the last applied plan.

    Nothing is changed; two test requests are sent. Unit, running process, listener, the engine's own word, memory,
    swap, and whether two requests really run together; the front too, where one was applied. Exit code 3 when a check
    fails; what could not be seen is never a pass.
    """
    from llmops.cli.trying import problems, report_data, report_text

    with reading_host(snapshot, session.api_key) as host:
        report, rates, planned = _verified(host, session, plan_file, live=snapshot is None)
    data = {**planned, **report_data(report, rates)}

    def text() -> str:
        return report_text(report, rates, verbose=session.verbose)

    hint = "put the plan in force again: llmops tune --apply; or go back: llmops rollback"
    problem = problems(report, "what is in force is not the plan", hint)
    if problem is not None:
        return failed("verify", problem, data=data, text=text)
    return Result("verify", Status.OK, data=data, text=text)


def _verified(
    host: Host, session: Session, plan_file: str | None, *, live: bool
) -> tuple[VerificationReport, MeasuredRates | None, Mapping[str, Any]]:
    """The checks of the plan and of the front; of the front alone where the plan in force is not of llmops."""
    from llmops.actions.front import verify_applied_front
    from llmops.actions.verify import verify
    from llmops.cli.saved import installed_for, plan_to_verify
    from llmops.core.documents import plan_document
    from llmops.core.verification import VerificationReport

    front = verify_applied_front(host)
    try:
        plan = plan_to_verify(host, plan_file)
    except UsageError:
        if front is None or plan_file is not None:
            raise
        return front, None, {}
    engine, installation = installed_for(host, plan)
    verified = verify(host, engine, installation, plan, progress=session.progress, recorded=not live)
    checks = (*verified.report.checks, *(front.checks if front else ()))
    return VerificationReport(checks), verified.rates, plan_document(plan)
