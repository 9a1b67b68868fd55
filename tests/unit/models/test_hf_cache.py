"""Repository ids in the local cache of the Hugging Face hub."""

from __future__ import annotations

from pathlib import Path

import pytest

from llmops.core.errors import NoPermission, UnreadableInput
from llmops.host import FileStatus
from llmops.models.hf_cache import (
    Repository,
    caches_of,
    find_snapshot,
    parse_repository,
    usual_caches,
)
from llmops.models.hf_files import ModelDirectory
from tests.unit.models.hub import COMMIT, OTHER, HubDisk, llama_tensors, put_in_cache, write_model

DISK = HubDisk()
HOST = DISK.as_host()
NAMED = Repository("org", "name", None)


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    put_in_cache(tmp_path / "hub", write_model(tmp_path / "model", llama_tensors(), files=2))
    return tmp_path / "hub"


def refusal(cache: Path, revision: str | None = None) -> UnreadableInput:
    with pytest.raises(UnreadableInput) as refused:
        find_snapshot(HOST, NAMED._replace(revision=revision), (str(cache),))
    assert refused.value.hint
    return refused.value


@pytest.mark.parametrize(
    ("reference", "found"),
    [
        ("Qwen/Qwen3-8B", Repository("Qwen", "Qwen3-8B", None)),
        ("a/b.c_d@refs/pr/1", Repository("a", "b.c_d", "refs/pr/1")),
        ("a/b@main", Repository("a", "b", "main")),
        ("qwen3:8b", None),
        ("a/b:q4", None),
        ("a", None),
        ("a/b/c", None),
        ("../b", None),
        ("a/..", None),
        ("a/b@../x", None),
        ("a/b@x/../y", None),
        ("a--b/c", None),
        ("a/b\n", None),
        ("/a/b", None),
    ],
)
def test_references(reference: str, found: Repository | None) -> None:
    assert parse_repository(reference) == found


@pytest.mark.parametrize(
    ("environment", "place"),
    [
        ({"HOME": "/home/me"}, "/home/me/.cache/huggingface/hub"),
        ({"HOME": "/home/me", "HF_HOME": "/srv/hf"}, "/srv/hf/hub"),
        ({"HOME": "/home/me", "XDG_CACHE_HOME": "/x"}, "/x/huggingface/hub"),
        ({"HOME": "/home/me", "HF_HUB_CACHE": "~/hub", "HF_HOME": "/srv"}, "/home/me/hub"),
        ({"HUGGINGFACE_HUB_CACHE": "/old"}, "/old"),
    ],
)
def test_where_a_cache_lies(environment: dict[str, str], place: str) -> None:
    assert caches_of(environment) == (place,)


def test_without_a_home_there_is_no_cache() -> None:
    assert caches_of({}) == caches_of({"HF_HOME": "relative"}) == ()
    assert caches_of({}, "/var/lib/vllm") == ("/var/lib/vllm/.cache/huggingface/hub",)


def test_the_own_cache_comes_first() -> None:
    assert usual_caches(HubDisk(HOME="/home/me").as_host())[:2] == (
        "/home/me/.cache/huggingface/hub",
        "/root/.cache/huggingface/hub",
    )


def test_the_default_revision(cache: Path) -> None:
    place = cache / "models--org--name" / "snapshots"
    put_in_cache(cache.parent / "more", cache.parent / "model", commit=OTHER)
    (place / OTHER).mkdir()
    assert find_snapshot(HOST, NAMED, (str(cache.parent / "none"), str(cache))) == str(place / COMMIT)


@pytest.mark.parametrize("revision", ["main", COMMIT, COMMIT[:7]])
def test_a_revision_by_name_and_by_commit(cache: Path, revision: str) -> None:
    found = find_snapshot(HOST, NAMED._replace(revision=revision), (str(cache),))
    assert found == str(cache / "models--org--name" / "snapshots" / COMMIT)


def test_the_only_revision_needs_no_name(tmp_path: Path) -> None:
    put_in_cache(tmp_path / "hub", write_model(tmp_path / "model"), ref="")
    assert str(find_snapshot(HOST, NAMED, (str(tmp_path / "hub"),))).endswith(COMMIT)


def test_a_revision_that_is_not_there(cache: Path) -> None:
    refused = refusal(cache, "v2")
    assert f"revision v2 of the model is not in the cache; there are {COMMIT[:12]}" in refused.message
    assert f"org/name@{COMMIT[:12]}" in (refused.hint or "")


def test_several_revisions_and_no_default(cache: Path) -> None:
    (cache / "models--org--name" / "refs" / "main").unlink()
    (cache / "models--org--name" / "snapshots" / OTHER).mkdir()
    assert f"{COMMIT[:12]}, {OTHER[:12]}" in refusal(cache).message


@pytest.mark.parametrize("text", ["../../../etc", "", "A" * 40, "a" * 41, "\x1b[2J"])
def test_a_reference_that_is_no_commit(cache: Path, text: str) -> None:
    (cache / "models--org--name" / "refs" / "main").write_text(text)
    assert "which is no commit" in refusal(cache).message


def test_a_download_that_has_just_begun(tmp_path: Path) -> None:
    (tmp_path / "models--org--name" / "blobs").mkdir(parents=True)
    refused = refusal(tmp_path)
    assert "nothing of the model was downloaded yet" in refused.message
    assert "hf download org/name" in (refused.hint or "")


def test_a_snapshot_without_its_configuration(cache: Path) -> None:
    place = cache / "models--org--name"
    (place / "snapshots" / COMMIT / "config.json").unlink()
    (place / "blobs" / "1.incomplete").touch()
    refused = refusal(cache)
    assert "config.json of the model is missing" in refused.message
    assert "1 of its downloads were not finished" in (refused.hint or "")


def test_absent_and_forbidden_caches(tmp_path: Path) -> None:
    class Forbidden(HubDisk):
        def status(self, path: object) -> FileStatus:
            raise PermissionError(13, "Permission denied")

    assert find_snapshot(HOST, NAMED, (str(tmp_path),)) is None
    with pytest.raises(NoPermission):
        find_snapshot(Forbidden().as_host(), NAMED, (str(tmp_path),))


def test_links_lead_to_the_blobs_and_nowhere_else(cache: Path) -> None:
    snapshot = cache / "models--org--name" / "snapshots" / COMMIT
    (cache / "secret").write_text("{}")
    (snapshot / "generation_config.json").symlink_to(cache / "secret")
    directory = ModelDirectory(HOST, str(snapshot))
    assert directory.file("config.json") == str(snapshot / "config.json")
    with pytest.raises(UnreadableInput, match="is a link out of the model's directory"):
        directory.file("generation_config.json")


def test_a_plain_directory_has_no_blobs(cache: Path, tmp_path: Path) -> None:
    (tmp_path / "plain").mkdir()
    blob = next((cache / "models--org--name" / "blobs").iterdir())
    (tmp_path / "plain" / "config.json").symlink_to(blob)
    with pytest.raises(UnreadableInput, match="is a link out of the model's directory"):
        ModelDirectory(HOST, str(tmp_path / "plain")).file("config.json")


def test_which_files_are_the_weights(tmp_path: Path) -> None:
    for name in ("model.safetensors", "consolidated.safetensors", "adapter_model.safetensors", "README.md"):
        (tmp_path / name).touch()
    assert ModelDirectory(HOST, str(tmp_path)).weight_files() == ("model.safetensors",)
    (tmp_path / "model.safetensors").unlink()
    assert ModelDirectory(HOST, str(tmp_path)).weight_files() == ("consolidated.safetensors",)


def test_missing_parts_are_named(tmp_path: Path) -> None:
    (tmp_path / "model-00002-of-00009.safetensors").touch()
    (tmp_path / ".cache" / "huggingface" / "download").mkdir(parents=True)
    (tmp_path / ".cache" / "huggingface" / "download" / "x.incomplete").touch()
    with pytest.raises(UnreadableInput, match=r"missing: model-00001-of-00009\.safetensors, model-00003") as refused:
        ModelDirectory(HOST, str(tmp_path)).weight_files()
    assert "and 3 more" in refused.value.message
    assert "1 of its downloads were not finished" in (refused.value.hint or "")
