"""One file per model format, one function read_x(host, path) -> ModelSpec each; `read_model` picks the format."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from llmops.core.errors import NoPermission, UnreadableInput, UsageError

if TYPE_CHECKING:
    from llmops.core.model import ModelSpec
    from llmops.host import Host

SUPPORTED = (
    "a path to a .gguf file (of a split model its first part, ...-00001-of-000NN.gguf), the name of a model in a "
    "store of Ollama, such as qwen3:8b, a Hugging Face model directory (config.json and safetensors), or a repository "
    "id found in the local Hugging Face cache, such as Qwen/Qwen3-8B"
)
_CHECKPOINT_FILES = (".safetensors", ".safetensors.index.json", "/config.json")


def read_model(
    host: Host, reference: str, stores: Sequence[str] = (), caches: Sequence[str] | None = None
) -> ModelSpec:
    """Read what a reference names: a file or a directory by its path, else a name in a store or in a cache of the hub.

    `stores` are Ollama's; `caches` those of the Hugging Face hub, None for the usual ones. Raises UsageError for a
    reference that names nothing, UnreadableInput for a device or a pipe, and what the readers raise.
    """
    if is_path(host, reference):
        return _read_path(host, reference)
    kind = _kind(host, reference)
    if kind is not None:
        raise UnreadableInput(f"{reference}: is a {kind}, not a model file", hint=f"give --model {SUPPORTED}")
    from llmops.models.ollama_names import parse_name
    from llmops.models.ollama_store import holds, read_manifest, read_stored_model

    name = parse_name(reference)
    for store in stores if name is not None else ():
        if name is not None and holds(host, store, name):
            return read_stored_model(host, read_manifest(host, store, name))
    return _read_cached(host, reference, caches)


def _read_path(host: Host, reference: str) -> ModelSpec:
    if _kind(host, reference) == "directory":
        from llmops.models.hf_directory import read_hf_directory

        return read_hf_directory(host, reference)
    if reference.endswith(_CHECKPOINT_FILES):
        from llmops.models.hf_directory import read_hf_file

        return read_hf_file(host, reference)
    from llmops.models.gguf import read_gguf

    return read_gguf(host, reference)


def _read_cached(host: Host, reference: str, caches: Sequence[str] | None) -> ModelSpec:
    from llmops.models.hf_cache import find_snapshot, parse_repository, usual_caches

    repository = parse_repository(reference)
    if repository is None:
        raise _no_model(reference)
    searched = usual_caches(host) if caches is None else tuple(caches)
    directory = find_snapshot(host, repository, searched)
    if directory is None:
        raise UsageError(
            f"{reference!r} is not in the local Hugging Face cache ({', '.join(searched) or 'none is known'})",
            hint=f"download it: hf download {repository.owner}/{repository.name}; or give --model {SUPPORTED}",
        )
    from llmops.models.hf_directory import read_hf_directory

    return read_hf_directory(host, directory, reference)


def _no_model(reference: str) -> UsageError:
    """The refusal of what names nothing here, with what it looks like."""
    from llmops.models.hf_cache import parse_repository
    from llmops.models.ollama_names import parse_name

    if reference.startswith(("/", "./", "../", "~")):
        return UsageError(f"{reference!r}: nothing is there", hint=f"check the path; give --model {SUPPORTED}")
    for site in ("https://huggingface.co/", "https://hf.co/", "huggingface.co/", "hf.co/"):
        name = "/".join(reference.removeprefix(site).split("/")[:2])
        if reference.startswith(site) and parse_repository(name) is not None:
            return UsageError(f"{reference!r} is an address, not a model on this machine", hint=f"give --model {name}")
    if ":" in reference and parse_name(reference) is not None:
        return UsageError(
            f"no store of Ollama on this machine holds {reference!r}, and no file has that name",
            hint=f"get it: ollama pull {reference}; or give --model {SUPPORTED}",
        )
    return UsageError(f"{reference!r} is not a model that llmops can read", hint=f"give --model {SUPPORTED}")


def form_of(host: Host, reference: str) -> str | None:
    """Which kind of model a reference names: gguf, checkpoint, or stored in Ollama's store; None where that is open."""
    if is_path(host, reference):
        is_checkpoint = reference.endswith(_CHECKPOINT_FILES) or _kind(host, reference) == "directory"
        return "checkpoint" if is_checkpoint else "gguf"
    from llmops.models.hf_cache import find_snapshot, parse_repository, usual_caches
    from llmops.models.ollama_names import parse_name
    from llmops.models.ollama_store import holds, usual_stores

    name, repository = parse_name(reference), parse_repository(reference)
    if name is not None and any(holds(host, store, name) for store in usual_stores(host)):
        return "stored"
    if repository is None:
        return "stored" if name is not None else None
    try:
        return "checkpoint" if find_snapshot(host, repository, usual_caches(host)) is not None else None
    except (UnreadableInput, NoPermission):  # such a repository is there, and something about it is to be said later
        return "checkpoint"


def stores_for(host: Host, reference: str) -> tuple[str, ...]:
    """The usual stores of Ollama where a reference could be a name in one."""
    if is_path(host, reference):
        return ()
    from llmops.models.ollama_store import usual_stores

    return usual_stores(host)


def is_path(host: Host, reference: str) -> bool:
    """Ollama and the Hugging Face cache keep GGUF files without a suffix; only a path can name one."""
    return reference.lower().endswith(".gguf") or _kind(host, reference) in {"file", "directory"}


def _kind(host: Host, reference: str) -> str | None:
    """What lies at a path; None where nothing does, or where the reference is no path."""
    if "/" not in reference:
        return None
    try:
        return host.status(reference).kind
    except OSError:
        return None
