"""The header of a .safetensors file: every tensor's type, shape and place, checked as the format's own reader does.

Layout: safetensors 0.8, `tensor.rs`: 8 bytes of length, JSON, data without holes. Only the header is read.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from reprlib import repr as brief
from typing import TYPE_CHECKING, NamedTuple

from llmops.models.gguf_reader import file_bytes, unreadable
from llmops.models.json_file import AGAIN, parse_json_object, read_piece
from llmops.models.json_stream import COMMA_OR_END, OPENING, JsonStream
from llmops.models.safetensors_layout import BITS, INCOMPLETE, Row, Tiles, elements_of, shape_of, shown

if TYPE_CHECKING:
    from llmops.host import Host

MAX_HEADER_BYTES = 100_000_000  # of the format itself
# The largest models have 211,000 tensors (384 experts, each matrix in three of them) of 5,000 kinds.
MAX_TENSORS = 400_000
MAX_KINDS = 16_384
MAX_METADATA_PAIRS = 4_096
MAX_METADATA_BYTES = 64 * 1024

_B = rb"[ \t\r\n]*"
_NAME = rb'"([^"\\\x00-\x1f]{1,512})"'
_COLON, _COMMA = _B + rb":" + _B, _B + rb"," + _B
_DATA_TYPE = rb'"dtype"' + _COLON + rb'"(\w{1,16})"'
_SHAPE = rb'"shape"' + _COLON + rb"\[([0-9, \t\r\n]{0,256})\]"
_OFFSETS = rb'"data_offsets"' + _COLON + rb"\[" + _B + rb"(\d{1,19})" + _COMMA + rb"(\d{1,19})" + _B + rb"\]"
_TENSOR = rb"\{" + _B + _DATA_TYPE + _COMMA + _SHAPE + _COMMA + _OFFSETS + _B + rb"\}"
_ENTRY = re.compile(_B + _NAME + _COLON + _TENSOR + _B + rb"([,}])")
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
    counts: dict[tuple[bytes, bytes, bytes], int] = field(default_factory=dict)

    def kinds(self) -> dict[Kind, int]:
        """How many tensors there are of each kind."""
        found: dict[Kind, int] = {}
        for (name, data_type, shape), count in self.counts.items():
            kind = Kind(name.decode("utf-8", "replace"), data_type.decode(), shape_of(shape))
            found[kind] = found.get(kind, 0) + count  # one shape can be written with and without blanks
        return found


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
    tiles = Tiles(path, size - 8 - length)
    empty = stream.require(OPENING).group(1)
    delimiter = b"}" if empty else b","
    while delimiter == b",":
        row = _next_row(stream)
        delimiter = row.delimiter
        if row.name:
            tiles.add(row)
            _count(path, headers, row)
    stream.require_end()
    tiles.check()
    return FileTotals(len(tiles.seen), sum(tiles.seen), size)


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


def _next_row(stream: JsonStream) -> Row:
    found = stream.take(_ENTRY)
    if found is not None:
        name, data_type, shape, begin, end, delimiter = found.groups()
        return Row(name, data_type, shape, int(begin), int(end), delimiter)
    name = stream.key().encode("utf-8", "surrogatepass")
    if name == b"__metadata__":
        return Row(b"", b"", b"", 0, 0, _pass_metadata(stream))
    if not 1 <= len(name) <= 512:
        raise unreadable(stream.path, f"has a tensor with a name of {len(name)} bytes", AGAIN)
    document = parse_json_object(stream.path, stream.require(_OBJECT).group().strip())
    return _row_of(stream, name, document)


def _row_of(stream: JsonStream, name: bytes, document: dict[str, object]) -> Row:
    data_type, shape, offsets = (document.get(key) for key in ("dtype", "shape", "data_offsets"))
    fitting = isinstance(data_type, str) and _are_sizes(shape) and _are_sizes(offsets)
    if not fitting or not isinstance(shape, list) or not isinstance(offsets, list) or len(offsets) != 2:
        raise unreadable(stream.path, f"tensor {shown(name)} is described as {brief(document)}", AGAIN)
    begin, end = offsets
    delimiter = stream.require(COMMA_OR_END).group(1)
    sizes = ",".join(map(str, shape)).encode()
    return Row(name, str(data_type).encode("utf-8", "replace"), sizes, begin, end, delimiter)


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


def _count(path: str, headers: Headers, row: Row) -> None:
    headers.tensors += 1
    if headers.tensors > MAX_TENSORS:
        raise unreadable(path, f"with the files before it has more than {MAX_TENSORS} tensors", AGAIN)
    name = row.name
    head, found, tail = name.partition(b".experts.")
    if found:
        number, dot, rest = tail.partition(b".")
        if dot and number.isdigit():
            name = head + b".experts.*." + rest
    key = (name, row.data_type, row.shape)
    headers.counts[key] = headers.counts.get(key, 0) + 1
    if len(headers.counts) > MAX_KINDS:
        raise unreadable(path, f"with the files before it has more than {MAX_KINDS} kinds of tensors", AGAIN)
