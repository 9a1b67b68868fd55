"""What /api/show says of a model, as if its file had been read: for stores that this user may not open."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from reprlib import repr as brief
from typing import Any

from llmops.models.ggml_types import STORAGE_TYPES
from llmops.models.gguf_file import (
    MAX_ARRAY_ITEMS,
    MAX_DIMENSION,
    MAX_DIMENSIONS,
    MAX_KEPT_BYTES,
    MAX_KEY_BYTES,
    MAX_STRING_BYTES,
    MAX_TENSOR_NAME_BYTES,
    GgufFile,
    Skipped,
    Tensor,
    Value,
)
from llmops.models.gguf_reader import MAX_PAIRS, MAX_TENSORS, unreadable

_BY_NAME = {name.upper(): (name, elements, size) for name, elements, size in STORAGE_TYPES.values()}
_FROM = re.compile(r"^FROM (/\S{0,4000}/blobs/sha256-[0-9a-f]{64})$", re.MULTILINE)
_AS_ROOT = "run llmops as root: it reads the file itself"
_NUM_CONTEXT = re.compile(r"^num_ctx\s+(\d{1,9})$", re.MULTILINE)


def hidden_arrays(document: object) -> tuple[str, ...]:
    """Keys of the model whose arrays came without their values; they come when asked with `verbose`.

    Ollama keeps no values of arrays unless it is asked for all of them (fs/ggml/gguf.go); those of the tokenizer are
    long and not needed.
    """
    info = document.get("model_info") if isinstance(document, dict) else None
    pairs = info.items() if isinstance(info, dict) else ()
    return tuple(key for key, value in pairs if value in (None, []) and not str(key).startswith("tokenizer."))


def blob_path(document: Mapping[str, Any]) -> str | None:
    """The file that Ollama loads, from the FROM line of the Modelfile."""
    match = _FROM.search(_text(document, "modelfile"))
    return match.group(1) if match else None


def own_context_tokens(document: Mapping[str, Any]) -> int | None:
    """The num_ctx of the Modelfile."""
    match = _NUM_CONTEXT.search(_text(document, "parameters"))
    return int(match.group(1)) if match else None


def _text(document: Mapping[str, Any], key: str) -> str:
    value = document.get(key)
    return value if isinstance(value, str) else ""


def file_of_show(name: str, document: object, size_bytes: int) -> GgufFile:
    """The header as far as /api/show tells it, within the limits of a file; UnreadableInput for any other answer."""
    info = document.get("model_info") if isinstance(document, dict) else None
    if not isinstance(document, dict) or not isinstance(info, dict):
        raise unreadable(name, "/api/show says nothing of the model", _AS_ROOT)
    tensors = document.get("tensors")
    if not isinstance(tensors, list) or not 0 < len(tensors) <= MAX_TENSORS:
        raise unreadable(name, "/api/show lists no tensors, or more than any model has", _AS_ROOT)
    metadata = _metadata(name, info)
    return GgufFile(blob_path(document) or name, 3, size_bytes, metadata, tuple(_tensor(name, row) for row in tensors))


def _metadata(name: str, info: Mapping[str, object]) -> dict[str, Value]:
    metadata = {key: _value(value) for key, value in info.items() if value is not None}
    kept_bytes = sum(len(key) + _kept_bytes(value) for key, value in metadata.items())
    if len(info) > MAX_PAIRS or kept_bytes > MAX_KEPT_BYTES or any(len(key) > MAX_KEY_BYTES for key in metadata):
        raise unreadable(name, "/api/show says more of the model than any file holds", _AS_ROOT)
    return metadata


def _value(value: object) -> Value:
    """A value as a file would hold it; what a file cannot hold is passed over."""
    if isinstance(value, str) and len(value) <= MAX_STRING_BYTES:
        return value
    if isinstance(value, (str, dict)):
        return Skipped(len(value))
    if isinstance(value, list):
        kept = len(value) <= MAX_ARRAY_ITEMS and all(_is_number(item) for item in value)
        return tuple(value) if kept else Skipped(len(value))
    return value if isinstance(value, (int, float)) and _is_number(value) else Skipped(1)


def _is_number(value: object) -> bool:
    """JSON knows numbers of any length, and Python reads NaN and Infinity where nobody wrote them."""
    return (isinstance(value, int) and abs(value) < 2**64) or (isinstance(value, float) and math.isfinite(value))


def _kept_bytes(value: Value) -> int:
    if isinstance(value, str):
        return len(value)
    return 8 * len(value) if isinstance(value, tuple) else 8


def _tensor(name: str, row: object) -> Tensor:
    if not isinstance(row, dict) or not isinstance(row.get("shape"), list) or not isinstance(row.get("name"), str):
        raise unreadable(name, "/api/show lists a tensor without name or shape", _AS_ROOT)
    shape, called = row["shape"], row["name"]
    stored_as = _BY_NAME.get(str(row["type"]).upper()) if isinstance(row.get("type"), str) else None
    sound = len(called) <= MAX_TENSOR_NAME_BYTES and len(shape) <= MAX_DIMENSIONS and all(map(_is_dimension, shape))
    elements = math.prod(shape) if sound else 0
    if stored_as is None or not 0 < elements < 2**63 or (shape and shape[0] % stored_as[1]):
        listed = f"the tensor {brief(called)} as {brief(row.get('type'))} {brief(shape)}"
        raise unreadable(name, f"/api/show lists {listed}", _AS_ROOT)
    storage_type, block_elements, block_bytes = stored_as
    return Tensor(called, tuple(shape), storage_type, elements, elements // block_elements * block_bytes, 0)


def _is_dimension(size: object) -> bool:
    return isinstance(size, int) and not isinstance(size, bool) and 0 < size <= MAX_DIMENSION
