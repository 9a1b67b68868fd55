"""What --model may name."""

from __future__ import annotations

from pathlib import Path

import pytest

from llmops.core.errors import UnreadableInput, UsageError
from llmops.models import read_model
from tests.doubles import gguf_files as made
from tests.unit.models.hub import HubDisk

HOST = HubDisk().as_host()


@pytest.mark.parametrize("name", ["m.gguf", "M.GGUF", "sha256-0a1b"])
def test_a_file(tmp_path: Path, name: str) -> None:
    path = made.write(tmp_path / name, made.model_metadata(), made.model_tensors())
    assert read_model(HOST, str(path)).reference == str(path)


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(UnreadableInput, match="no such file"):
        read_model(HOST, str(tmp_path / "absent.gguf"))


@pytest.mark.parametrize("reference", ["qwen3:8b", "org/repository", "", "../x"])
def test_references_that_name_nothing(reference: str) -> None:
    with pytest.raises(UsageError) as refused:
        read_model(HOST, reference)
    assert ".gguf" in (refused.value.hint or "")


def test_a_name_that_no_store_holds_is_not_called_unreadable() -> None:
    with pytest.raises(UsageError, match="no store of Ollama on this machine holds 'qwen3:8b'") as refused:
        read_model(HOST, "qwen3:8b")
    assert (refused.value.hint or "").startswith("get it: ollama pull qwen3:8b; or give --model")


def test_a_path_to_nothing_is_said_to_be_one() -> None:
    for reference in ("/srv/models/absent", "./absent", "~/absent"):
        with pytest.raises(UsageError, match="nothing is there"):
            read_model(HOST, reference)


@pytest.mark.parametrize("address", ["https://huggingface.co/org/name", "hf.co/org/name/tree/main"])
def test_an_address_is_answered_with_the_name(address: str) -> None:
    with pytest.raises(UsageError, match="is an address") as refused:
        read_model(HOST, address)
    assert refused.value.hint == "give --model org/name"


def test_a_directory(tmp_path: Path) -> None:
    with pytest.raises(UnreadableInput, match=r"is not a model: it holds no config\.json"):
        read_model(HOST, str(tmp_path))
