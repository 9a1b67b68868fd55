"""One file per model format, one function read_x(host, path) -> ModelSpec each; `read_model` picks the format."""

from __future__ import annotations

from typing import TYPE_CHECKING

from llmops.core.errors import UnreadableInput, UsageError

if TYPE_CHECKING:
    from llmops.core.model import ModelSpec
    from llmops.host import Host

SUPPORTED = "a path to a .gguf file (of a split model its first part, ...-00001-of-000NN.gguf)"


def read_model(host: Host, reference: str) -> ModelSpec:
    """Read what a reference names, today a GGUF file by its path.

    Raises UsageError for a reference that cannot be read yet (a directory, a repository, an Ollama name),
    UnreadableInput for a device or a pipe, and what `read_gguf` raises.
    """
    if not reference.lower().endswith(".gguf"):
        kind = _kind(host, reference)
        if kind in (None, "directory"):
            raise UsageError(f"{reference!r} is not a model that llmops can read", hint=f"give --model {SUPPORTED}")
        if kind != "file":
            raise UnreadableInput(f"{reference}: is a {kind}, not a model file", hint=f"give --model {SUPPORTED}")
    from llmops.models.gguf import read_gguf

    return read_gguf(host, reference)


def _kind(host: Host, reference: str) -> str | None:
    """Ollama and the Hugging Face cache keep GGUF files without a suffix; only a path can name one."""
    if "/" not in reference:
        return None
    try:
        return host.status(reference).kind
    except OSError:
        return None
