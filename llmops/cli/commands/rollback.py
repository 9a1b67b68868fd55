"""llmops rollback: what was before an apply."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from llmops.cli.hosts import changing_host
from llmops.cli.option_table import APPLYING
from llmops.cli.options import common_options, table_options
from llmops.cli.result import Result, Status
from llmops.cli.session import Session
from llmops.core.errors import UsageError

if TYPE_CHECKING:
    from llmops.actions.rollback import WentBack
    from llmops.host import Host, MutableHost


@click.command("rollback")
@click.option(
    "--to", type=click.IntRange(min=0), metavar="ID", help="Keep this change, take back all after it; 0: all."
)
@click.option("--recover", is_flag=True, help="Only take back an apply that was cut short (the boot unit does this).")
@table_options(APPLYING)
@common_options
@click.pass_obj
def command(session: Session, /, *, to: int | None, recover: bool, drain_seconds: float | None) -> Result:
    """Put back what was before an apply.

    The engine is restarted with it. A file that was edited since llmops wrote it is never overwritten.
    """
    if recover and to is not None:
        raise UsageError("--recover and --to exclude each other", hint="give one of the two")
    with changing_host() as host:
        return _recover(host) if recover else _roll_back(host, session, to, drain_seconds)


def _roll_back(host: MutableHost, session: Session, to: int | None, drain_seconds: float | None) -> Result:
    from llmops.actions.rollback import rollback
    from llmops.cli.planning import change_documents
    from llmops.engines import ENGINES

    given: dict[str, Any] = {} if drain_seconds is None else {"drain_seconds": drain_seconds}
    went = rollback(host, ENGINES, to=to, progress=session.progress, **given)
    data = {
        "rolled_back": list(went.reverted),
        "files": change_documents(went.changes),
        "unit": went.unit,
        "restarted": went.restarted,
        "checkpoint": went.checkpoint,
    }
    return Result("rollback", Status.CHANGED, data=data, text=lambda: _text(went))


def _text(went: WentBack) -> str:
    from llmops.cli.text.layout import good

    numbers = ", ".join(str(number) for number in went.reverted)
    state = f"{went.unit} was restarted and serves" if went.restarted else f"{went.unit} was not restarted"
    files = [f"  {'removed' if change.after is None else 'put back'} {change.path}" for change in went.changes]
    return "\n".join([good(f"Taken back: {numbers}; {state}"), *files])


def _recover(host: MutableHost) -> Result:
    from llmops.actions.recovery import recover

    undone = recover(host, at_boot=_at_boot(host))
    if undone is None:
        return Result("rollback", Status.OK, data={"rolled_back": []}, text=lambda: "Nothing was cut short.")
    line = f"Taken back: {undone.identifier}, which was cut short"
    return Result("rollback", Status.CHANGED, data={"rolled_back": [undone.identifier]}, text=lambda: line)


def _at_boot(host: Host) -> bool:
    """True before basic.target: units are then started by the boot itself, with the files as they are by then."""
    try:
        return host.query(("systemctl", "is-system-running")).stdout.strip() == "initializing"
    except (FileNotFoundError, TimeoutError):
        return False
