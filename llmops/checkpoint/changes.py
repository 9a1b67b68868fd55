"""The difference between files as they should be and files as they are."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import PurePosixPath

from llmops.core.errors import Misconfigured
from llmops.core.files import Change, RenderedFile
from llmops.host import Host


def read_changes(host: Host, files: Iterable[RenderedFile]) -> tuple[Change, ...]:
    """One Change for each file whose content or mode differs; () when all are in place."""
    found = (read_change(host, file.path, file.content, file.mode) for file in files)
    return tuple(change for change in found if change is not None)


def read_change(host: Host, path: str, after: str | None, after_mode: int | None) -> Change | None:
    """What has to change at one path, or None; raise Misconfigured for something that is no text file."""
    try:
        status = host.status(path)
    except FileNotFoundError:
        return None if after is None else Change(path, None, after, after_mode=after_mode)
    if status.kind == "device" and path.endswith(".service"):
        name = PurePosixPath(path).name
        raise Misconfigured(f"{name} is masked: {path} leads to /dev/null", hint=f"systemctl unmask {name}")
    if status.kind != "file":
        raise Misconfigured(f"{path} is no plain file but a {status.kind}", hint="move it away, then run this again")
    before = host.read_text(path)
    if "\ufffd" in before:
        raise Misconfigured(f"{path} is not UTF-8 text", hint="move it away, then run this again")
    if before == after and (after_mode is None or status.mode == after_mode):
        return None
    return Change(path, before, after, status.mode, after_mode, status.uid, status.gid)


def read_content(host: Host, path: str) -> str | None:
    """The text of a file, None where there is none."""
    try:
        return host.read_text(path)
    except FileNotFoundError:
        return None
