"""Ollama's store: names, manifests and blobs; hostile ones end in our own errors."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

import pytest

from llmops.core.errors import NoPermission, UnreadableInput, UsageError
from llmops.models import ollama_store as store
from llmops.models import read_model
from llmops.models.gguf_file import Skipped
from llmops.models.ollama_api import file_of_show, hidden_arrays
from llmops.models.ollama_names import parse_name
from tests.doubles import gguf_files as made
from tests.unit.models.disk import Disk

KIND = "application/vnd.ollama.image."


class StoreDisk(Disk):
    """A disk with directories and links."""

    def list_directory(self, path: PurePosixPath | str) -> tuple[str, ...]:
        return tuple(sorted(entry.name for entry in Path(path).iterdir()))

    def resolve(self, path: PurePosixPath | str) -> str:
        return str(Path(path).resolve())

    def environment(self) -> Mapping[str, str]:
        return {"OLLAMA_MODELS": "/srv/models", "HOME": "/home/me"}


HOST = StoreDisk().as_host()


def blob(directory: Path, number: int, content: bytes | None = None) -> tuple[str, Path]:
    """A digest and the path of its blob, written where content is given."""
    digest = f"{number:064x}"
    path = directory / "blobs" / f"sha256-{digest}"
    path.parent.mkdir(parents=True, exist_ok=True)
    if content is not None:
        path.write_bytes(content)
    return f"sha256:{digest}", path


def put(directory: Path, name: str, layers: object) -> None:
    """A manifest with these layers."""
    parsed = parse_name(name)
    assert parsed is not None
    path = Path(store.manifest_path(str(directory), parsed))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(layers if isinstance(layers, str) else json.dumps({"schemaVersion": 2, "layers": layers}))


def register(directory: Path, name: str, **metadata: object) -> Path:
    """A small model in the store."""
    digest, path = blob(directory, len(name))
    made.write(path, made.model_metadata(**metadata), made.model_tensors())  # type: ignore[arg-type]
    put(directory, name, [{"mediaType": KIND + "model", "digest": digest, "size": path.stat().st_size}])
    return path


@pytest.mark.parametrize(
    ("reference", "parts", "shown"),
    [
        ("qwen3:8b", ("registry.ollama.ai", "library", "qwen3", "8b"), "qwen3:8b"),
        ("qwen3", ("registry.ollama.ai", "library", "qwen3", "latest"), "qwen3:latest"),
        ("me/mine:q4", ("registry.ollama.ai", "me", "mine", "q4"), "me/mine:q4"),
        ("hf.co/a/b-GGUF:Q4_K_M", ("hf.co", "a", "b-GGUF", "Q4_K_M"), "hf.co/a/b-GGUF:Q4_K_M"),
        ("localhost:5000/a/b", ("localhost:5000", "a", "b", "latest"), "localhost:5000/a/b:latest"),
    ],
)
def test_names(reference: str, parts: tuple[str, ...], shown: str) -> None:
    found = parse_name(reference)
    assert found is not None
    assert (found.parts, str(found)) == (parts, shown)


@pytest.mark.parametrize(
    "reference", ["", "/", "..", "a/../b", "../a/b", "a:b:c/..", "a/b/c/d", "a:..", ":8b", "a b", "x" * 99]
)
def test_what_is_no_name(reference: str) -> None:
    assert parse_name(reference) is None


def test_a_model_by_its_name(tmp_path: Path) -> None:
    path = register(tmp_path, "small:1b")
    found = read_model(HOST, "small:1b", (str(tmp_path / "none"), str(tmp_path)))
    assert (found.reference, found.source_paths) == ("small:1b", (str(path),))
    assert [str(name) for name in store.list_models(HOST, str(tmp_path))] == ["small:1b"]


def test_a_name_that_is_nowhere(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as refused:
        read_model(HOST, "small:1b", (str(tmp_path),))
    assert ".gguf" in (refused.value.hint or "")
    assert store.list_models(HOST, str(tmp_path)) == ()


def test_projector_and_parameters(tmp_path: Path) -> None:
    model, path = blob(tmp_path, 1)
    made.write(path, made.model_metadata(), made.model_tensors())
    projector, _ = blob(tmp_path, 2, b"x" * 1000)
    parameters, _ = blob(tmp_path, 3, b'{"num_ctx": 8192, "stop": ["a"]}')
    layers = [("model", model), ("projector", projector), ("params", parameters)]
    put(tmp_path, "seeing", [{"mediaType": KIND + kind, "digest": digest} for kind, digest in layers])
    name = parse_name("seeing")
    assert name is not None
    stored = store.read_manifest(HOST, str(tmp_path), name)
    assert stored.own_context_tokens == 8192
    found = store.read_stored_model(HOST, stored)
    plain = read_model(HOST, str(path))
    assert found.weights_bytes == plain.weights_bytes + 1000


def test_models_that_are_no_gguf_files(tmp_path: Path) -> None:
    digest, _ = blob(tmp_path, 4, b"x")
    put(tmp_path, "mlx", [{"mediaType": KIND + "tensor", "digest": digest}])
    with pytest.raises(UnreadableInput, match="not a GGUF model"):
        read_model(HOST, "mlx", (str(tmp_path),))


@pytest.mark.parametrize(
    "layers",
    [
        "no JSON",
        "[" * 100_000,
        "[1]",
        '{"layers": 5}',
        '{"layers": [5]}',
        json.dumps({"layers": [{"mediaType": KIND + "model", "digest": "sha256:../../../etc/passwd"}]}),
        json.dumps({"layers": [{"mediaType": KIND + "model", "digest": "sha256:" + "A" * 64}]}),
        json.dumps({"layers": [{"mediaType": KIND + "model", "digest": f"sha256:{'a' * 64}"}] * 2}),
        json.dumps({"layers": [{}] * 5000}),
        json.dumps({"layers": []}) + " " * store.MAX_MANIFEST_BYTES,
    ],
    ids=range(10),
)
def test_hostile_manifests(tmp_path: Path, layers: str) -> None:
    put(tmp_path, "bad", layers)
    with pytest.raises(UnreadableInput):
        read_model(HOST, "bad", (str(tmp_path),))


@pytest.mark.parametrize("what", ["blob", "manifest", "loop"])
def test_links_out_of_the_store(tmp_path: Path, what: str) -> None:
    place, outside = tmp_path / "store", tmp_path / "outside"
    place.mkdir()
    path = register(place, "linked")
    name = parse_name("linked")
    assert name is not None
    moved = Path(store.manifest_path(str(place), name)) if what == "manifest" else path
    moved.rename(outside)
    moved.symlink_to(moved if what == "loop" else outside)
    with pytest.raises(UnreadableInput):
        read_model(HOST, "linked", (str(place),))


def test_a_store_that_is_a_link_itself(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    register(tmp_path / "disk", "small")
    (tmp_path / "store").symlink_to(tmp_path / "disk")
    assert read_model(HOST, "small", (str(tmp_path / "store"),)).reference == "small:latest"


def test_a_store_that_may_not_be_read(tmp_path: Path) -> None:
    class Closed(StoreDisk):
        def list_directory(self, path: PurePosixPath | str) -> tuple[str, ...]:
            raise PermissionError(13, "Permission denied", str(path))

    with pytest.raises(NoPermission, match="may not be read"):
        store.list_models(Closed().as_host(), str(tmp_path))


def test_where_stores_lie() -> None:
    assert store.usual_stores(HOST)[0] == "/srv/models"
    assert "/usr/share/ollama/.ollama/models" in store.usual_stores(HOST)
    assert store.usual_stores(HOST)[-1] == "/home/me/.ollama/models"


def show(**info: object) -> dict[str, object]:
    """What /api/show says of a small model."""
    tensors = [{"name": "token_embd.weight", "type": "Q4_K", "shape": [256, 64]}]
    return {"model_info": {"general.architecture": "llama", **info}, "tensors": tensors}


def test_arrays_that_the_api_hides() -> None:
    hidden = show(**{"llama.attention.head_count_kv": None, "tokenizer.ggml.tokens": None, "llama.block_count": 2})
    assert hidden_arrays(hidden) == ("llama.attention.head_count_kv",)
    assert hidden_arrays(show(**{"llama.attention.head_count_kv": [1, 2]})) == ()


def test_what_the_api_says_is_read_like_a_file() -> None:
    file = file_of_show("small", show(**{"llama.attention.head_count_kv": [1, 2]}), 100)
    assert file.metadata["llama.attention.head_count_kv"] == (1, 2)
    assert file.tensors[0].stored_bytes == 256 * 64 // 256 * 144


@pytest.mark.parametrize(
    "document",
    [
        None,
        {},
        {"model_info": {}, "tensors": []},
        {**show(), "tensors": [{"name": "a", "type": "Q4_K", "shape": [-1]}]},
        {**show(), "tensors": [{"name": "a", "type": "NEW", "shape": [1]}]},
        {**show(), "tensors": [{"name": "a", "type": "Q4_K", "shape": [True]}]},
        {**show(), "tensors": [{"name": "a", "type": "Q4_K", "shape": [100]}]},
        {**show(), "tensors": [{"name": "a", "type": "F16", "shape": [2**31]}]},
        {**show(), "tensors": [{"name": "a", "type": "F16", "shape": [2**30] * 4}]},
        {**show(), "tensors": [{"name": "a" * 64, "type": "F16", "shape": [1]}]},
        {**show(), "tensors": ["x"]},
        show(**{"k" * 2_000: 1}),
        show(**{f"k{number}": 1 for number in range(20_000)}),
        show(**{f"k{number}": "x" * 4_096 for number in range(1_100)}),
    ],
)
def test_answers_that_describe_no_model(document: object) -> None:
    with pytest.raises(UnreadableInput) as refused:
        file_of_show("small", document, 100)
    assert refused.value.message.startswith("small: /api/show ")
    assert len(refused.value.message) < 300
    assert refused.value.hint == "run llmops as root: it reads the file itself"


@pytest.mark.parametrize("value", ["x" * 4_097, [0] * 1_025, ["a"], [None], {"a": 1}, 2**64, float("nan"), [2**64]])
def test_values_that_no_file_holds_are_passed_over(value: object) -> None:
    assert isinstance(file_of_show("small", show(odd=value), 100).metadata["odd"], Skipped)
