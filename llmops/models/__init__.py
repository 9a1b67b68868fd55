"""One file per model format, one function read_x(host, path) -> ModelSpec each; `read_model` picks the format."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from llmops.core.errors import UnreadableInput, UsageError

if TYPE_CHECKING:
    from llmops.core.model import ModelSpec
    from llmops.host import Host

SUPPORTED = (
    "a path to a .gguf file (of a split model its first part, ...-00001-of-000NN.gguf), or the name of a model in a "
    "store of Ollama, such as qwen3:8b"
)


def read_model(host: Host, reference: str, stores: Sequence[str] = ()) -> ModelSpec:
    """Read what a reference names: a GGUF file by its path, or a model by its name in one of Ollama's stores.

    Raises UsageError for a reference that names neither, UnreadableInput for a device or a pipe, and what `read_gguf`
    and `read_manifest` raise.
    """
    if is_path(host, reference):
        from llmops.models.gguf import read_gguf

        return read_gguf(host, reference)
    kind = _kind(host, reference)
    if kind not in {None, "directory"}:
        raise UnreadableInput(f"{reference}: is a {kind}, not a model file", hint=f"give --model {SUPPORTED}")
    from llmops.models.ollama_names import parse_name
    from llmops.models.ollama_store import holds, read_manifest, read_stored_model

    name = parse_name(reference)
    for store in stores if name is not None else ():
        if name is not None and holds(host, store, name):
            return read_stored_model(host, read_manifest(host, store, name))
    raise UsageError(f"{reference!r} is not a model that llmops can read", hint=f"give --model {SUPPORTED}")


def stores_for(host: Host, reference: str) -> tuple[str, ...]:
    """The usual stores of Ollama where a reference could be a name in one."""
    if is_path(host, reference):
        return ()
    from llmops.models.ollama_store import usual_stores

    return usual_stores(host)


def is_path(host: Host, reference: str) -> bool:
    """Ollama and the Hugging Face cache keep GGUF files without a suffix; only a path can name one."""
    return reference.lower().endswith(".gguf") or _kind(host, reference) == "file"


def _kind(host: Host, reference: str) -> str | None:
    """What lies at a path; None where nothing does, or where the reference is no path."""
    if "/" not in reference:
        return None
    try:
        return host.status(reference).kind
    except OSError:
        return None
