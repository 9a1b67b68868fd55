"""Making a change that is either whole or taken back: journal, files, unit, confirmation, checkpoint."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from llmops import systemd
from llmops.checkpoint import store
from llmops.checkpoint.forward import write_files
from llmops.checkpoint.records import Checkpoint
from llmops.checkpoint.undo import finish, undo
from llmops.core.errors import Interrupted, LlmopsError, RolledBack
from llmops.host import MutableHost

T = TypeVar("T")


def carry_out(
    host: MutableHost,
    checkpoint: Checkpoint,
    plan: Mapping[str, Any] | None,
    bring_up: Callable[[], T],
    *,
    ready: Callable[[], bool] | None = None,
    reload: bool = False,
) -> T:
    """Write the files, let `bring_up` restart, wait and verify, and keep the checkpoint; the result of `bring_up`.

    The lock must be held. Whatever goes wrong, a signal included, the old state comes back: RolledBack, or
    RollbackFailed where even that failed. `ready` says whether the engine serves again after going back; `reload`
    that systemd has to read its files again although none of ours changes.
    """
    try:
        store.write_journal(host, checkpoint)
        write_files(host, checkpoint)
        if checkpoint.changes or reload:
            systemd.daemon_reload(host)
        result = bring_up()
        store.write_checkpoint(host, checkpoint, plan)
    except BaseException as failure:
        undo(host, checkpoint, at_boot=False, ready=ready)
        if isinstance(failure, (LlmopsError, OSError)):
            raise _rolled_back(checkpoint, failure) from failure
        raise
    _finish(host, checkpoint)
    return result


def _rolled_back(checkpoint: Checkpoint, failure: LlmopsError | OSError) -> RolledBack:
    state = f"{checkpoint.unit.name} runs as before" if checkpoint.unit.ran else "nothing was running before"
    if isinstance(failure, LlmopsError):
        said, hint = str(failure), failure.hint
    else:
        said, hint = str(failure.strerror or failure), "see to that disk (df, mount, dmesg), then run this again"
        said = f"{failure.filename}: {said}" if failure.filename else said
    return RolledBack(f"{said}. The old configuration is back and {state}", hint=hint)


def _finish(host: MutableHost, checkpoint: Checkpoint) -> None:
    """The change is whole and kept: nothing that happens now takes it back.

    A journal that stays is harmless: whoever takes the lock next does this again.
    """
    try:
        finish(host, checkpoint)
    except (LlmopsError, OSError, Interrupted):
        with contextlib.suppress(LlmopsError, OSError):
            finish(host, checkpoint)
