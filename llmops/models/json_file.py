"""Small JSON files of strangers, read whole under limits: size, depth, doubled names, bytes that are no text."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING

from llmops.core.errors import NoPermission
from llmops.models.gguf_reader import file_bytes, unreadable

if TYPE_CHECKING:
    from llmops.host import Host

# The largest real configurations name every expert of a quantised model: 3 MiB in 67,000 values (MiniMax M3 in NVFP4).
# Text takes its own size in memory, a value of a few bytes up to 43 times that, so both are bounded.
MAX_BYTES = 4 * 1024 * 1024
MAX_VALUES = 131_072
MAX_DEPTH = 32
AGAIN = "the file is damaged: download it again"


class _TooMuch(ValueError):
    """JSON that Python would read and that no honest file holds; the text says what."""


def read_json_object(host: Host, path: str, most_bytes: int = MAX_BYTES) -> dict[str, object]:
    """The object in a JSON file; NaN and Infinity are numbers in it, as Python's own writer puts them there.

    Raises UnreadableInput for a file that is absent, too long, not UTF-8, not JSON, too deep, no object, or that names
    something twice; NoPermission where it may not be read.
    """
    size = file_bytes(host, path)
    if size > most_bytes:
        raise unreadable(path, f"has {size} bytes; such a file has at most {most_bytes}", AGAIN)
    return parse_json_object(path, read_piece(host, path, 0, size))


def read_piece(host: Host, path: str, offset: int, length: int) -> bytes:
    """Exactly `length` bytes of a file; raises UnreadableInput or NoPermission."""
    try:
        content = host.read_bytes(path, offset, length)
    except PermissionError as problem:
        raise NoPermission(
            f"{path!r}: may not be read by this user", hint="run as a user who may read the model"
        ) from problem
    except OSError as problem:
        raise unreadable(
            path, f"cannot be read: {problem.strerror or problem}", "check the disk and the path"
        ) from problem
    if len(content) < length:
        raise unreadable(
            path,
            f"became shorter while it was read: {offset + len(content)} of {offset + length} bytes",
            "wait until the download has ended and try again",
        )
    return content


def parse_json_object(path: str, content: bytes) -> dict[str, object]:
    """The object in a text that was read from `path`; raises UnreadableInput."""
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as problem:
        raise unreadable(path, f"is not a text in UTF-8: byte {problem.start} cannot be", AGAIN) from None
    values = sum(content.count(mark) for mark in (b",", b"[", b"{"))
    if values > MAX_VALUES:
        raise unreadable(path, f"holds {values} values; such a file has at most {MAX_VALUES}", AGAIN)
    try:
        document = json.loads(text, object_pairs_hook=_unique)
    except _TooMuch as problem:
        raise unreadable(path, str(problem), AGAIN) from None
    except json.JSONDecodeError as problem:
        raise unreadable(path, f"is not JSON: {problem.msg} at byte {problem.pos}", AGAIN) from None
    except (ValueError, RecursionError):  # numbers of thousands of digits, thousands of brackets
        raise unreadable(path, "is not JSON that any program would write", AGAIN) from None
    if not isinstance(document, dict):
        raise unreadable(path, "is not a JSON object", AGAIN)
    _require_shallow(path, document)
    return document


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        doubled = next(name for name in found if names.count(name) > 1)
        raise _TooMuch(f"names {doubled[:64]!r} twice")
    return found


def _require_shallow(path: str, document: Mapping[str, object]) -> None:
    level: list[object] = [document]
    for _ in range(MAX_DEPTH):
        level = [inner for outer in level for inner in _items(outer) if isinstance(inner, (dict, list))]
        if not level:
            return
    raise unreadable(path, f"has more than {MAX_DEPTH} levels of brackets", AGAIN)


def _items(container: object) -> list[object]:
    if isinstance(container, dict):
        return list(container.values())
    return container if isinstance(container, list) else []
