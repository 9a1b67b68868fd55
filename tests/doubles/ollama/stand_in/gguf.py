"""Reads the header of a GGUF file: metadata and the list of tensors."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

_NUMBERS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_STRING, _ARRAY = 8, 9
FILE_TYPES = {
    0: "F32", 1: "F16", 2: "Q4_0", 3: "Q4_1", 7: "Q8_0", 8: "Q5_0", 9: "Q5_1", 10: "Q2_K", 11: "Q3_K_S", 12: "Q3_K_M",
    13: "Q3_K_L", 14: "Q4_K_S", 15: "Q4_K_M", 16: "Q5_K_S", 17: "Q5_K_M", 18: "Q6_K", 25: "IQ4_NL", 30: "IQ4_XS",
    32: "BF16", 38: "MXFP4_MOE",
}  # fmt: skip
TENSOR_TYPES = {
    0: "F32", 1: "F16", 2: "Q4_0", 3: "Q4_1", 6: "Q5_0", 7: "Q5_1", 8: "Q8_0", 10: "Q2_K", 11: "Q3_K", 12: "Q4_K",
    13: "Q5_K", 14: "Q6_K", 20: "IQ4_NL", 23: "IQ4_XS", 30: "BF16", 39: "MXFP4",
}  # fmt: skip


@dataclass(frozen=True)
class Header:
    """What stands before the weights."""

    values: dict[str, Any]
    tensors: tuple[tuple[str, str, tuple[int, ...]], ...]

    @property
    def architecture(self) -> str:
        """general.architecture"""
        return str(self.values["general.architecture"])

    def of(self, key: str) -> Any:
        """A value of this architecture, such as context_length."""
        return self.values.get(f"{self.architecture}.{key}")

    @property
    def parameters(self) -> int:
        """The number of weights."""
        return sum(_product(shape) for _, _, shape in self.tensors)

    @property
    def file_type(self) -> str:
        """The quantization by name."""
        return FILE_TYPES.get(self.values.get("general.file_type", 1), "unknown")


def _product(shape: tuple[int, ...]) -> int:
    total = 1
    for dimension in shape:
        total *= dimension
    return total


class _Reader:
    def __init__(self, stream: BinaryIO) -> None:
        self.stream = stream

    def number(self, code: str) -> Any:
        return struct.unpack(f"<{code}", self.stream.read(struct.calcsize(code)))[0]

    def text(self) -> str:
        return self.stream.read(self.number("Q")).decode("utf-8", errors="replace")

    def value(self, kind: int) -> Any:
        if kind == _STRING:
            return self.text()
        if kind == _ARRAY:
            inner, count = self.number("I"), self.number("Q")
            return [self.value(inner) for _ in range(count)]
        return self.number(_NUMBERS[kind])

    def tensor(self) -> tuple[str, str, tuple[int, ...]]:
        name = self.text()
        shape = tuple(self.number("Q") for _ in range(self.number("I")))
        kind, _ = self.number("I"), self.number("Q")
        return name, TENSOR_TYPES.get(kind, str(kind)), shape


def read_header(path: Path) -> Header:
    """The header of a GGUF file of version 2 or 3, little-endian; ValueError for another file."""
    with path.open("rb") as stream:
        reader = _Reader(stream)
        if stream.read(4) != b"GGUF":
            raise ValueError(f"{path} is no GGUF file")
        reader.number("I")
        tensors, pairs = reader.number("Q"), reader.number("Q")
        values = {}
        for _ in range(pairs):
            key = reader.text()
            values[key] = reader.value(reader.number("I"))
        return Header(values, tuple(reader.tensor() for _ in range(tensors)))
