"""A long JSON text of a stranger, taken piece by piece: only one window of it is in memory."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from llmops.core.errors import UnreadableInput
from llmops.models.gguf_reader import unreadable
from llmops.models.json_file import AGAIN, parse_json_object, read_piece

if TYPE_CHECKING:
    from llmops.host import Host

WINDOW_BYTES = 256 * 1024
PIECE_BYTES = 4_096  # the most that one name with its value takes
PLAIN = rb"[ !#-\[\]-\xff]"  # what stands for itself in a string; so written it is compared fastest
OPENING = re.compile(rb"[ \t\r\n]*\{[ \t\r\n]*(\}?)")
COMMA_OR_END = re.compile(rb"[ \t\r\n]*([,}])")
KEY = re.compile(rb'[ \t\r\n]*"((?:[^"\\\x00-\x1f]|\\[^\x00-\x1f]){0,1024})"[ \t\r\n]*:')
BLANKS = re.compile(rb"[ \t\r\n]*")


def listed(entry: bytes) -> re.Pattern[bytes]:
    """A pattern for `JsonStream.run`: an entry of a list with its comma, its groups between its text and the comma.

    Of the last entry the comma is empty. Where no entry stands the pattern passes over all that is left, so that what
    it finds lies side by side.
    """
    return re.compile(rb"(" + entry + rb"[ \t\r\n]*(?:(,)|(?=\})))|(?s:.+)")


class JsonStream:
    """`length` bytes of a file from `start`; each `take` matches one pattern where the last one ended."""

    def __init__(self, host: Host, path: str, start: int, length: int, what: str) -> None:
        self.path = path
        self.what = what
        self._host = host
        self._next = start
        self._end = start + length
        self._data = b""
        self._position = 0

    def take(self, pattern: re.Pattern[bytes], piece_bytes: int = PIECE_BYTES) -> re.Match[bytes] | None:
        """What the pattern matches here within `piece_bytes`, passed over; None where it does not match."""
        if len(self._data) - self._position < piece_bytes and self._next < self._end:
            self._load()
        found = pattern.match(self._data, self._position)
        if found is not None:
            self._position = found.end()
        return found

    def run(self, pattern: re.Pattern[bytes]) -> list[tuple[bytes, ...]]:
        """The groups of all entries that stand here one after the other and wholly in the window, passed over.

        `pattern` is one that `listed` made: thousands of entries are found without a step of Python for each.
        """
        if len(self._data) - self._position < PIECE_BYTES and self._next < self._end:
            self._load()
        found = pattern.findall(self._data, self._position)
        if found and not found[-1][0]:
            found.pop()
        self._position += sum(len(entry[0]) for entry in found)
        return found

    def require(self, pattern: re.Pattern[bytes], piece_bytes: int = PIECE_BYTES) -> re.Match[bytes]:
        """The same, where nothing else can stand; raises UnreadableInput."""
        found = self.take(pattern, piece_bytes)
        if found is None:
            raise self.broken()
        return found

    def broken(self) -> UnreadableInput:
        """The complaint about what stands here."""
        here = self._data[self._position : self._position + 32]
        at = self._next - len(self._data) + self._position
        return unreadable(self.path, f"its {self.what} is broken at byte {at}: {here!r}", AGAIN)

    def key(self) -> str:
        """The name of the next member of an object."""
        return self.decoded(self.require(KEY).group(1))

    def decoded(self, name: bytes) -> str:
        """The text of a string without its quotes."""
        text = parse_json_object(self.path, b'{"name":"' + name + b'"}')["name"]
        return str(text)

    def require_end(self) -> None:
        """Raise UnreadableInput where anything but blanks is left."""
        while True:
            self.take(BLANKS, 1)
            if self._position < len(self._data):
                raise self.broken()
            if self._next >= self._end:
                return

    def _load(self) -> None:
        wanted = min(WINDOW_BYTES, self._end - self._next)
        self._data = self._data[self._position :] + read_piece(self._host, self.path, self._next, wanted)
        self._position = 0
        self._next += wanted
