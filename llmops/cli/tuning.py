"""What tune shows without --apply: which files would change, what contradicts, why an apply would refuse."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from llmops.core.errors import Unsupported

if TYPE_CHECKING:
    from llmops.actions.plan import Planned
    from llmops.cli.session import Session
    from llmops.cli.settings import Settings
    from llmops.core.files import Change
    from llmops.host import Host


@dataclass(frozen=True)
class Difference:
    """Files that would change, contradictions in files of the user, and why an apply would refuse."""

    changes: tuple[Change, ...] = ()
    contradictions: tuple[str, ...] = ()
    refusal: Unsupported | None = None


def read_difference(
    host: Host, planned: Planned, flags: Mapping[str, Any], settings: Settings, *, live: bool = False
) -> Difference:
    """Compare the plan with the disk, as an apply with the same options would; writes nothing.

    Only a machine that is here (`live`) is asked for modes, accounts and ports: a recording does not hold them.
    """
    from llmops import systemd
    from llmops.actions.port import require_port
    from llmops.actions.target import read_target, require_readable
    from llmops.cli.applying import apply_options, require_present

    if planned.changes_nothing:
        return Difference()
    if planned.unclear is not None:
        return Difference(refusal=planned.unclear)
    options = apply_options(flags, settings)
    try:
        require_present(planned.engine, planned.installation)
        target = read_target(host, planned.engine, planned.installation, planned.plan, options)
        systemd.require_systemd(host)
        if live:
            require_readable(host, target, planned.plan)
            require_port(host, target.unit, target.in_force)
    except Unsupported as refusal:
        return Difference(refusal=refusal)
    return Difference(target.changes, tuple(str(found) for found in target.contradictions))


def difference_data(found: Difference) -> dict[str, Any]:
    """The keys of `data` that say what an apply would do."""
    from llmops.cli.planning import change_documents

    refusal = found.refusal
    refused = None
    if refusal is not None:
        refused = {"code": refusal.code, "message": refusal.message, "hint": refusal.hint}
    return {
        "files": change_documents(found.changes),
        "contradictions": list(found.contradictions),
        "apply_refused": refused,
    }


def difference_text(found: Difference, session: Session, *, live: bool) -> str:
    """The difference for people, and what to type next where the machine is here."""
    from llmops.cli.planning import same_words
    from llmops.cli.text.layout import caution, good, sections, wrapped
    from llmops.cli.text.plan import next_step

    if found.refusal is not None:
        hint = wrapped(f"{found.refusal.message}. {found.refusal.hint or ''}")
        trial = next_step(same_words(session, "tune", "--trial")) if live else ""
        return sections((f"{caution('--apply would refuse')}\n{hint}", trial))
    if not found.changes:
        return good("Nothing would change.")
    words = ("--apply", "--take-over") if found.contradictions else ("--apply",)
    step = next_step(f"sudo {same_words(session, 'tune', *words)}") if live else ""
    return sections((_files_text(found), step))


def _files_text(found: Difference) -> str:
    from llmops.cli.text.changes import diff_text
    from llmops.cli.text.layout import bullets, caution, heading, sections

    said = ""
    if found.contradictions:
        said = f"{caution('Your own files say otherwise')}\n{bullets(found.contradictions)}"
    return sections((heading("Files"), diff_text(found.changes), said))
