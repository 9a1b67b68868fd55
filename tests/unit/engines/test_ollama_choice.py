"""Which models an Ollama is planned for: named ones, or every installed one that can chat."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import pytest

from llmops.core.errors import UnreadableInput, UsageError
from llmops.engines.base import Models
from llmops.engines.found import InForce
from llmops.engines.ollama.choice import choose_models
from llmops.host import FileStatus, Response
from tests.doubles import gguf_files as made
from tests.unit.engines.ollama_host import URL, OllamaHost, installed
from tests.unit.models.test_ollama_store import HOST as DISK
from tests.unit.models.test_ollama_store import KIND, blob, put, register


@dataclass
class WithStore(OllamaHost):
    """A machine whose files are those of the disk."""

    closed: bool = False

    def list_directory(self, path: PurePosixPath | str) -> tuple[str, ...]:
        if self.closed:
            raise PermissionError(13, "Permission denied", str(path))
        return DISK.list_directory(path)

    def status(self, path: PurePosixPath | str) -> FileStatus:
        if self.closed:
            raise PermissionError(13, "Permission denied", str(path))
        return DISK.status(path)

    def resolve(self, path: PurePosixPath | str) -> str:
        return DISK.resolve(path)

    def read_bytes(self, path: PurePosixPath | str, offset: int, length: int) -> bytes:
        return DISK.read_bytes(path, offset, length)


def chosen(host: WithStore, place: Path, *references: str) -> Models:
    in_force = InForce(pid=50, environment=(("OLLAMA_MODELS", str(place)),), url=URL)
    return choose_models(host, references, installed(), in_force)


def test_all_that_can_chat_the_slowest_first(tmp_path: Path) -> None:
    register(tmp_path, "small:1")
    digest, path = blob(tmp_path, 99)
    made.write(path, made.model_metadata(layers=4), made.model_tensors(layers=4))
    put(tmp_path, "larger", [{"mediaType": KIND + "model", "digest": digest}])
    embedding = register(tmp_path, "embed-me", pooling_type=1)
    put(tmp_path, "broken", "no JSON")
    found = chosen(WithStore(), tmp_path)
    assert [model.reference for model in found.chat] == ["larger:latest", "small:1"]
    assert found.companions == (("embed-me:latest", embedding.stat().st_size),)
    assert len(found.warnings) == 1
    assert found.warnings[0].startswith("broken:latest is left out of the plan")


def test_named_ones_only(tmp_path: Path) -> None:
    register(tmp_path, "one")
    register(tmp_path, "another")
    assert [model.reference for model in chosen(WithStore(), tmp_path, "one").chat] == ["one:latest"]
    assert len(chosen(WithStore(), tmp_path, "one", "another", "one").chat) == 2
    with pytest.raises(UsageError, match="Ollama has no model absent"):
        chosen(WithStore(), tmp_path, "absent")


def test_a_named_one_that_is_broken_is_an_error(tmp_path: Path) -> None:
    put(tmp_path, "broken", "no JSON")
    with pytest.raises(UnreadableInput):
        chosen(WithStore(), tmp_path, "broken")


def test_a_context_of_a_modelfile_is_told(tmp_path: Path) -> None:
    path = register(tmp_path, "own")
    parameters, _ = blob(tmp_path, 77, b'{"num_ctx": 131072}')
    layers = [("model", path.name.replace("-", ":")), ("params", parameters)]
    put(tmp_path, "own", [{"mediaType": KIND + kind, "digest": digest} for kind, digest in layers])
    assert "num_ctx 131072" in chosen(WithStore(), tmp_path).warnings[0]


def test_nothing_to_serve(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="none"):
        chosen(WithStore(), tmp_path)
    register(tmp_path, "embed", pooling_type=1)
    with pytest.raises(UsageError, match="only makes embeddings"):
        chosen(WithStore(), tmp_path)


def test_a_closed_store_is_asked_for_through_the_api(tmp_path: Path) -> None:
    host = WithStore(closed=True)
    host.answers[f"{URL}/api/tags"] = Response(200, json.dumps({"models": [{"name": "small:1", "size": 1000}]}))
    asked: list[object] = []

    def show(payload: Mapping[str, object]) -> Response:
        asked.append(payload["verbose"])
        metadata = {key: value for key, value in made.model_metadata().items() if not key.startswith("tokenizer.")}
        metadata["llama.attention.head_count_kv"] = [2, 2] if payload["verbose"] else None
        tensors = [
            {"name": one.name, "type": "F16" if len(one.dimensions) > 1 else "F32", "shape": list(one.dimensions)}
            for one in made.model_tensors()
        ]
        return Response(200, json.dumps({"model_info": metadata, "tensors": tensors, "parameters": "num_ctx   4096"}))

    host.posts[f"{URL}/api/show"] = show
    found = chosen(host, tmp_path)
    assert asked == [False, True]
    assert found.chat[0].reference == "small:1"
    assert [layer.kv_heads for layer in found.chat[0].attention_layers] == [2, 2]
    assert "num_ctx 4096" in found.warnings[0]
