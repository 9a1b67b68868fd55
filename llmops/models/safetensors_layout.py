"""Where the tensors of a .safetensors file lie, and whether that can be: types, sizes, no hole, no overlap."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from operator import ne, sub
from reprlib import repr as brief
from typing import NamedTuple

from llmops.core.errors import UnreadableInput
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
_EXPERT = re.compile(rb"\.experts\.\d+(?=\.|$)")
_ANY_EXPERT = b".experts.*"
MAX_DATA_BYTES = 2**60
INCOMPLETE = "the download is not complete or the file is damaged: get the file again"


# Name, type and shape of a tensor as they are written.
Described = tuple[bytes, bytes, bytes]


class Written(NamedTuple):
    """Tensors as a header describes them, a column for each field: there can be 100,000."""

    names: Sequence[bytes]
    data_types: Sequence[bytes]
    shapes: Sequence[bytes]
    begins: Sequence[int]
    ends: Sequence[int]


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
    Tensors are counted by name, type and shape in `counts`, those of experts without the number of the expert.
    """

    def __init__(self, path: str, data_bytes: int, counts: Counter[Described]) -> None:
        self.path = path
        self.tensors = 0
        self.names: set[int] = set()
        self._counts = counts
        self._data_bytes = data_bytes
        self._filled = 0
        self._last = 0
        self._odd: set[int] = set()
        self._lengths: dict[tuple[bytes, bytes], int] = {}

    def add(self, written: Written) -> None:
        """Take tensors in; raises UnreadableInput for one that cannot be."""
        names, data_types, shapes, begins, ends = written
        lengths = self._lengths_of(written)
        if any(map(ne, map(sub, ends, begins), lengths)) or max(ends) > self._data_bytes:
            raise self._misplaced(written, lengths)
        self.tensors += len(names)
        self.names.update(map(hash, names))
        self._filled += sum(lengths)
        self._join(begins, ends)
        kinds = [_EXPERT.sub(_ANY_EXPERT, name, count=1) for name in names]
        self._counts.update(zip(kinds, data_types, shapes, strict=True))

    def _lengths_of(self, written: Written) -> list[int]:
        """Bytes of every tensor; each pair of a type and a shape is looked into once."""
        forms = list(zip(written.data_types, written.shapes, strict=True))
        for form in dict.fromkeys(forms):
            if form not in self._lengths:
                self._lengths[form] = _stored_bytes(self.path, written.names[forms.index(form)], *form)
        return [*map(self._lengths.__getitem__, forms)]

    def _join(self, begins: Sequence[int], ends: Sequence[int]) -> None:
        """Count the places where one tensor ends and the next begins: of the same place that is two, which is even."""
        places = [self._last, *ends]
        self._last = places.pop()
        if places != [*begins]:
            for place in (*places, *begins):
                self._odd ^= {place}

    def _misplaced(self, written: Written, lengths: list[int]) -> UnreadableInput:
        name, length, begin, end = next(
            (name, length, begin, end)
            for name, length, begin, end in zip(written.names, lengths, written.begins, written.ends, strict=True)
            if end - begin != length or end > self._data_bytes
        )
        what = f"tensor {shown(name)} of {length} bytes is said to lie at {begin} to {end} of {self._data_bytes} bytes"
        return unreadable(self.path, f"{what} of data", INCOMPLETE)

    def check(self) -> None:
        """Raise UnreadableInput for holes, for tensors over each other or there twice, for data of no tensor."""
        if len(self.names) != self.tensors:
            raise unreadable(self.path, f"{self.tensors - len(self.names)} of its tensors are there twice", AGAIN)
        self._odd ^= {self._last}
        self._odd ^= {self._data_bytes}
        if self._odd or self._filled != self._data_bytes:
            what = (
                f"its tensors of {self._filled} bytes do not fill its {self._data_bytes} bytes of data without a hole"
            )
            raise unreadable(self.path, what, INCOMPLETE)


def _stored_bytes(path: str, name: bytes, data_type: bytes, sizes: bytes) -> int:
    bits = BITS.get(data_type.decode("utf-8", "replace"))
    if bits is None:
        raise unreadable(
            path,
            f"tensor {shown(name)} has the type {shown(data_type)}, which is not known",
            "the model is newer than this llmops: use another form of it",
        )
    shape = shape_of(sizes)
    elements = elements_of(shape) if len(shape) <= 8 and min(shape, default=0) >= 0 else -1
    if not 0 <= elements <= MAX_DATA_BYTES or elements * bits % 8:
        raise unreadable(path, f"tensor {shown(name)} has the impossible shape {brief(shape)}", AGAIN)
    return elements * bits // 8


def shape_of(text: bytes) -> tuple[int, ...]:
    """The sizes of a shape as it is written; -1 for what is no size."""
    parts = text.split(b",") if text.strip() else []
    return tuple(int(part) if part.strip().isdigit() else -1 for part in parts)


def shown(name: bytes) -> str:
    """A name from a file as it may stand in a message."""
    return brief(name.decode("utf-8", "replace"))
