"""Models in several files."""

from __future__ import annotations

from pathlib import Path

import pytest

from llmops.core.errors import UnreadableInput
from llmops.models.gguf import read_gguf
from tests.doubles import gguf_files as made
from tests.unit.models.disk import Disk

HOST = Disk().as_host()


@pytest.fixture
def parts(tmp_path: Path) -> tuple[Path, ...]:
    return made.write_split(tmp_path, "big", made.model_metadata(), made.model_tensors(), 3)


def test_all_parts_are_one_model(tmp_path: Path, parts: tuple[Path, ...]) -> None:
    whole = read_gguf(HOST, str(made.write(tmp_path / "whole.gguf", made.model_metadata(), made.model_tensors())))
    split = read_gguf(HOST, str(parts[0]))
    assert (split.parameters, split.weights_bytes, split.tensors) == (
        whole.parameters,
        whole.weights_bytes,
        whole.tensors,
    )
    assert split.file_bytes == sum(part.stat().st_size for part in parts)
    assert split.source_paths == tuple(str(part) for part in parts)
    assert not split.tied_output


def test_a_later_part_names_the_first(parts: tuple[Path, ...]) -> None:
    with pytest.raises(UnreadableInput, match="is part 2 of 3") as refused:
        read_gguf(HOST, str(parts[1]))
    assert str(parts[0]) in (refused.value.hint or "")


def test_a_missing_part_is_named(parts: tuple[Path, ...]) -> None:
    parts[2].unlink()
    with pytest.raises(UnreadableInput, match=r"00003-of-00003\.gguf: is missing: part 3 of 3") as refused:
        read_gguf(HOST, str(parts[0]))
    assert "download it again" in (refused.value.hint or "")


def test_a_cut_part_is_named(parts: tuple[Path, ...]) -> None:
    with parts[1].open("r+b") as file:
        file.truncate(parts[1].stat().st_size - 64)
    with pytest.raises(UnreadableInput, match=r"00002-of-00003\.gguf: is truncated"):
        read_gguf(HOST, str(parts[0]))


def test_swapped_parts(parts: tuple[Path, ...]) -> None:
    parts[1].write_bytes(parts[2].read_bytes())
    with pytest.raises(UnreadableInput, match="says it is part 2, not 1"):
        read_gguf(HOST, str(parts[0]))


def test_parts_of_another_model(tmp_path: Path, parts: tuple[Path, ...]) -> None:
    (tmp_path / "other").mkdir()
    other = made.write_split(tmp_path / "other", "big", {}, made.model_tensors()[:6], 3)
    parts[2].write_bytes(other[2].read_bytes())
    with pytest.raises(UnreadableInput, match="its 3 parts hold"):
        read_gguf(HOST, str(parts[0]))


def test_a_renamed_first_part(tmp_path: Path, parts: tuple[Path, ...]) -> None:
    renamed = parts[0].rename(tmp_path / "model.gguf")
    with pytest.raises(UnreadableInput, match=r"its name does not end in -00001-of-00003\.gguf"):
        read_gguf(HOST, str(renamed))


def test_nonsense_counts(tmp_path: Path) -> None:
    metadata = {**made.model_metadata(), "split.count": made.Typed(made.U32, 4_000_000_000)}
    path = made.write(tmp_path / "m-00001-of-4000000000.gguf", metadata, made.model_tensors())
    with pytest.raises(UnreadableInput, match="part 1 of 4000000000"):
        read_gguf(HOST, str(path))
    with pytest.raises(UnreadableInput, match=r"split\.count is 'three'"):
        read_gguf(HOST, str(made.write(path, {**metadata, "split.count": "three"}, made.model_tensors())))
