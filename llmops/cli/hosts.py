"""The doors to the machine that commands ask for; tests put other hosts behind them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from llmops.core.errors import NoPermission, UnreadableInput

if TYPE_CHECKING:
    from llmops.host import Host, MutableHost

# No file that llmops reads for its user is near this size; a device or a pipe without end is refused by it.
_MOST_BYTES = 16 * 1024 * 1024


def build_host(snapshot: str | None = None) -> Host:
    """This machine, or the recording of another one."""
    if snapshot is None:
        from llmops.host.local import LocalHost

        return LocalHost()
    from llmops.host.recorded import RecordedHost

    return RecordedHost.load(Path(snapshot))


def build_mutable_host() -> MutableHost:
    """This machine, with the right to change it."""
    from llmops.host.local import LocalHost

    return LocalHost()


@contextmanager
def reading_host(snapshot: str | None = None) -> Iterator[Host]:
    """A host to look at; a question that a recording has no answer to is unreadable input, never a made-up answer."""
    if snapshot is None:
        yield build_host()
        return
    from llmops.host.recorded import NeverRecorded

    try:
        yield build_host(snapshot)
    except NeverRecorded as error:
        hint = "record the machine again with this llmops: llmops snapshot DIR"
        raise UnreadableInput(f"recording {snapshot}: {error}", hint=hint) from None


@contextmanager
def changing_host() -> Iterator[MutableHost]:
    """This machine, to be changed: signals that end the process become Interrupted, so that undo can run."""
    from llmops.host.local.signals import interruptible

    with interruptible():
        yield build_mutable_host()


def configuration_places() -> tuple[str, ...]:
    """Where llmops.yaml is looked for; the first that exists is read."""
    own = os.path.expanduser("~/.config/llmops/llmops.yaml")  # noqa: PTH111 - pathlib fails where there is no home
    return ("/etc/llmops/llmops.yaml", own)


def read_input(path: str, what: str) -> str:
    """The text of a file that the user named (- is stdin); raise UnreadableInput or NoPermission with its name."""
    try:
        data = _stdin_bytes() if path == "-" else _file_bytes(path)
        text = data.decode("utf-8")
    except FileNotFoundError:
        raise UnreadableInput(f"{what} {path}: there is no such file") from None
    except IsADirectoryError:
        raise UnreadableInput(f"{what} {path}: this is a directory") from None
    except PermissionError:
        raise NoPermission(f"{what} {path}: no permission to read it", hint="run as its owner or as root") from None
    except UnicodeDecodeError:
        raise UnreadableInput(f"{what} {path}: not a text file") from None
    except OSError as error:
        raise UnreadableInput(f"{what} {path}: {error.strerror or error}") from None
    if len(data) > _MOST_BYTES:
        raise UnreadableInput(f"{what} {path}: larger than {_MOST_BYTES} bytes")
    return text


def _file_bytes(path: str) -> bytes:
    with Path(path).open("rb") as file:
        return file.read(_MOST_BYTES + 1)


def _stdin_bytes() -> bytes:
    import sys

    return sys.stdin.buffer.read(_MOST_BYTES + 1)
