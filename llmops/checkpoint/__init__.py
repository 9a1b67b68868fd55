"""Changes that can be taken back: lock, journal, files, checkpoint, undo, recovery of a killed run."""

from llmops.checkpoint.changes import read_change, read_changes, read_content
from llmops.checkpoint.records import Checkpoint, UnitBefore
from llmops.checkpoint.store import (
    JOURNAL_PATH,
    LOCK_PATH,
    STATE_DIRECTORY,
    in_effect,
    locked,
    next_identifier,
    parents_missing,
    read_checkpoints,
    read_plan,
)
from llmops.checkpoint.transaction import carry_out
from llmops.checkpoint.undo import recover

__all__ = [
    "JOURNAL_PATH",
    "LOCK_PATH",
    "STATE_DIRECTORY",
    "Checkpoint",
    "UnitBefore",
    "carry_out",
    "in_effect",
    "locked",
    "next_identifier",
    "parents_missing",
    "read_change",
    "read_changes",
    "read_checkpoints",
    "read_content",
    "read_plan",
    "recover",
]
