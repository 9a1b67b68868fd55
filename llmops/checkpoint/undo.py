"""Taking a change back, at whatever point it stopped: every step may be repeated and none overwrites a later edit."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import PurePosixPath

from llmops import systemd
from llmops.checkpoint import store
from llmops.checkpoint.changes import read_content
from llmops.checkpoint.forward import write_last_files
from llmops.checkpoint.records import Checkpoint
from llmops.core.errors import Interrupted, LlmopsError, RollbackFailed
from llmops.core.files import PUBLIC_FILE_MODE, Change
from llmops.host import MutableHost

READY_SECONDS = 600.0  # as TimeoutStartSec= of the units that llmops renders: a large model is read from disk
SETTLE_SECONDS = 30.0
_STAYS_UP_SECONDS = 3.0  # an engine that refuses its arguments ends within one


def undo(host: MutableHost, checkpoint: Checkpoint, *, at_boot: bool, ready: Callable[[], bool] | None = None) -> None:
    """Bring files and unit back to what they were; raise RollbackFailed naming what could not be.

    At boot only the files: the unit is started afterwards by the boot itself, with what it then reads. One that was
    switched off for the next boot is not among what this boot starts, so its start is asked for.
    """
    try:
        edited = _restore(host, checkpoint, at_boot=at_boot)
    except (OSError, LlmopsError, Interrupted) as problem:
        raise RollbackFailed(
            f"the old state could not be put back: {problem}",
            hint=f"the old files are in {store.JOURNAL_PATH}; try again: llmops rollback --recover",
        ) from problem
    kept = store.keep_not_undone(host, checkpoint) if edited else None
    failure = _start_later(host, checkpoint) if at_boot else _bring_back(host, checkpoint, ready)
    store.remove_journal(host)
    if kept is not None:
        raise RollbackFailed(
            f"{', '.join(edited)} was edited since llmops wrote it, so it was left as it is",
            hint=f"the content before llmops is in {kept}",
        )
    if failure is not None:
        raise RollbackFailed(
            f"the old files are back, but {checkpoint.unit.name} does not come up with them: {failure.message}",
            hint=failure.hint,
        ) from failure


def recover(host: MutableHost, *, at_boot: bool = False) -> Checkpoint | None:
    """Take back the change that a killed run left unfinished; the change, or None where there is none.

    The lock must be held. Raise RollbackFailed as `undo` does.
    """
    unfinished = store.read_journal(host)
    if unfinished is None:
        return None
    if unfinished.identifier in store.identifiers(host):  # it was complete: only its journal stayed
        finish(host, unfinished)
        return None
    undo(host, unfinished, at_boot=at_boot)
    return unfinished


def finish(host: MutableHost, checkpoint: Checkpoint) -> None:
    """The last steps of a change that is kept; they may be repeated. The journal goes last, so that they will be."""
    store.publish_plan(host, checkpoint.engine)
    write_last_files(host, checkpoint)
    store.remove_journal(host)


def _restore(host: MutableHost, checkpoint: Checkpoint, *, at_boot: bool) -> tuple[str, ...]:
    host.remove(store.checkpoint_path(checkpoint.identifier))
    unit = checkpoint.unit
    if not at_boot and not unit.ran and systemd.state(host, unit.name).exists:
        systemd.stop(host, unit.name)
    edited = [change.path for change in reversed(checkpoint.changes) if not _restore_file(host, checkpoint, change)]
    for directory in reversed(checkpoint.directories):
        host.remove_directory_if_empty(directory)
    _reload(host, unit.name)
    return tuple(edited)


def _reload(host: MutableHost, unit: str) -> None:
    """A systemd that refuses to read its files again is no harm while it still has them as they are now."""
    try:
        systemd.daemon_reload(host)
    except (LlmopsError, Interrupted):
        if systemd.state(host, unit).need_daemon_reload:
            raise


def _restore_file(host: MutableHost, checkpoint: Checkpoint, change: Change) -> bool:
    name = PurePosixPath(change.path).name
    if name in checkpoint.enable:
        systemd.disable(host, name)
    current = read_content(host, change.path)
    if current not in (change.before, change.after):
        return False
    if change.before is None:
        host.remove(change.path)
    else:  # also where it is still the old one: writing takes away what a killed write left beside it
        mode = PUBLIC_FILE_MODE if change.before_mode is None else change.before_mode
        host.write_text(change.path, change.before, mode=mode, uid=change.before_uid, gid=change.before_gid)
    if name in checkpoint.disable:
        systemd.enable(host, name)
    return True


def _start_later(host: MutableHost, checkpoint: Checkpoint) -> LlmopsError | Interrupted | None:
    unit = checkpoint.unit
    if unit.ran and unit.name in checkpoint.disable:
        try:
            systemd.start_later(host, unit.name)
        except (LlmopsError, Interrupted) as problem:
            return problem
    return None


def _bring_back(
    host: MutableHost, checkpoint: Checkpoint, ready: Callable[[], bool] | None
) -> LlmopsError | Interrupted | None:
    unit = checkpoint.unit
    if not unit.ran:
        return None
    try:
        now = systemd.state(host, unit.name)
        same_start = now.active and unit.invocation_id and now.invocation_id == unit.invocation_id
        if same_start and not checkpoint.reloadable:
            return None  # the change had not reached the process: it still runs as it was started
        if same_start:  # whether it has read the new files cannot be told, so it reads the old ones again
            systemd.reload_or_restart(host, unit.name)
        else:
            systemd.restart(host, unit.name)
        if unit.active_state == "active":
            systemd.wait_until_ready(
                host, unit.name, ready or _stays_up(host), timeout_seconds=READY_SECONDS if ready else SETTLE_SECONDS
            )
    except (LlmopsError, Interrupted) as problem:
        return problem
    except OSError as problem:
        return LlmopsError(str(problem))
    return None


def _stays_up(host: MutableHost) -> Callable[[], bool]:
    """For a caller that cannot ask the engine: wait_until_ready sees a crash meanwhile."""
    since = host.monotonic()
    return lambda: host.monotonic() - since >= _STAYS_UP_SECONDS
