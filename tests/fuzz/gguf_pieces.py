"""A GGUF header taken apart into its fields, so that one field at a time can be changed. Knows nothing of llmops."""

from __future__ import annotations

import struct
from typing import NamedTuple

_WIDTHS = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
_STRING, _ARRAY = 8, 9


class Piece(NamedTuple):
    """Consecutive bytes: a `number` (counts, lengths, types, sizes, offsets, values), a `text`, or the `rest`."""

    kind: str
    content: bytes


class _Walk:
    def __init__(self, content: bytes) -> None:
        self.content = content
        self.position = 0
        self.order = ">" if content[7] else "<"
        self.found: list[Piece] = []

    def number(self, width: int) -> int:
        chunk = self.content[self.position : self.position + width]
        self.position += width
        self.found.append(Piece("number", chunk))
        return int.from_bytes(chunk, "big" if self.order == ">" else "little")

    def text(self) -> None:
        length = self.number(8)
        self.found.append(Piece("text", self.content[self.position : self.position + length]))
        self.position += length

    def rest(self, width: int) -> None:
        self.found.append(Piece("rest", self.content[self.position : self.position + width]))
        self.position += width

    def value(self) -> None:
        kind = self.number(4)
        if kind == _STRING:
            self.text()
        elif kind != _ARRAY:
            self.number(_WIDTHS[kind])
        else:
            self.array(self.number(4), self.number(8))

    def array(self, kind: int, count: int) -> None:
        if kind != _STRING:
            self.rest(_WIDTHS[kind] * count)
            return
        for number in range(count):
            if number < 3:
                self.text()
            else:
                (length,) = struct.unpack_from(self.order + "Q", self.content, self.position)
                self.rest(8 + length)


def pieces(header: bytes) -> tuple[Piece, ...]:
    """The fields of a whole header in order; together they are the header."""
    walk = _Walk(header)
    walk.rest(4)
    walk.number(4)
    tensors, pairs = walk.number(8), walk.number(8)
    for _ in range(pairs):
        walk.text()
        walk.value()
    for _ in range(tensors):
        walk.text()
        for _ in range(walk.number(4)):
            walk.number(8)
        walk.number(4)
        walk.number(8)
    walk.rest(len(header) - walk.position)
    return tuple(walk.found)
