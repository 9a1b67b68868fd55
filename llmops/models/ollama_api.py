"""What /api/show says of a model, as if its file had been read: for stores that this user may not open."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from llmops.core.errors import UnreadableInput
from llmops.models.ggml_types import STORAGE_TYPES
from llmops.models.gguf_file import MAX_ARRAY_ITEMS, MAX_DIMENSIONS, GgufFile, Skipped, Tensor, Value
from llmops.models.gguf_reader import MAX_TENSORS

_BY_NAME = {name.upper(): (name, elements, size) for name, elements, size in STORAGE_TYPES.values()}
_FROM = re.compile(r"^FROM (/\S*/blobs/sha256-[0-9a-f]{64})$", re.MULTILINE)
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
    match = _FROM.search(str(document.get("modelfile") or ""))
    return match.group(1) if match else None


def own_context_tokens(document: Mapping[str, Any]) -> int | None:
    """The num_ctx of the Modelfile."""
    match = _NUM_CONTEXT.search(str(document.get("parameters") or ""))
    return int(match.group(1)) if match else None


def file_of_show(name: str, document: object, size_bytes: int) -> GgufFile:
    """The header as far as /api/show tells it; raise UnreadableInput for an answer that is no such thing."""
    if not isinstance(document, dict) or not isinstance(document.get("model_info"), dict):
        raise UnreadableInput(f"{name}: /api/show says nothing of the model")
    tensors = document.get("tensors")
    if not isinstance(tensors, list) or not 0 < len(tensors) <= MAX_TENSORS:
        raise UnreadableInput(
            f"{name}: /api/show lists no tensors", hint="run llmops as root: it reads the file itself"
        )
    metadata = {str(key): _value(value) for key, value in document["model_info"].items() if value is not None}
    return GgufFile(blob_path(document) or name, 3, size_bytes, metadata, tuple(_tensor(name, row) for row in tensors))


def _value(value: object) -> Value:
    if not isinstance(value, list):
        return value if isinstance(value, (int, float, bool, str)) else str(value)
    if len(value) > MAX_ARRAY_ITEMS or not all(isinstance(item, (int, float, bool)) for item in value):
        return Skipped(len(value))
    return tuple(value)


def _tensor(name: str, row: object) -> Tensor:
    if not isinstance(row, dict) or not isinstance(row.get("shape"), list) or not isinstance(row.get("name"), str):
        raise UnreadableInput(f"{name}: /api/show lists a tensor without name or shape")
    shape, stored_as = row["shape"], _BY_NAME.get(str(row.get("type")).upper())
    sound = all(isinstance(size, int) and 0 < size < 2**40 for size in shape)
    if stored_as is None or len(shape) > MAX_DIMENSIONS or not sound:
        raise UnreadableInput(f"{name}: /api/show lists the tensor {row['name'][:60]!r} as {row.get('type')!r} {shape}")
    storage_type, block_elements, block_bytes = stored_as
    elements = 1
    for size in shape:
        elements *= size
    return Tensor(row["name"], tuple(shape), storage_type, elements, elements // block_elements * block_bytes, 0)
