"""Ollama's model store: manifests to blobs to the header of a GGUF file. Nothing outside the store is ever opened."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import PurePosixPath
from reprlib import repr as brief
from typing import TYPE_CHECKING, Any

from llmops.core.errors import NoPermission, UnreadableInput
from llmops.core.model import ModelSpec
from llmops.models.gguf_facts import MAX_VALUE
from llmops.models.gguf_reader import file_bytes, unreadable
from llmops.models.ollama_names import OllamaName, may_be_part, name_of

if TYPE_CHECKING:
    from llmops.host import Host
    from llmops.models.gguf_file import GgufFile

# Where a store is when nothing says otherwise: the installer's user, the snap, the Docker image (docs/faq.mdx).
SYSTEM_STORES = ("/usr/share/ollama/.ollama/models", "/var/snap/ollama/common/models", "/root/.ollama/models")
_MEDIA_TYPE = "application/vnd.ollama.image."  # server/images.go: .model is the GGUF file
_DIGEST = re.compile(r"sha256[:-]([0-9a-f]{64})")
# Real manifests have some kilobytes and at most a few hundred layers; a hostile store is bounded by these.
MAX_MANIFEST_BYTES = 512 * 1024  # JSON takes up to 43 times its size in memory
MAX_PARAMETERS_BYTES = 64 * 1024
MAX_LAYERS = 4_096
MAX_MODELS = 1_000
MAX_ENTRIES = 4_096
_AGAIN = "pull the model again: ollama pull NAME"


@dataclass(frozen=True)
class StoredModel:
    """One manifest: its blobs as paths; `model_path` None for models that are not GGUF files.

    `parameters` are those of its Modelfile (PARAMETER lines), which beat the server's own defaults.
    """

    name: OllamaName
    store: str
    model_path: str | None
    projector_paths: tuple[str, ...] = ()
    parameters: Mapping[str, Any] | None = None

    @property
    def own_context_tokens(self) -> int | None:
        """The num_ctx of its Modelfile, which beats OLLAMA_CONTEXT_LENGTH."""
        value = (self.parameters or {}).get("num_ctx")
        if not isinstance(value, int) or isinstance(value, bool):
            return None
        return value if 0 < value <= MAX_VALUE else None


def usual_stores(host: Host) -> tuple[str, ...]:
    """$OLLAMA_MODELS, the installer's store, the own home's: those that this user's servers would use."""
    environment = host.environment()
    own = environment.get("OLLAMA_MODELS", "").strip().strip("\"'")
    home = environment.get("HOME", "")
    places = (own, *SYSTEM_STORES, f"{home}/.ollama/models" if home else "")
    return tuple(dict.fromkeys(place for place in places if place.startswith("/")))


def list_models(host: Host, store: str) -> tuple[OllamaName, ...]:
    """The names of all manifests of a store, in order; () where there is no store.

    Raises NoPermission where the store may not be read by this user.
    """
    found: list[tuple[str, ...]] = [()]
    for _ in range(4):
        found = list(_one_deeper(host, PurePosixPath(store, "manifests"), found))
    names = (name_of(*parts) for parts in found)
    return tuple(islice((name for name in names if name is not None), MAX_MODELS))


def _one_deeper(host: Host, manifests: PurePosixPath, found: Sequence[tuple[str, ...]]) -> Iterator[tuple[str, ...]]:
    """What lies below these directories; links can lead in circles, so what is seen of one level is bounded."""
    seen = 0
    for parts in found:
        entries = _entries(host, manifests.joinpath(*parts))
        yield from ((*parts, entry) for entry in entries[: MAX_ENTRIES - seen] if may_be_part(entry))
        seen += len(entries)
        if seen >= MAX_ENTRIES:
            return


def _entries(host: Host, directory: PurePosixPath) -> tuple[str, ...]:
    try:
        return host.list_directory(directory)
    except (FileNotFoundError, NotADirectoryError):
        return ()
    except PermissionError as problem:
        raise NoPermission(
            f"{directory}: the model store may not be read by this user", hint="run it as root: sudo llmops ..."
        ) from problem
    except OSError as problem:
        raise unreadable(
            str(directory), f"cannot be listed: {problem.strerror or problem}", "name the model: --model NAME"
        ) from problem


def holds(host: Host, store: str, name: OllamaName) -> bool:
    """Whether a store has a manifest of this name."""
    try:
        return host.status(manifest_path(store, name)).kind == "file"
    except OSError:
        return False


def manifest_path(store: str, name: OllamaName) -> str:
    """Where the manifest of a name lies."""
    return str(PurePosixPath(store, "manifests", *name.parts))


def read_manifest(host: Host, store: str, name: OllamaName) -> StoredModel:
    """Raise UnreadableInput for a manifest that is missing, damaged or leads out of the store."""
    path = manifest_path(store, name)
    document = _json(host, store, path, MAX_MANIFEST_BYTES)
    layers = document.get("layers")
    if not isinstance(layers, list) or len(layers) > MAX_LAYERS:
        raise unreadable(path, "is not a manifest of a model: it has no list of layers", _AGAIN)
    by_kind: dict[str, list[str]] = {}
    for layer in layers:
        kind, blob = _layer(store, path, layer)
        by_kind.setdefault(kind, []).append(blob)
    models = by_kind.get("model", [])
    if len(models) > 1:
        raise unreadable(path, f"names {len(models)} model files", _AGAIN)
    parameters = by_kind.get("params", [])
    return StoredModel(
        name=name,
        store=store,
        model_path=models[0] if models else None,
        projector_paths=tuple(by_kind.get("projector", [])),
        parameters=_json(host, store, parameters[0], MAX_PARAMETERS_BYTES) if parameters else None,
    )


def _layer(store: str, path: str, layer: object) -> tuple[str, str]:
    """Kind and blob of one layer; the digest is checked before it becomes a path."""
    if not isinstance(layer, dict) or not isinstance(layer.get("mediaType"), str):
        raise unreadable(path, "has a layer without a media type", _AGAIN)
    digest = layer.get("digest")
    match = _DIGEST.fullmatch(digest) if isinstance(digest, str) else None
    if match is None:
        raise unreadable(path, f"has a layer with the digest {brief(digest)}", _AGAIN)
    return layer["mediaType"].removeprefix(_MEDIA_TYPE), str(PurePosixPath(store, "blobs", f"sha256-{match.group(1)}"))


def _json(host: Host, store: str, path: str, most_bytes: int) -> dict[str, Any]:
    _require_inside(host, store, path)
    size = file_bytes(host, path)
    if size > most_bytes:
        raise unreadable(path, f"has {size} bytes; such a file has at most {most_bytes}", _AGAIN)
    try:
        document = json.loads(host.read_bytes(path, 0, most_bytes))
    except PermissionError as problem:
        raise NoPermission(f"{path}: may not be read by this user", hint="run it as root: sudo llmops ...") from problem
    except OSError as problem:
        raise unreadable(path, f"cannot be read: {problem.strerror or problem}") from problem
    except (ValueError, RecursionError):
        raise unreadable(path, "is not JSON", _AGAIN) from None
    if not isinstance(document, dict):
        raise unreadable(path, "is not a JSON object", _AGAIN)
    return document


def _require_inside(host: Host, store: str, path: str) -> None:
    """Refuse a link that leads out of the store; the store itself may be a link."""
    try:
        root, real = host.resolve(store), host.resolve(path)
    except (OSError, RuntimeError) as problem:  # a loop of links, for one
        raise unreadable(path, f"cannot be followed: {problem}", _AGAIN) from problem
    if not PurePosixPath(real).is_relative_to(root):
        raise unreadable(
            path, f"is a link out of the model store, to {real!r}", "move the store as a whole: set OLLAMA_MODELS"
        )


def read_stored_files(host: Host, stored: StoredModel) -> tuple[GgufFile, ...]:
    """The header of the GGUF file behind a manifest.

    Raises UnreadableInput for models that are no GGUF files or lead out of the store, and what `read_files` raises.
    """
    from llmops.models.gguf import read_files

    if stored.model_path is None:
        raise UnreadableInput(
            f"{stored.name} is not a GGUF model, so its memory is not known",
            hint="models in safetensors form run in another engine of Ollama; pull the GGUF form",
        )
    for path in (stored.model_path, *stored.projector_paths):
        _require_inside(host, stored.store, path)
    return read_files(host, stored.model_path)


def read_stored_model(host: Host, stored: StoredModel) -> ModelSpec:
    """The model behind a manifest, named as Ollama names it, with its projector as a part of the weights."""
    return stored_spec(host, stored, read_stored_files(host, stored))


def stored_spec(host: Host, stored: StoredModel, files: tuple[GgufFile, ...]) -> ModelSpec:
    """The same from headers that were read already; raises what reading a model raises."""
    from llmops.models.gguf import spec_of_files
    from llmops.models.gguf_projector import read_or_weigh, with_projectors

    model = replace(spec_of_files(files[0].path, files), reference=str(stored.name))
    return with_projectors(model, read_or_weigh(host, stored.projector_paths))
