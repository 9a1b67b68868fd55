"""llmops tune: probe, plan and difference; with --apply live, with --trial in a throw-away process."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from llmops.cli.hosts import changing_host, reading_host
from llmops.cli.options import api_key_option, applying_options, common_options, planning_options
from llmops.cli.planning import planned_data, planned_for, planned_text
from llmops.cli.result import Result, Status, failed
from llmops.cli.session import Session
from llmops.core.errors import Interrupted, LlmopsError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from llmops.actions.plan import Planned
    from llmops.cli.settings import Settings
    from llmops.host import Host, MutableHost


@click.command("tune")
@click.option("--apply", is_flag=True, help="Make the plan live, verify it, and undo it if it fails (root).")
@click.option("--trial", is_flag=True, help="Launch the plan as a child process and verify it there (no root).")
@click.option("--replan", is_flag=True, help="Compute afresh; do not keep what is in force.")
@applying_options
@planning_options
@api_key_option
@common_options
@click.pass_obj
def command(session: Session, /, *, apply: bool, trial: bool, replan: bool, **flags: Any) -> Result:
    """Probe, plan and show the difference; --apply makes it live.

    Without --apply nothing is changed: the status is ok when nothing would be, else changed, with the difference.
    """
    _check(flags["snapshot"], apply=apply, trial=trial)
    if apply:
        from llmops.cli.applying import apply_planned

        with changing_host(session.api_key) as host:
            return apply_planned("tune", host, session, flags, replan=replan)
    if trial:
        with changing_host(session.api_key) as host:
            return _trial(host, session, flags, replan=replan)
    with reading_host(flags["snapshot"], session.api_key) as host:
        return _show(host, session, flags, replan=replan)


def _check(snapshot: str | None, *, apply: bool, trial: bool) -> None:
    if apply and trial:
        raise UsageError(
            "--apply and --trial exclude each other", hint="try it first: --trial; then make it live: --apply"
        )
    if snapshot is not None and (apply or trial):
        raise UsageError("a recording cannot be changed", hint="leave --snapshot out")


def _show(host: Host, session: Session, flags: dict[str, Any], *, replan: bool) -> Result:
    from llmops.cli.tuning import difference_data, difference_text, read_difference

    live = flags["snapshot"] is None
    planned, settings = planned_for(host, flags, session, live=live, measure=live, replan=replan)
    found = read_difference(host, planned, flags, settings, live=live)
    data = {**planned_data(planned, settings), **difference_data(found)}
    shown = _plan_shown(planned, settings, flags)

    def text() -> str:
        return f"{shown()}\n\n{difference_text(found, session, live=live)}"

    return Result("tune", Status.CHANGED if found.changes else Status.OK, data=data, text=text)


def _trial(host: MutableHost, session: Session, flags: dict[str, Any], *, replan: bool) -> Result:
    from llmops.actions.live import try_out
    from llmops.cli.applying import require_present
    from llmops.cli.trying import trial_result

    planned, settings = planned_for(host, flags, session, live=True, measure=True, replan=replan)
    data = planned_data(planned, settings)
    shown = _plan_shown(planned, settings, flags)
    try:
        require_present(planned.engine, planned.installation)
        tried = try_out(
            host,
            planned.engine,
            planned.installation,
            planned.plan,
            hardware=planned.hardware,
            progress=session.progress,
        )
    except (LlmopsError, Interrupted) as error:
        return failed("tune", error, data=data, text=shown)
    return trial_result(tried, data, shown, session)


def _plan_shown(planned: Planned, settings: Settings, flags: dict[str, Any]) -> Callable[[], str]:
    return lambda: planned_text(planned, settings, explain=flags["explain"])
