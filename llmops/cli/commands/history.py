"""llmops history: what was applied and rolled back."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click

from llmops.cli.hosts import reading_host
from llmops.cli.options import common_options, snapshot_option
from llmops.cli.result import Result, Status
from llmops.cli.session import Session

if TYPE_CHECKING:
    from llmops.actions.history import HistoryEntry


@click.command("history")
@snapshot_option
@common_options
@click.pass_obj
def command(session: Session, /, *, snapshot: str | None) -> Result:
    """List what was applied and rolled back.

    Oldest first; the numbers are those of `llmops rollback --to`.
    """
    from llmops.actions.history import history
    from llmops.core.serialization import encode

    with reading_host(snapshot) as host:
        entries = history(host)
    rows = [encode(entry) for entry in entries]
    return Result("history", Status.OK, data={"history": rows}, text=lambda: _text(entries))


def _text(entries: tuple[HistoryEntry, ...]) -> str:
    from llmops.cli.text.layout import table, wrapped

    if not entries:
        return "Nothing was applied on this machine."
    rows = [
        (
            str(entry.identifier),
            time.strftime("%Y-%m-%d %H:%M", time.localtime(entry.started_at_seconds)),
            entry.kind,
            entry.unit,
            entry.summary,
            "yes" if entry.in_effect else "",
        )
        for entry in entries
    ]
    headers = ("number", "when", "what", "unit", "summary", "live")
    hint = wrapped("llmops rollback takes back the last one; --to N keeps N and takes back what came after.")
    return f"{table(rows, headers, left_columns=len(headers))}\n\n{hint}"
