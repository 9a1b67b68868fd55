"""The model store: manifests that name blobs, as Ollama lays them out on disk."""

from __future__ import annotations

import functools
import hashlib
import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from .gguf import Header, read_header

HOST, NAMESPACE, TAG = "registry.ollama.ai", "library", "latest"
_MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"
_CONFIG = "application/vnd.docker.container.image.v1+json"
_LAYER = "application/vnd.ollama.image."


@dataclass(frozen=True)
class Model:
    """One installed model."""

    name: str
    manifest: Path
    blobs: Path
    document: dict[str, Any]

    @property
    def digest(self) -> str:
        """SHA-256 of the manifest."""
        return hashlib.sha256(self.manifest.read_bytes()).hexdigest()

    @property
    def size(self) -> int:
        """Bytes of all layers and of the configuration."""
        return sum(int(layer["size"]) for layer in (self.document["config"], *self.document["layers"]))

    def layer(self, kind: str) -> Path | None:
        """The file of the first layer of this kind, such as "model"."""
        for layer in self.document["layers"]:
            if layer["mediaType"] == _LAYER + kind:
                return self._blob(layer["digest"])
        return None

    def text(self, kind: str) -> str:
        """The text of a layer; empty where there is none."""
        path = self.layer(kind)
        return path.read_text(encoding="utf-8") if path else ""

    @property
    def weights(self) -> Path:
        """The GGUF file."""
        path = self.layer("model")
        assert path is not None
        return path

    @property
    def header(self) -> Header:
        """The header of the GGUF file."""
        return _header(self.weights)

    @property
    def configuration(self) -> dict[str, Any]:
        """The configuration blob."""
        return dict(json.loads(self._blob(self.document["config"]["digest"]).read_text(encoding="utf-8")))

    @property
    def parameters(self) -> dict[str, Any]:
        """PARAMETER lines of its Modelfile."""
        return dict(json.loads(self.text("params") or "{}"))

    @property
    def can_chat(self) -> bool:
        """False for an embedding model."""
        return self.header.of("pooling_type") is None

    @property
    def details(self) -> dict[str, Any]:
        """The small block that every listing shows."""
        about = self.configuration
        return {
            "parent_model": "",
            "format": about["model_format"],
            "family": about["model_family"],
            "families": about["model_families"],
            "parameter_size": about["model_type"],
            "quantization_level": about["file_type"],
        }

    def _blob(self, digest: str) -> Path:
        return self.blobs / digest.replace(":", "-")


@functools.lru_cache(maxsize=16)
def _header(path: Path) -> Header:
    return read_header(path)


def full_name(name: str) -> tuple[str, str, str, str]:
    """host, namespace, model, tag of a name in its short form."""
    rest, colon, tag = name.rpartition(":")
    rest, tag = (rest, tag) if colon and "/" not in tag else (name, TAG)
    parts = rest.split("/")
    host = parts[0] if len(parts) > 2 else HOST
    namespace = parts[-2] if len(parts) > 1 else NAMESPACE
    return host, namespace, parts[-1], tag


def short_name(host: str, namespace: str, model: str, tag: str) -> str:
    """The name as the API shows it."""
    if host != HOST:
        return f"{host}/{namespace}/{model}:{tag}"
    return f"{model}:{tag}" if namespace == NAMESPACE else f"{namespace}/{model}:{tag}"


@dataclass(frozen=True)
class Store:
    """A directory of models."""

    directory: Path

    def find(self, name: str) -> Model | None:
        """The model of this name."""
        parts = full_name(name)
        path = self.directory.joinpath("manifests", *parts)
        if any(part in {"", ".", ".."} for part in parts) or not path.is_file():
            return None
        return self._read(path)

    def all(self) -> list[Model]:
        """Every model, the newest first."""
        paths = (self.directory / "manifests").glob("*/*/*/*")
        return [self._read(path) for path in sorted(paths, key=lambda path: path.stat().st_mtime, reverse=True)]

    def _read(self, path: Path) -> Model:
        document = json.loads(path.read_text(encoding="utf-8"))
        name = short_name(*path.relative_to(self.directory / "manifests").parts)
        return Model(name, path, self.directory / "blobs", document)


def parameter_size(count: int) -> str:
    """The number of weights in words, such as 8.0B."""
    for unit, size in (("T", 10**12), ("B", 10**9), ("M", 10**6), ("K", 10**3)):
        if count >= size:
            return f"{count / size:.1f}{unit}" if unit in "TB" else f"{count / size:.2f}{unit}"
    return str(count)


def register(
    directory: Path,
    name: str,
    gguf: Path,
    *,
    template: str = "",
    parameters: Mapping[str, object] | None = None,
    family: str = "",
) -> Path:
    """Put a GGUF file into the store under this name; the path of the manifest.

    With a template, prompts are rendered by Ollama; without, by llama-server. `family` replaces the architecture.
    """
    header = read_header(gguf)
    family = family or header.architecture
    blobs = directory / "blobs"
    blobs.mkdir(parents=True, exist_ok=True)
    layers = [_file_layer(blobs, gguf)]
    if template:
        layers.append(_text_layer(blobs, _LAYER + "template", template))
    if parameters:
        layers.append(_text_layer(blobs, _LAYER + "params", json.dumps(dict(parameters))))
    configuration = {
        "model_format": "gguf",
        "model_family": family,
        "model_families": [family],
        "model_type": parameter_size(header.parameters),
        "file_type": header.file_type,
        "architecture": "amd64",
        "os": "linux",
        "rootfs": {"type": "layers", "diff_ids": [layer["digest"] for layer in layers]},
    }
    config = _text_layer(blobs, _CONFIG, json.dumps(configuration))
    manifest = directory.joinpath("manifests", *full_name(name))
    manifest.parent.mkdir(parents=True, exist_ok=True)
    document = {"schemaVersion": 2, "mediaType": _MANIFEST, "config": config, "layers": layers}
    manifest.write_text(json.dumps(document), encoding="utf-8")
    return manifest


def _file_layer(blobs: Path, path: Path) -> dict[str, object]:
    with path.open("rb") as stream:
        digest = _hash(stream)
    target = blobs / f"sha256-{digest}"
    if not target.exists():
        _place(path.resolve(), target)
    return {"mediaType": _LAYER + "model", "digest": f"sha256:{digest}", "size": path.stat().st_size}


def _hash(stream: BinaryIO) -> str:
    total = hashlib.sha256()
    while block := stream.read(1 << 20):
        total.update(block)
    return total.hexdigest()


def _place(source: Path, target: Path) -> None:
    try:
        os.link(source, target)
    except OSError:  # another file system
        shutil.copyfile(source, target)


def _text_layer(blobs: Path, kind: str, text: str) -> dict[str, object]:
    content = text.encode()
    digest = hashlib.sha256(content).hexdigest()
    (blobs / f"sha256-{digest}").write_bytes(content)
    return {"mediaType": kind, "digest": f"sha256:{digest}", "size": len(content)}
