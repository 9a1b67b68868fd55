"""The doors to the machine that commands ask for; tests put other hosts behind them."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from llmops.core.errors import NoPermission, UnreadableInput, UsageError

if TYPE_CHECKING:
    from llmops.host import Host, MutableHost

# No file that llmops reads for its user is near this size; a device or a pipe without end is refused by it.
_MOST_BYTES = 16 * 1024 * 1024
_MOST_KEY_BYTES = 64 * 1024
# How an environment file of a unit names it: VLLM_API_KEY, LLAMA_API_KEY, with or without "export".
_KEY_NAME = re.compile(r"^(?:export\s+)?[A-Z_]*API_KEY\s*=\s*")
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EIO})


def build_host(snapshot: str | None = None, api_key: str | None = None) -> Host:
    """This machine, or the recording of another one; the key is for the servers on this machine."""
    if snapshot is None:
        from llmops.host.local import LocalHost

        return LocalHost(api_key=api_key)
    from llmops.host.recorded import RecordedHost

    return RecordedHost.load(Path(snapshot))


def build_mutable_host(api_key: str | None = None) -> MutableHost:
    """This machine, with the right to change it."""
    from llmops.host.local import LocalHost

    return LocalHost(api_key=api_key)


@contextmanager
def reading_host(snapshot: str | None = None, api_key: str | None = None) -> Iterator[Host]:
    """A host to look at; a question that a recording has no answer to is unreadable input, never a made-up answer."""
    if snapshot is None:
        yield build_host(api_key=api_key)
        return
    from llmops.host.recorded import NeverRecorded

    try:
        yield build_host(snapshot)
    except NeverRecorded as error:
        hint = "record the machine again with this llmops: llmops snapshot DIR"
        raise UnreadableInput(f"recording {snapshot}: {error}", hint=hint) from None


@contextmanager
def changing_host(api_key: str | None = None) -> Iterator[MutableHost]:
    """This machine, to be changed: signals that end the process become Interrupted, so that undo can run."""
    from llmops.host.local.signals import interruptible

    with interruptible():
        yield build_mutable_host(api_key=api_key)


def configuration_places() -> tuple[str, ...]:
    """Where llmops.yaml is looked for; the first that exists is read."""
    own = os.path.expanduser("~/.config/llmops/llmops.yaml")  # noqa: PTH111 - pathlib fails where there is no home
    return ("/etc/llmops/llmops.yaml", own)


def read_input(path: str, what: str, *, hint: str, most_bytes: int = _MOST_BYTES) -> str:
    """The text of a file that the user named (- is stdin); raise UnreadableInput or NoPermission with its name."""
    try:
        data = _stdin_bytes(most_bytes) if path == "-" else _file_bytes(path, most_bytes)
        text = data.decode("utf-8")
    except FileNotFoundError:
        raise UnreadableInput(f"{what} {path}: there is no such file", hint=hint) from None
    except IsADirectoryError:
        raise UnreadableInput(f"{what} {path}: this is a directory", hint=hint) from None
    except PermissionError:
        raise NoPermission(f"{what} {path}: no permission to read it", hint="run as its owner or as root") from None
    except UnicodeDecodeError:
        raise UnreadableInput(f"{what} {path}: not a text file", hint=hint) from None
    except (OSError, ValueError) as error:  # a name that no file can have is a ValueError
        said = getattr(error, "strerror", None) or error
        raise UnreadableInput(f"{what} {path}: {said}", hint=hint) from None
    if len(data) > most_bytes:
        raise UnreadableInput(f"{what} {path}: larger than {most_bytes} bytes", hint=hint)
    return text


def read_api_key(path: str) -> str:
    """The key in the first line of a file that holds one, alone or as NAME_API_KEY=KEY; raise UnreadableInput."""
    hint = "write the key alone into it, or a line such as VLLM_API_KEY=..."
    text = read_input(path, "API key file", hint=hint, most_bytes=_MOST_KEY_BYTES)
    lines = (line.strip() for line in text.splitlines())
    first = next((line for line in lines if line and not line.startswith("#")), "")
    key = _KEY_NAME.sub("", first).strip("\"'")
    if not key or not key.isascii() or not key.isprintable() or " " in key:
        raise UnreadableInput(f"API key file {path}: its first line is no key", hint=hint)
    return key


@contextmanager
def writing_below(directory: str) -> Iterator[None]:
    """Raise UsageError, naming the directory, where the system cannot write there; no permission stays what it is."""
    try:
        yield
    except PermissionError:
        raise
    except OSError as error:
        if error.errno in _FULL:
            raise
        raise UsageError(
            f"{directory}: cannot be written to: {error.strerror or error}", hint="name another directory"
        ) from error


def _file_bytes(path: str, most_bytes: int) -> bytes:
    with Path(path).open("rb") as file:
        return file.read(most_bytes + 1)


def _stdin_bytes(most_bytes: int) -> bytes:
    import sys

    if sys.stdin is None:
        raise UnreadableInput("standard input is closed", hint="name a file instead of -")
    return sys.stdin.buffer.read(most_bytes + 1)
