"""The GGUF container, versions 2 and 3, both byte orders: metadata and the table of tensors of one file.

Layout: ggml/src/gguf.cpp of llama.cpp b11434; what that loader refuses is refused here too.
"""

from __future__ import annotations

from reprlib import repr as brief
from typing import TYPE_CHECKING, NamedTuple

from llmops.core.errors import UnreadableInput
from llmops.models.ggml_types import STORAGE_TYPES
from llmops.models.gguf_reader import Allowance, ByteReader, unreadable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from llmops.host import Host

MAGIC = b"GGUF"
LFS_POINTER = b"vers"  # "version https://git-lfs...": the text that stands in for a file not yet fetched
STRING, ARRAY = 8, 9
NUMBER_CODES = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
NUMBER_BYTES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
DEFAULT_ALIGNMENT = 32

# Further limits of what is kept of one file, for the same reason as those of `Allowance`.
MAX_KEY_BYTES = 1_024
MAX_STRING_BYTES = 4_096
MAX_ARRAY_ITEMS = 1_024
MAX_KEPT_BYTES = 4 * 1024 * 1024
MAX_TENSOR_NAME_BYTES = 63
MAX_DIMENSIONS = 4
MAX_DIMENSION = 2**31 - 1


class Skipped(NamedTuple):
    """A value that was passed over: `items` of an array, or bytes of a long string."""

    items: int


Scalar = int | float | bool | str
Value = Scalar | tuple[int | float | bool, ...] | Skipped


class Tensor(NamedTuple):
    """One row of the tensor table; `offset` counts from the start of the data section."""

    name: str
    dimensions: tuple[int, ...]
    storage_type: str
    elements: int
    stored_bytes: int
    offset: int


class GgufFile(NamedTuple):
    """What one file of a model says of itself."""

    path: str
    version: int
    size_bytes: int
    metadata: Mapping[str, Value]
    tensors: tuple[Tensor, ...]


def read_gguf_file(host: Host, path: str, allowance: Allowance | None = None) -> GgufFile:
    """Read one file's header and check its data against the file's size; UnreadableInput for every defect.

    The header is taken off the allowance, which the files of one model share.
    """
    reader = ByteReader(host, path, allowance or Allowance())
    version = _read_version(reader)
    tensor_count, pair_count = reader.count(), reader.count()
    _take_counts(reader, tensor_count, pair_count)
    metadata = _read_metadata(reader, pair_count)
    alignment = _alignment(path, metadata)
    tensors = tuple(_read_tensor(reader) for _ in range(tensor_count))
    data_start = _padded(reader.position, alignment)
    _check_data(reader, tensors, data_start, alignment)
    reader.allowance.header_bytes -= reader.position
    return GgufFile(path, version, reader.size_bytes, metadata, tensors)


def _take_counts(reader: ByteReader, tensor_count: int, pair_count: int) -> None:
    allowance = reader.allowance
    allowance.tensors -= tensor_count
    allowance.pairs -= pair_count
    if allowance.tensors < 0 or allowance.pairs < 0:
        raise unreadable(
            reader.path, f"claims {tensor_count} tensors and {pair_count} metadata entries, more than any model"
        )


def _read_version(reader: ByteReader) -> int:
    magic = reader.take(min(4, reader.size_bytes))
    if magic == LFS_POINTER:
        raise unreadable(reader.path, "is a Git LFS pointer, not the model itself", "fetch it with `git lfs pull`")
    if magic != MAGIC:
        begins = f"it begins with {magic!r}" if magic else "it is empty"
        raise unreadable(reader.path, f"is not a GGUF file: {begins}", "name a .gguf file")
    version = int(reader.number("I"))
    if version & 0xFFFF == 0:  # a small number seen with its bytes reversed
        reader.use_big_endian()
        version = int.from_bytes(version.to_bytes(4, "little"), "big")
    if version not in (2, 3):
        raise unreadable(
            reader.path, f"is GGUF version {version}; versions 2 and 3 are known", "convert the model again"
        )
    return version


def _read_metadata(reader: ByteReader, pair_count: int) -> dict[str, Value]:
    metadata: dict[str, Value] = {}
    kept_bytes = 0
    for _ in range(pair_count):
        key = _read_name(reader, MAX_KEY_BYTES, "a metadata key")
        if not key or key in metadata:
            raise unreadable(reader.path, f"metadata key {key!r} is empty or there twice")
        value = _read_value(reader, key)
        metadata[key] = value
        kept_bytes += len(key) + (8 * len(value) if isinstance(value, tuple) else 8)
        kept_bytes += len(value) if isinstance(value, str) else 0
        if kept_bytes > MAX_KEPT_BYTES:
            raise unreadable(reader.path, "its metadata are larger than any model's")
    return metadata


def _read_name(reader: ByteReader, limit: int, what: str) -> str:
    length = reader.count()
    if length > limit:
        raise unreadable(reader.path, f"{what} at byte {reader.position - 8} claims to be {length} bytes long")
    return reader.take(length).decode("utf-8", "replace")


def _read_value(reader: ByteReader, key: str) -> Value:
    kind = int(reader.number("I"))
    if kind == ARRAY:
        return _read_array(reader, key)
    if kind == STRING:
        length = reader.count()
        if length > MAX_STRING_BYTES:
            reader.skip(length)
            return Skipped(length)
        return reader.take(length).decode("utf-8", "replace")
    if kind not in NUMBER_CODES:
        raise unreadable(reader.path, f"metadata key {key!r} has the unknown type {kind}")
    return reader.number(NUMBER_CODES[kind])


def _read_array(reader: ByteReader, key: str) -> Value:
    kind, count = int(reader.number("I")), reader.count()
    if kind == STRING:
        reader.skip_strings(count)
        return Skipped(count)
    if kind not in NUMBER_CODES:  # arrays of arrays too: no engine reads them
        raise unreadable(reader.path, f"metadata key {key!r} is an array of the unknown type {kind}")
    if count > MAX_ARRAY_ITEMS:
        reader.skip(count * NUMBER_BYTES[kind])
        return Skipped(count)
    return reader.numbers(NUMBER_CODES[kind], count)


def _alignment(path: str, metadata: Mapping[str, Value]) -> int:
    alignment = metadata.get("general.alignment", DEFAULT_ALIGNMENT)
    if not isinstance(alignment, int) or alignment <= 0 or alignment & (alignment - 1):
        raise unreadable(path, f"general.alignment is {brief(alignment)}, not a power of two")
    return alignment


def _read_tensor(reader: ByteReader) -> Tensor:
    name = _read_name(reader, MAX_TENSOR_NAME_BYTES, "a tensor name")
    dimension_count = int(reader.number("I"))
    if dimension_count > MAX_DIMENSIONS:
        raise unreadable(reader.path, f"tensor {name!r} claims {dimension_count} dimensions")
    dimensions = tuple(int(size) for size in reader.numbers("Q", dimension_count))
    number = int(reader.number("I"))
    if number not in STORAGE_TYPES:
        raise unreadable(
            reader.path,
            f"tensor {name!r} is stored as type {number}, which is not known",
            "the model is newer than this llmops, or its type was removed: use another quantisation",
        )
    storage_type, block_elements, block_bytes = STORAGE_TYPES[number]
    row = dimensions[0] if dimensions else 1
    elements = 1
    for size in dimensions:
        elements *= size
    if row % block_elements or elements >= 2**63 or any(size > MAX_DIMENSION for size in dimensions):
        raise unreadable(reader.path, f"tensor {name!r} of type {storage_type} has the impossible shape {dimensions}")
    stored_bytes = elements // block_elements * block_bytes
    return Tensor(name, dimensions, storage_type, elements, stored_bytes, reader.count())


def _padded(position: int, alignment: int) -> int:
    return -(-position // alignment) * alignment


def _check_data(reader: ByteReader, tensors: tuple[Tensor, ...], data_start: int, alignment: int) -> None:
    """Tensors lie one after the other, and all of them inside the file."""
    names: set[str] = set()
    expected = end = 0
    for tensor in tensors:
        if tensor.name in names:
            raise unreadable(reader.path, f"tensor {tensor.name!r} is there twice")
        names.add(tensor.name)
        if tensor.offset != expected:
            raise unreadable(
                reader.path,
                f"tensor {tensor.name!r} is said to begin at byte {tensor.offset} of the data, not {expected}",
            )
        end = tensor.offset + tensor.stored_bytes
        expected = _padded(end, alignment)
    if tensors and data_start + end > reader.size_bytes:
        raise truncated(reader.path, data_start + end, reader.size_bytes)


def truncated(path: str, expected_bytes: int, real_bytes: int) -> UnreadableInput:
    """The file ends before its data do."""
    return unreadable(
        path,
        f"is truncated: its header describes {expected_bytes} bytes, the file has {real_bytes}",
        "the download is not complete: get the file again",
    )
