"""Makes GGUF files for tests: any metadata, versions 2 and 3, both byte orders, split, tensor data left as holes.

Imports nothing from llmops: it writes the format from its own knowledge, so that the reader is checked against
a second opinion.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

U8, I8, U16, I16, U32, I32, F32, BOOL, STRING, ARRAY, U64, I64, F64 = range(13)
_CODES = {U8: "B", I8: "b", U16: "H", I16: "h", U32: "I", I32: "i", F32: "f", BOOL: "?", U64: "Q", I64: "q", F64: "d"}

# ggml type number, elements of one block, bytes of one block
F32_TENSOR, F16_TENSOR, Q4_0, Q8_0, Q4_K, Q5_K, Q6_K, BF16, MXFP4 = 0, 1, 2, 8, 12, 13, 14, 30, 39
_BLOCKS = {0: (1, 4), 1: (1, 2), 2: (32, 18), 8: (32, 34), 12: (256, 144), 13: (256, 176), 14: (256, 210)}
_BLOCKS |= {30: (1, 2), 39: (32, 17)}


@dataclass(frozen=True)
class Typed:
    """A number written as one given GGUF type."""

    kind: int
    value: int | float | bool


@dataclass(frozen=True)
class Array:
    """An array of one given GGUF type."""

    kind: int
    values: Sequence[object]


@dataclass(frozen=True)
class Strings:
    """`count` strings, given as text or made as t0, t1, ... (quick for very long lists)."""

    count: int
    prefix: str = "t"


@dataclass(frozen=True)
class Raw:
    """A value of one given type, its bytes as they are: for damaged files."""

    kind: int
    content: bytes


@dataclass(frozen=True)
class Tensor:
    """One tensor: name, dimensions (fastest first), ggml type number."""

    name: str
    dimensions: tuple[int, ...]
    storage: int = F16_TENSOR

    @property
    def elements(self) -> int:
        count = 1
        for size in self.dimensions:
            count *= size
        return count

    @property
    def stored_bytes(self) -> int:
        block_elements, block_bytes = _BLOCKS[self.storage]
        return self.elements // block_elements * block_bytes


def header(
    metadata: Mapping[str, object],
    tensors: Sequence[Tensor] = (),
    *,
    version: int = 3,
    big_endian: bool = False,
    alignment: int = 32,
) -> bytes:
    """Everything before the tensor data, padded. `alignment` is not written: put general.alignment in the metadata."""
    order = ">" if big_endian else "<"
    out = bytearray(b"GGUF" + struct.pack(order + "IQQ", version, len(tensors), len(metadata)))
    for key, value in metadata.items():
        out += _string(order, key) + _value(order, value)
    offset = 0
    for tensor in tensors:
        out += _string(order, tensor.name) + struct.pack(order + "I", len(tensor.dimensions))
        out += struct.pack(f"{order}{len(tensor.dimensions)}Q", *tensor.dimensions)
        out += struct.pack(order + "IQ", tensor.storage, offset)
        offset += _padded(tensor.stored_bytes, alignment)
    return bytes(out).ljust(_padded(len(out), alignment), b"\0")


def data_bytes(tensors: Sequence[Tensor], alignment: int = 32) -> int:
    """Size of the data section, every tensor padded."""
    return sum(_padded(tensor.stored_bytes, alignment) for tensor in tensors)


def write(
    path: Path,
    metadata: Mapping[str, object],
    tensors: Sequence[Tensor] = (),
    *,
    version: int = 3,
    big_endian: bool = False,
    alignment: int = 32,
) -> Path:
    """Write a file whose tensor data are one hole: it has its full size and takes almost no disk."""
    head = header(metadata, tensors, version=version, big_endian=big_endian, alignment=alignment)
    with path.open("wb") as file:
        file.write(head)
        file.truncate(len(head) + data_bytes(tensors, alignment))
    return path


def write_split(
    directory: Path, stem: str, metadata: Mapping[str, object], tensors: Sequence[Tensor], parts: int
) -> tuple[Path, ...]:
    """Write a model as parts named as gguf-split names them; the first part has all metadata."""
    paths = []
    for number in range(parts):
        own = {
            "split.no": Typed(U16, number),
            "split.count": Typed(U16, parts),
            "split.tensors.count": Typed(I32, len(tensors)),
        }
        path = directory / f"{stem}-{number + 1:05d}-of-{parts:05d}.gguf"
        paths.append(write(path, {**metadata, **own} if number == 0 else own, tensors[number::parts]))
    return tuple(paths)


def model_metadata(
    architecture: str = "llama",
    *,
    layers: int = 2,
    heads: int = 4,
    kv_heads: object = 2,
    embedding: int = 256,
    feed_forward: int = 512,
    context: int = 4096,
    vocabulary: int = 64,
    **more: object,
) -> dict[str, object]:
    """Metadata of a small whole model; `more` are keys of the architecture, `__` standing for the dot."""
    own: dict[str, object] = {
        "block_count": layers,
        "context_length": context,
        "embedding_length": embedding,
        "feed_forward_length": feed_forward,
        "attention.head_count": heads,
        "attention.head_count_kv": kv_heads,
        **{key.replace("__", "."): value for key, value in more.items()},
    }
    return {
        "general.architecture": architecture,
        "general.name": "made for a test",
        "general.file_type": 1,
        **{f"{architecture}.{key}": value for key, value in own.items()},
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.tokens": Strings(vocabulary),
        "tokenizer.ggml.scores": Array(F32, [0.0] * vocabulary),
        "tokenizer.ggml.token_type": Array(I32, [1] * vocabulary),
    }


def model_tensors(
    *,
    layers: int = 2,
    embedding: int = 256,
    kv_width: int = 128,
    feed_forward: int = 512,
    vocabulary: int = 64,
    storage: int = F16_TENSOR,
    tied: bool = False,
    experts: int = 0,
) -> list[Tensor]:
    """Tensors of a small whole model, dense or with stacked experts."""
    tensors = [Tensor("token_embd.weight", (embedding, vocabulary), storage)]
    for layer in range(layers):
        at = f"blk.{layer}."
        tensors += [
            Tensor(at + "attn_norm.weight", (embedding,), F32_TENSOR),
            Tensor(at + "attn_q.weight", (embedding, embedding), storage),
            Tensor(at + "attn_k.weight", (embedding, kv_width), storage),
            Tensor(at + "attn_v.weight", (embedding, kv_width), storage),
            Tensor(at + "attn_output.weight", (embedding, embedding), storage),
            Tensor(at + "ffn_norm.weight", (embedding,), F32_TENSOR),
        ]
        stack = (experts,) if experts else ()
        suffix = "_exps.weight" if experts else ".weight"
        if experts:
            tensors.append(Tensor(at + "ffn_gate_inp.weight", (embedding, experts), F32_TENSOR))
        tensors += [
            Tensor(at + "ffn_gate" + suffix, (embedding, feed_forward, *stack), storage),
            Tensor(at + "ffn_up" + suffix, (embedding, feed_forward, *stack), storage),
            Tensor(at + "ffn_down" + suffix, (feed_forward, embedding, *stack), storage),
        ]
    tensors.append(Tensor("output_norm.weight", (embedding,), F32_TENSOR))
    if not tied:
        tensors.append(Tensor("output.weight", (embedding, vocabulary), storage))
    return tensors


def _padded(size: int, alignment: int) -> int:
    return -(-size // alignment) * alignment


def _string(order: str, text: str) -> bytes:
    content = text.encode()
    return struct.pack(order + "Q", len(content)) + content


def _value(order: str, value: object) -> bytes:
    if isinstance(value, Raw):
        return struct.pack(order + "I", value.kind) + value.content
    if isinstance(value, str):
        return struct.pack(order + "I", STRING) + _string(order, value)
    if isinstance(value, Strings):
        body = b"".join(_string(order, f"{value.prefix}{number}") for number in range(value.count))
        return struct.pack(order + "IIQ", ARRAY, STRING, value.count) + body
    if isinstance(value, (list, tuple)):
        kind = BOOL if isinstance(value[0], bool) else U32
        return _value(order, Array(kind, value))
    if isinstance(value, Array):
        return struct.pack(order + "IIQ", ARRAY, value.kind, len(value.values)) + _items(order, value)
    number = value if isinstance(value, Typed) else _typed(value)
    return struct.pack(order + "I" + _CODES[number.kind], number.kind, number.value)


def _items(order: str, array: Array) -> bytes:
    if array.kind == STRING:
        return b"".join(_string(order, str(item)) for item in array.values)
    return struct.pack(f"{order}{len(array.values)}{_CODES[array.kind]}", *array.values)


def _typed(value: object) -> Typed:
    if isinstance(value, bool):
        return Typed(BOOL, value)
    if isinstance(value, float):
        return Typed(F32, value)
    if isinstance(value, int):
        return Typed(U32, value)
    raise TypeError(f"cannot write {value!r}")
