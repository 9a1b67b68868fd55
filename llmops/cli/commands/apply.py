"""llmops apply: a plan made live, verified, and undone if it fails."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from llmops.cli.fronting import require_front
from llmops.cli.hosts import changing_host
from llmops.cli.option_table import PLANNING
from llmops.cli.options import api_key_option, applying_options, common_options, front_options, planning_options
from llmops.cli.result import Result
from llmops.cli.session import Session
from llmops.core.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from llmops.host import MutableHost


@click.command("apply")
@click.option("--plan", "plan_file", metavar="FILE", help="Apply exactly this saved `plan --output json`.")
@click.option("--replan", is_flag=True, help="Compute afresh; do not keep what is in force.")
@front_options
@applying_options
@planning_options
@api_key_option
@common_options
@click.pass_obj
def command(
    session: Session, /, *, plan_file: str | None, replan: bool, front: str | None, listen: str | None, **flags: Any
) -> Result:
    """Make a plan live, verify it, and undo it if it fails.

    The plan comes from --plan FILE, or is made as by `llmops plan`. A second apply changes nothing. With --front and
    --listen a proxy before the engine is applied instead, with the slots and the queue of the plan.
    """
    require_front(front, listen)
    if flags["snapshot"] is not None:
        raise UsageError("a recording cannot be changed", hint="leave --snapshot out")
    with changing_host(session.api_key) as host:
        if plan_file is not None:
            _require_alone(flags, replan=replan)
        if front is not None:
            from llmops.cli import fronting

            if plan_file is None:
                return fronting.apply_front_planned(host, session, flags, listen, replan=replan)
            return fronting.apply_front_saved(host, session, flags, listen, plan_file)
        if plan_file is None:
            from llmops.cli.applying import apply_planned

            return apply_planned("apply", host, session, flags, replan=replan)
        return _apply_saved(host, session, plan_file, flags)


def _require_alone(flags: Mapping[str, Any], *, replan: bool) -> None:
    """A saved plan is applied as it is; an option that would change it contradicts it."""
    typed = [spec.name for spec in PLANNING if flags[spec.name.replace("-", "_")] is not None]
    typed += ["replan"] if replan else []
    if typed:
        names = ", ".join(f"--{name}" for name in typed)
        raise UsageError(f"--plan applies a saved plan as it is, without {names}", hint=f"leave out --plan, or {names}")


def _apply_saved(host: MutableHost, session: Session, plan_file: str, flags: Mapping[str, Any]) -> Result:
    from llmops.actions.recovery import recover_first
    from llmops.cli.applying import Candidate, apply_candidate, apply_options
    from llmops.cli.saved import installed_for, plan_from_file
    from llmops.cli.settings import read_settings
    from llmops.core.documents import plan_document
    from llmops.probe import read_hardware

    plan = plan_from_file(plan_file)
    recovered = recover_first(host, session.progress)
    engine, installation = installed_for(host, plan)
    settings = read_settings(flags, flags["config"])

    def shown() -> str:
        from llmops.cli.text.plan import plan_text

        return plan_text(plan, title="Saved plan")

    candidate = Candidate(engine, installation, plan, read_hardware(host), plan_document(plan), shown, recovered)
    return apply_candidate("apply", host, session, candidate, apply_options(flags, settings))
