"""The tensors of a Hugging Face model directory: all files found, their headers read and compared with the index."""

from __future__ import annotations

from dataclasses import dataclass

from llmops.models.gguf_reader import unreadable
from llmops.models.hf_files import INDEX, ModelDirectory
from llmops.models.safetensors import FileTotals, Headers, read_safetensors
from llmops.models.safetensors_index import Listed, read_index


@dataclass(frozen=True)
class Stored:
    """All tensors of a model, the size of their files, and the paths of these."""

    headers: Headers
    file_bytes: int
    paths: tuple[str, ...]


def stored_tensors(directory: ModelDirectory) -> Stored:
    """Read every header; nothing at all where the directory holds no .safetensors file.

    Raises UnreadableInput for files that are missing, damaged or not those that the index is about, or NoPermission.
    """
    listed = read_index(directory.host, directory.file(INDEX)) if directory.has(INDEX) else None
    names = tuple(listed) if listed is not None else directory.weight_files()
    directory.require(names)
    headers = Headers()
    file_bytes = 0
    paths = tuple(directory.file(name) for name in names)
    for name, path in zip(names, paths, strict=True):
        totals = read_safetensors(directory.host, path, headers)
        file_bytes += totals.size_bytes
        if listed is not None:
            _compare(path, listed[name], totals)
    return Stored(headers, file_bytes, paths)


def _compare(path: str, listed: Listed, totals: FileTotals) -> None:
    """A file may hold more than the index knows of, for that is loaded too, but not less and not something else."""
    hint = "files of different downloads are mixed: download the model again"
    if totals.tensors < listed.tensors:
        raise unreadable(path, f"holds {totals.tensors} tensors, and the index lists {listed.tensors} in it", hint)
    if totals.tensors == listed.tensors and totals.names != listed.names:
        raise unreadable(path, "holds other tensors than those that the index lists in it", hint)
