"""The header of a .safetensors file: every tensor's type, shape and place, checked as the format's own reader does.

Layout: safetensors 0.8, `tensor.rs`: 8 bytes of length, JSON, data without holes. Only the header is read.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from reprlib import repr as brief
from typing import TYPE_CHECKING, NamedTuple

from llmops.models.gguf_reader import file_bytes, unreadable
from llmops.models.json_file import AGAIN, parse_json_object, read_piece
from llmops.models.json_stream import COMMA_OR_END, OPENING, PLAIN, JsonStream, listed
from llmops.models.safetensors_layout import BITS, INCOMPLETE, Described, Tiles, Written, elements_of, shape_of, shown

if TYPE_CHECKING:
    from llmops.host import Host

MAX_HEADER_BYTES = 100_000_000  # of the format itself
# The largest models have 211,000 tensors (384 experts, each matrix in three of them) of 5,000 kinds.
MAX_TENSORS = 300_000
MAX_KINDS = 16_384
MAX_UNUSUAL = 30_000  # entries in a form of their own, which take ten times as long
MAX_NAME_BYTES = 512
MAX_METADATA_PAIRS = 4_096
MAX_METADATA_BYTES = 64 * 1024

_B = rb"[ \t\r\n]*"
_COLON, _COMMA = _B + rb":" + _B, _B + rb"," + _B
_NAME = rb'"(' + PLAIN + rb'{1,512})"'
_TYPE = rb'"dtype"' + _COLON + rb'"(\w{1,16})"'
_SHAPE = rb'"shape"' + _COLON + rb"\[([0-9, \t\r\n]{0,256})\]"
_OFFSETS = rb'"data_offsets"' + _COLON + rb"\[" + _B + rb"(\d{1,19})" + _COMMA + rb"(\d{1,19})" + _B + rb"\]"


def _entries(*fields: bytes) -> re.Pattern[bytes]:
    return listed(_B + _NAME + _COLON + rb"\{" + _B + _COMMA.join(fields) + _B + rb"\}")


_ENTRIES = _entries(_TYPE, _SHAPE, _OFFSETS)
_SORTED_ENTRIES = _entries(_OFFSETS, _TYPE, _SHAPE)  # of writers that sort all names
_OBJECT = re.compile(_B + rb"\{[^{}]{0,2048}\}")  # a tensor whose fields stand in another order
_STRING = rb'"[^"\\]*(?:\\.[^"\\]*)*"'
_METADATA_PAIR = re.compile(_B + _STRING + _B + rb":" + _B + _STRING + _B + rb"([,}])", re.DOTALL)


class Kind(NamedTuple):
    """Tensors that differ in the number of their expert only, which is `*` in the name."""

    name: str
    data_type: str
    shape: tuple[int, ...]

    @property
    def elements(self) -> int:
        """Elements of one of them, as the file counts: packed ones hold several weights in each."""
        return elements_of(self.shape)

    @property
    def stored_bytes(self) -> int:
        """Bytes of one of them."""
        return self.elements * BITS[self.data_type] // 8


@dataclass
class Headers:
    """What the headers of one model's files hold together; raw, for they are many."""

    tensors: int = 0
    unusual: int = 0
    counts: Counter[Described] = field(default_factory=Counter)

    def kinds(self) -> dict[Kind, int]:
        """How many tensors there are of each kind."""
        found: dict[Kind, int] = {}
        for (name, data_type, shape), count in self.counts.items():
            kind = Kind(name.decode("utf-8", "replace"), data_type.decode(), shape_of(shape))
            found[kind] = found.get(kind, 0) + count  # one shape can be written with and without blanks
        return found

    def require_bounded(self, path: str, more: int) -> None:
        """Raise UnreadableInput where these and `more` tensors are more than any model has."""
        if self.tensors + more > MAX_TENSORS:
            raise unreadable(path, f"with the files before it has more than {MAX_TENSORS} tensors", AGAIN)
        if self.unusual > MAX_UNUSUAL:
            raise unreadable(path, f"has more than {MAX_UNUSUAL} tensors that are not described as usual", AGAIN)
        if len(self.counts) > MAX_KINDS:
            raise unreadable(path, f"with the files before it has more than {MAX_KINDS} kinds of tensors", AGAIN)


class FileTotals(NamedTuple):
    """One file: its tensors, a sum over their names by which two lists of them are compared, its size."""

    tensors: int
    names: int
    size_bytes: int


def read_safetensors(host: Host, path: str, headers: Headers) -> FileTotals:
    """Add the tensors of one file to `headers`; raises UnreadableInput for every defect, or NoPermission."""
    size = file_bytes(host, path)
    length = _header_length(host, path, size)
    stream = JsonStream(host, path, 8, length, "header")
    tiles = Tiles(path, size - 8 - length, headers.counts)
    empty = stream.require(OPENING).group(1)
    delimiter = b"}" if empty else b","
    while delimiter == b",":
        delimiter = _usual_entries(stream, tiles)
        if delimiter == b",":
            delimiter = _next_entry(stream, tiles)
            headers.unusual += 1
        headers.require_bounded(path, tiles.tensors)
    stream.require_end()
    tiles.check()
    headers.tensors += tiles.tensors
    return FileTotals(tiles.tensors, sum(tiles.names), size)


def _header_length(host: Host, path: str, size: int) -> int:
    begins = read_piece(host, path, 0, min(8, size))
    if begins[:4] == b"vers":
        raise unreadable(path, "is a Git LFS pointer, not the model itself", "fetch it with `git lfs pull`")
    length = int.from_bytes(begins, "little")
    if len(begins) < 8 or not 2 <= length <= MAX_HEADER_BYTES:
        shown = f"it begins with {begins!r}" if begins else "it is empty"
        raise unreadable(path, f"is not a safetensors file: {shown}", "name a .safetensors file")
    if 8 + length > size:
        raise unreadable(path, f"is truncated: its header needs {8 + length} bytes, the file has {size}", INCOMPLETE)
    return length


def _usual_entries(stream: JsonStream, tiles: Tiles) -> bytes:
    """All entries in the form of the usual writers that the window holds; answers what follows the last one."""
    for pattern in (_ENTRIES, _SORTED_ENTRIES):
        found = stream.run(pattern)
        if not found:
            continue
        _, names, *columns, commas = zip(*found, strict=True)
        if pattern is _SORTED_ENTRIES:
            columns = [*columns[2:], *columns[:2]]
        data_types, shapes, begins, ends = columns
        tiles.add(Written(names, data_types, shapes, [*map(int, begins)], [*map(int, ends)]))
        if not commas[-1]:
            return stream.require(COMMA_OR_END).group(1)
    return b","


def _next_entry(stream: JsonStream, tiles: Tiles) -> bytes:
    """One entry in any form: metadata, fields in another order, a name with escapes; answers what follows it."""
    name = stream.key().encode("utf-8", "surrogatepass")
    if name == b"__metadata__":
        return _pass_metadata(stream)
    if not 1 <= len(name) <= MAX_NAME_BYTES:
        raise unreadable(stream.path, f"has a tensor with a name of {len(name)} bytes", AGAIN)
    document = parse_json_object(stream.path, stream.require(_OBJECT).group().strip())
    data_type, shape, offsets = (document.get(key) for key in ("dtype", "shape", "data_offsets"))
    fitting = isinstance(data_type, str) and _are_sizes(shape) and _are_sizes(offsets)
    if not fitting or not isinstance(shape, list) or not isinstance(offsets, list) or len(offsets) != 2:
        raise unreadable(stream.path, f"tensor {shown(name)} is described as {brief(document)}", AGAIN)
    sizes = ",".join(map(str, shape)).encode()
    tiles.add(Written([name], [str(data_type).encode("utf-8", "replace")], [sizes], *([place] for place in offsets)))
    return stream.require(COMMA_OR_END).group(1)


def _are_sizes(value: object) -> bool:
    if not isinstance(value, list):
        return False
    return all(isinstance(item, int) and not isinstance(item, bool) and 0 <= item < 10**19 for item in value)


def _pass_metadata(stream: JsonStream) -> bytes:
    """Pass over `__metadata__`, texts by name; answers what follows it."""
    empty = stream.require(OPENING).group(1)
    for _ in range(MAX_METADATA_PAIRS):
        if empty or stream.require(_METADATA_PAIR, MAX_METADATA_BYTES).group(1) == b"}":
            return stream.require(COMMA_OR_END).group(1)
    raise unreadable(stream.path, f"has more than {MAX_METADATA_PAIRS} entries of metadata", AGAIN)
