"""llmops plan: how the engine should serve, nothing changed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from llmops.cli.hosts import reading_host
from llmops.cli.options import api_key_option, common_options, planning_options
from llmops.cli.planning import planned_data, planned_for, planned_text, same_words
from llmops.cli.result import Result, Status
from llmops.cli.session import Session
from llmops.core.errors import Unsupported

if TYPE_CHECKING:
    from llmops.actions.plan import Planned


@click.command("plan")
@click.option("--replan", is_flag=True, help="Compute afresh; do not keep what is in force.")
@planning_options
@api_key_option
@common_options
@click.pass_obj
def command(session: Session, /, *, replan: bool, **flags: Any) -> Result:
    """Compute how the engine should serve; change nothing.

    From the machine, the model and the users: slots, context per slot, cache type, batch, threads, memory and speed.
    A configuration in force that breaks no limit is kept. Save `--output json` for `llmops apply --plan FILE`.
    """
    snapshot = flags["snapshot"]
    with reading_host(snapshot, session.api_key) as host:
        planned, settings = planned_for(host, flags, session, live=snapshot is None, replan=replan, to_configure=False)

    def text() -> str:
        from llmops.cli.text.layout import sections
        from llmops.cli.text.plan import next_step

        step = "" if snapshot or not _can_be_made_live(planned) else next_step(same_words(session, "tune"))
        return sections((planned_text(planned, settings, explain=flags["explain"]), step))

    return Result("plan", Status.OK, data=planned_data(planned, settings), text=text)


def _can_be_made_live(planned: Planned) -> bool:
    try:
        planned.engine.require_configurable(planned.model)
    except Unsupported:
        return False
    return planned.engine.can_be_configured
