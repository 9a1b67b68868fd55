"""Makes .safetensors files with true headers; their data are a hole, so that a large model takes almost no disk."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from math import prod
from pathlib import Path

BITS = {"F4": 4, "F6_E2M3": 6, "F8_E4M3": 8, "U8": 8, "I8": 8, "BF16": 16, "F16": 16, "I32": 32, "F32": 32, "I64": 64}
Shapes = Mapping[str, tuple[str, tuple[int, ...]]]


def stored_bytes(data_type: str, shape: Sequence[int]) -> int:
    """Bytes of one tensor."""
    return prod(shape) * BITS[data_type] // 8


def entries(tensors: Shapes) -> dict[str, dict[str, object]]:
    """The members of a header, the data one after the other in this order."""
    found: dict[str, dict[str, object]] = {}
    place = 0
    for name, (data_type, shape) in tensors.items():
        end = place + stored_bytes(data_type, shape)
        found[name] = {"dtype": data_type, "shape": list(shape), "data_offsets": [place, end]}
        place = end
    return found


def framed(text: bytes) -> bytes:
    """A header with its length before it."""
    return len(text).to_bytes(8, "little") + text


def header(tensors: Shapes, metadata: Mapping[str, str] | None = None) -> bytes:
    """The header as the format's own writer makes it: no blanks, padded to a multiple of eight."""
    document: dict[str, object] = {"__metadata__": dict(metadata)} if metadata is not None else {}
    text = json.dumps(document | entries(tensors), separators=(",", ":")).encode()
    return framed(text + b" " * (-len(text) % 8))


def data_bytes(tensors: Shapes) -> int:
    """Bytes of all tensors."""
    return sum(stored_bytes(data_type, shape) for data_type, shape in tensors.values())


def write(path: Path, tensors: Shapes, metadata: Mapping[str, str] | None = None) -> Path:
    """One whole file."""
    content = header(tensors, {"format": "pt"} if metadata is None else metadata)
    path.write_bytes(content)
    os.truncate(path, len(content) + data_bytes(tensors))
    return path


def write_split(directory: Path, tensors: Shapes, files: int) -> Path:
    """The same over several files with their index; the path of the index."""
    names = list(tensors)
    weight_map: dict[str, str] = {}
    for number in range(files):
        part = names[number * len(names) // files : (number + 1) * len(names) // files]
        file = f"model-{number + 1:05d}-of-{files:05d}.safetensors"
        write(directory / file, {name: tensors[name] for name in part})
        weight_map |= dict.fromkeys(part, file)
    index = directory / "model.safetensors.index.json"
    document = {"metadata": {"total_size": data_bytes(tensors)}, "weight_map": weight_map}
    index.write_text(json.dumps(document, indent=2), encoding="utf-8")
    return index
