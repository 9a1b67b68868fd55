"""What llmops changed on this machine, oldest first."""

from __future__ import annotations

from dataclasses import dataclass

from llmops import checkpoint
from llmops.host import Host


@dataclass(frozen=True)
class HistoryEntry:
    """One change: `kind` is apply or rollback; `in_effect` is False once a rollback has taken it back."""

    identifier: int
    kind: str
    engine: str
    unit: str
    started_at_seconds: float
    summary: str
    paths: tuple[str, ...]
    in_effect: bool
    reverts: tuple[int, ...]


def history(host: Host) -> tuple[HistoryEntry, ...]:
    """Every finished change; PermissionError for anybody who may not read the state directory."""
    kept = checkpoint.read_checkpoints(host)
    live = {entry.identifier for entry in checkpoint.in_effect(kept)}
    return tuple(
        HistoryEntry(
            identifier=entry.identifier,
            kind=entry.kind,
            engine=entry.engine,
            unit=entry.unit.name,
            started_at_seconds=entry.started_at_seconds,
            summary=entry.summary,
            paths=tuple(change.path for change in entry.changes),
            in_effect=entry.identifier in live,
            reverts=entry.reverts,
        )
        for entry in kept
    )
