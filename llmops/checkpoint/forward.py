"""Making the changes of a checkpoint: files in order, and the start at boot of the unit files among them."""

from __future__ import annotations

from pathlib import PurePosixPath

from llmops import systemd
from llmops.checkpoint.changes import read_content
from llmops.checkpoint.records import Checkpoint
from llmops.core.files import PUBLIC_FILE_MODE, Change
from llmops.host import MutableHost


def write_files(host: MutableHost, checkpoint: Checkpoint) -> None:
    """Make every change in order, and switch the start at boot of the unit files among them."""
    for change in checkpoint.changes:
        if change.path not in checkpoint.last:
            _make(host, checkpoint, change)
    for directory in reversed(checkpoint.remove_directories):
        host.remove_directory_if_empty(directory)


def write_last_files(host: MutableHost, checkpoint: Checkpoint) -> None:
    """Make the changes that wait until all others are kept; they may be repeated."""
    for change in checkpoint.changes:
        if change.path in checkpoint.last and read_content(host, change.path) != change.after:
            _make(host, checkpoint, change)
            systemd.daemon_reload(host)


def _make(host: MutableHost, checkpoint: Checkpoint, change: Change) -> None:
    name = PurePosixPath(change.path).name
    if name in checkpoint.disable:
        systemd.disable(host, name)
        if checkpoint.reloadable and name == checkpoint.unit.name:
            systemd.stop(host, name)  # while its file still says how it ends without cutting streams
    _write(host, change)
    if name in checkpoint.enable:
        systemd.enable(host, name)


def _write(host: MutableHost, change: Change) -> None:
    if change.after is None:
        host.remove(change.path)
        return
    mode = PUBLIC_FILE_MODE if change.after_mode is None else change.after_mode
    host.write_text(change.path, change.after, mode=mode, uid=change.before_uid, gid=change.before_gid)
