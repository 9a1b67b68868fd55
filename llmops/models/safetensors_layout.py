"""Where the tensors of a .safetensors file lie, and whether that can be: types, sizes, no hole, no overlap."""

from __future__ import annotations

from reprlib import repr as brief
from typing import NamedTuple

from llmops.models.gguf_reader import unreadable
from llmops.models.json_file import AGAIN

# Bits of one element (Dtype::bitsize of tensor.rs).
BITS = {
    "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6,
    "BOOL": 8, "U8": 8, "I8": 8, "F8_E4M3": 8, "F8_E5M2": 8, "F8_E8M0": 8, "F8_E4M3FNUZ": 8, "F8_E5M2FNUZ": 8,
    "I16": 16, "U16": 16, "F16": 16, "BF16": 16,
    "I32": 32, "U32": 32, "F32": 32,
    "C64": 64, "F64": 64, "I64": 64, "U64": 64,
}  # fmt: skip
MAX_FILE_TENSORS = 262_144
MAX_DATA_BYTES = 2**60
INCOMPLETE = "the download is not complete or the file is damaged: get the file again"


class Row(NamedTuple):
    """One entry of a header as it is written, and the sign after it."""

    name: bytes
    data_type: bytes
    shape: bytes
    begin: int
    end: int
    delimiter: bytes


def elements_of(shape: tuple[int, ...]) -> int:
    """The product of all sizes; 1 for a scalar."""
    product = 1
    for size in shape:
        product *= size
    return product


class Tiles:
    """The data of one file, which its tensors must fill without a hole and without lying over each other.

    They do exactly where every place but the first and the last one is an even number of times the begin or the end of
    a tensor, and their lengths add up to the whole: no list of all places has to be kept and sorted.
    """

    def __init__(self, path: str, data_bytes: int) -> None:
        self.path = path
        self.seen: set[int] = set()
        self._data_bytes = data_bytes
        self._filled = 0
        self._last = 0
        self._odd: set[int] = set()
        self._sizes: dict[tuple[bytes, bytes], int] = {}

    def add(self, row: Row) -> None:
        """Take one tensor in; raises UnreadableInput for one that cannot be."""
        length = self._sizes.get((row.data_type, row.shape))
        if length is None:
            length = self._sizes[row.data_type, row.shape] = _stored_bytes(self.path, row)
        if row.end - row.begin != length or row.end > self._data_bytes:
            raise unreadable(
                self.path,
                f"tensor {shown(row.name)} of {length} bytes is said to lie at {row.begin} to {row.end} of "
                f"{self._data_bytes} bytes of data",
                INCOMPLETE,
            )
        self._remember(row.name)
        self._filled += length
        if length and row.begin == self._last:
            self._last = row.end
        elif length:
            self._odd ^= {self._last}
            self._odd ^= {row.begin}
            self._last = row.end

    def _remember(self, name: bytes) -> None:
        key = hash(name)
        if key in self.seen:
            raise unreadable(self.path, f"tensor {shown(name)} is there twice", AGAIN)
        self.seen.add(key)
        if len(self.seen) > MAX_FILE_TENSORS:
            raise unreadable(self.path, f"has more than {MAX_FILE_TENSORS} tensors", AGAIN)

    def check(self) -> None:
        """Raise UnreadableInput for holes, for tensors over each other, and for data that are no tensor's."""
        self._odd ^= {self._last}
        self._odd ^= {self._data_bytes}
        if self._odd or self._filled != self._data_bytes:
            raise unreadable(
                self.path,
                f"its tensors of {self._filled} bytes do not fill its {self._data_bytes} bytes of data one after the "
                "other",
                INCOMPLETE,
            )


def _stored_bytes(path: str, row: Row) -> int:
    bits = BITS.get(row.data_type.decode("utf-8", "replace"))
    if bits is None:
        raise unreadable(
            path,
            f"tensor {shown(row.name)} has the type {shown(row.data_type)}, which is not known",
            "the model is newer than this llmops: use another form of it",
        )
    shape = shape_of(row.shape)
    elements = elements_of(shape) if len(shape) <= 8 and min(shape, default=0) >= 0 else -1
    if not 0 <= elements <= MAX_DATA_BYTES or elements * bits % 8:
        raise unreadable(path, f"tensor {shown(row.name)} has the impossible shape {brief(shape)}", AGAIN)
    return elements * bits // 8


def shape_of(text: bytes) -> tuple[int, ...]:
    """The sizes of a shape as it is written; -1 for what is no size."""
    parts = text.split(b",") if text.strip() else []
    return tuple(int(part) if part.strip().isdigit() else -1 for part in parts)


def shown(name: bytes) -> str:
    """A name from a file as it may stand in a message."""
    return brief(name.decode("utf-8", "replace"))
