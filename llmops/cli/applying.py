"""What tune --apply and apply share: options in, the live plan and its report out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from llmops.cli.planning import change_documents
from llmops.core.serialization import encode

if TYPE_CHECKING:
    from collections.abc import Mapping

    from llmops.actions.apply import Applied, ApplyOptions
    from llmops.cli.settings import Settings


def apply_options(flags: Mapping[str, Any], settings: Settings) -> ApplyOptions:
    """How far the apply may go, from flags and configuration file."""
    from llmops.actions.apply import ApplyOptions

    drain = settings.value("drain-seconds")
    given = {} if drain is None else {"drain_seconds": drain}
    return ApplyOptions(take_over=flags["take_over"], install_unit=flags["install_unit"], **given)


def applied_data(applied: Applied) -> dict[str, Any]:
    """The keys of `data` that an apply adds."""
    return {
        "files": change_documents(applied.changes),
        "checks": [] if applied.report is None else [encode(check) for check in applied.report.checks],
        "unit": applied.unit,
        "restarted": applied.restarted,
        "checkpoint": applied.checkpoint,
        "recovered": applied.recovered,
    }


def applied_text(applied: Applied) -> str:
    """What was done, for people."""
    from llmops.cli.text.changes import checks_text
    from llmops.cli.text.layout import good, sections

    if not applied.changed:
        return good(f"Nothing to do: {applied.unit} already runs this plan.")
    done = f"Live in {applied.unit} (number {applied.checkpoint}); to go back: llmops rollback"
    files = "\n".join(f"  wrote {change.path}" for change in applied.changes if change.after is not None)
    checks = "" if applied.report is None else checks_text(applied.report.checks)
    return sections((checks, f"{good(done)}\n{files}".rstrip()))
