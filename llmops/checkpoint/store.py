"""Where changes are remembered: the lock, the journal of the change under way, the finished ones."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath
from typing import Any

from llmops.checkpoint.records import Checkpoint, from_text, to_text
from llmops.core.errors import UsageError
from llmops.host import Host, MutableHost
from llmops.state import forget_applied_plan, write_applied_document

LOCK_PATH = "/run/lock/llmops.lock"
STATE_DIRECTORY = "/var/lib/llmops"
JOURNAL_PATH = f"{STATE_DIRECTORY}/journal.json"
CHECKPOINT_DIRECTORY = f"{STATE_DIRECTORY}/checkpoints"
# Changes that could not be taken back whole, because somebody edited a file since: their old contents.
KEPT_DIRECTORY = f"{STATE_DIRECTORY}/not-undone"
_PRIVATE = 0o600  # contents of files may hold secrets
_NAME = re.compile(r"(\d+)\.json")


@contextlib.contextmanager
def locked(host: MutableHost) -> Iterator[None]:
    """Hold the lock of this machine; raise Locked at once where another llmops holds it."""
    lock = host.lock(LOCK_PATH)
    try:
        yield
    finally:
        lock.release()


def read_journal(host: Host) -> Checkpoint | None:
    """The change that is under way or was cut short; None where everything is finished."""
    try:
        text = host.read_text(JOURNAL_PATH)
    except FileNotFoundError:
        return None
    return from_text(text, JOURNAL_PATH)[0]


def write_journal(host: MutableHost, checkpoint: Checkpoint) -> None:
    """Register a change before anything of it is made."""
    host.write_text(JOURNAL_PATH, to_text(checkpoint, None), mode=_PRIVATE)


def remove_journal(host: MutableHost) -> None:
    """Nothing is under way any more."""
    host.remove(JOURNAL_PATH)


def checkpoint_path(identifier: int) -> str:
    """Where one finished change is kept."""
    return f"{CHECKPOINT_DIRECTORY}/{identifier:06d}.json"


def write_checkpoint(host: MutableHost, checkpoint: Checkpoint, plan: Mapping[str, Any] | None) -> None:
    """Keep a finished change; from this moment on the new state is the one to keep."""
    host.write_text(checkpoint_path(checkpoint.identifier), to_text(checkpoint, plan), mode=_PRIVATE)


def keep_not_undone(host: MutableHost, checkpoint: Checkpoint) -> str:
    """Keep the old contents of a change that could not be taken back whole; the path."""
    path = f"{KEPT_DIRECTORY}/{checkpoint.identifier:06d}.json"
    host.write_text(path, to_text(checkpoint, None), mode=_PRIVATE)
    return path


def identifiers(host: Host, directory: str = CHECKPOINT_DIRECTORY) -> tuple[int, ...]:
    """The finished changes, oldest first."""
    try:
        names = host.list_directory(directory)
    except FileNotFoundError:
        return ()
    return tuple(sorted(int(match.group(1)) for name in names if (match := _NAME.fullmatch(name))))


def next_identifier(host: Host) -> int:
    """One more than any that was ever given to a change that left a trace."""
    return max((0, *identifiers(host), *identifiers(host, KEPT_DIRECTORY))) + 1


def read_checkpoints(host: Host) -> tuple[Checkpoint, ...]:
    """Every finished change, oldest first."""
    paths = [checkpoint_path(identifier) for identifier in identifiers(host)]
    return tuple(from_text(host.read_text(path), path)[0] for path in paths)


def read_plan(host: Host, identifier: int) -> Mapping[str, Any] | None:
    """The plan document that a change applied; None for a rollback. Raise UsageError for an unknown number."""
    path = checkpoint_path(identifier)
    try:
        return from_text(host.read_text(path), path)[1]
    except FileNotFoundError as missing:
        raise UsageError(f"there is no change {identifier}", hint="see: llmops history") from missing


def publish_plan(host: MutableHost, engine: str) -> None:
    """Let everybody read the plan of the newest change in effect; none where no change is.

    Checkpoints hold contents of files and are private; the next plan is also made by people who are not root.
    """
    live = in_effect(read_checkpoints(host), engine)
    document = read_plan(host, live[-1].identifier) if live else None
    if document is None:
        forget_applied_plan(host, engine)
    else:
        write_applied_document(host, engine, document)


def in_effect(checkpoints: tuple[Checkpoint, ...], engine: str | None = None) -> tuple[Checkpoint, ...]:
    """The applied changes that no rollback has taken back, oldest first."""
    reverted = {identifier for checkpoint in checkpoints for identifier in checkpoint.reverts}
    return tuple(
        checkpoint
        for checkpoint in checkpoints
        if checkpoint.kind == "apply"
        and checkpoint.changes
        and checkpoint.identifier not in reverted
        and (engine is None or checkpoint.engine == engine)
    )


def parents_missing(host: Host, paths: tuple[str, ...]) -> tuple[str, ...]:
    """The directories above these paths that do not exist yet, parents first."""
    missing: list[str] = []
    for path in paths:
        for parent in reversed(PurePosixPath(path).parents):
            if str(parent) not in missing and not _exists(host, str(parent)):
                missing.append(str(parent))
    return tuple(missing)


def _exists(host: Host, path: str) -> bool:
    try:
        host.status(path)
    except FileNotFoundError:
        return False
    return True
