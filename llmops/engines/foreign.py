"""Programs that root found running and must not run itself."""

from __future__ import annotations

from pathlib import PurePosixPath

from llmops.host import Host


def whose_program(host: Host, program: str) -> str | None:
    """Why root must not run a program that it found running; None where it may, and for everybody else.

    Any user may give a program the name of an engine and wait for root to start it. Only what root or the user of
    `sudo` owns, in directories of theirs, is root's to run.
    """
    if host.effective_uid() != 0:
        return None
    sudo_user = host.environment().get("SUDO_UID", "")
    trusted = {0, int(sudo_user)} if sudo_user.isdecimal() else {0}
    path = PurePosixPath(host.resolve(program))
    for place in (path, *path.parents):
        try:
            status = host.status(str(place))
        except OSError:
            return None  # it cannot be run either
        others_write = status.mode & 0o002 and not status.mode & 0o1000
        if status.uid not in trusted or others_write:
            owner = "anybody may write to" if others_write else f"user {status.uid} owns"
            return f"root does not run {path}, because {owner} {place}"
    return None
