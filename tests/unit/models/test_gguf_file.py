"""The container: damaged, hostile and cut files end in one clear error, and memory stays small."""

from __future__ import annotations

import random
import struct
import tracemalloc
from pathlib import Path, PurePosixPath

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llmops.core.errors import LlmopsError, NoPermission, UnreadableInput
from llmops.core.model import ModelSpec
from llmops.models.ggml_types import STORAGE_TYPES
from llmops.models.gguf import read_gguf
from llmops.models.gguf_file import GgufFile, Skipped, read_gguf_file
from llmops.models.gguf_reader import WINDOW_BYTES
from tests.doubles import gguf_files as made
from tests.unit.models.disk import Disk

TENSORS = made.model_tensors(layers=1, vocabulary=32)
METADATA = made.model_metadata(layers=1, vocabulary=32)
WHOLE = made.header(METADATA, TENSORS) + bytes(made.data_bytes(TENSORS))
HEADER_BYTES = len(made.header(METADATA, TENSORS))


def read(content: bytes) -> GgufFile:
    return read_gguf_file(Disk(content).as_host(), "/m.gguf")


def refusal(content: bytes) -> str:
    with pytest.raises(UnreadableInput) as refused:
        read(content)
    assert refused.value.message.startswith("/m.gguf: ")
    assert refused.value.hint
    return refused.value.message


def test_every_kind_of_value() -> None:
    numbers: dict[int, float] = {
        made.U8: 200,
        made.I8: -3,
        made.U16: 60_000,
        made.I16: -4,
        made.U32: 4_000_000_000,
        made.I32: -5,
    }
    numbers |= {made.F32: 0.5, made.BOOL: True, made.U64: 2**60, made.I64: -(2**60), made.F64: 0.25}
    metadata: dict[str, object] = {f"scalar.{kind}": made.Typed(kind, value) for kind, value in numbers.items()}
    metadata |= {f"array.{kind}": made.Array(kind, [value] * 3) for kind, value in numbers.items()}
    metadata |= {"text": "été", "long": "x" * 5000, "strings": made.Strings(7), "many": made.Array(made.U8, [1] * 2000)}
    for big_endian in (False, True):
        found = read(made.header(metadata, big_endian=big_endian)).metadata
        assert {key: found[key] for key in found if key.startswith("scalar.")} == {
            f"scalar.{kind}": value for kind, value in numbers.items()
        }
        assert all(found[f"array.{kind}"] == (value,) * 3 for kind, value in numbers.items())
        assert found["text"] == "été"
        assert (found["long"], found["strings"], found["many"]) == (Skipped(5000), Skipped(7), Skipped(2000))


def test_string_lists_are_passed_over_in_windows(tmp_path: Path) -> None:
    """Strings of every length, also longer than a window, over many windows; what follows them is still found."""
    generator = random.Random(1)
    lengths = [generator.randrange(60) for _ in range(60_000)] + [3 * WINDOW_BYTES, 0, 1]
    body = b"".join(struct.pack("<Q", length) + b"z" * length for length in lengths)
    content = struct.pack("<IQ", made.STRING, len(lengths)) + body
    path = tmp_path / "m.gguf"
    path.write_bytes(made.header({"list": made.Raw(made.ARRAY, content), "after": 7}))
    disk = Disk()
    found = read_gguf_file(disk.as_host(), str(path)).metadata
    assert found == {"list": Skipped(60_003), "after": 7}
    assert disk.largest_read <= WINDOW_BYTES
    assert disk.bytes_read < path.stat().st_size


def test_tensor_sizes_follow_ggml(tmp_path: Path) -> None:
    sizes: dict[str, float] = {
        "q4_0": 18 / 32,
        "q8_0": 34 / 32,
        "q4_K": 4.5 / 8,
        "q6_K": 6.5625 / 8,
        "iq4_xs": 4.25 / 8,
        "bf16": 2,
    }
    sizes |= {"mxfp4": 4.25 / 8, "nvfp4": 4.5 / 8, "tq1_0": 1.6875 / 8, "iq1_s": 1.5625 / 8, "iq3_xxs": 3.0625 / 8}
    known = {name: block_bytes / elements for name, elements, block_bytes in STORAGE_TYPES.values()}
    assert {name: known[name] for name in sizes} == sizes
    tensors = [made.Tensor("a", (512, 3), made.Q4_K), made.Tensor("b", (7,), made.F32_TENSOR)]
    path = made.write(tmp_path / "m.gguf", {}, tensors)
    rows = read_gguf_file(Disk().as_host(), str(path)).tensors
    assert [
        (row.name, row.dimensions, row.storage_type, row.elements, row.stored_bytes, row.offset) for row in rows
    ] == [
        ("a", (512, 3), "q4_K", 1536, 864, 0),
        ("b", (7,), "f32", 7, 28, 864),
    ]


def test_a_cut_download_is_told_with_both_sizes() -> None:
    content = WHOLE[:-1000]
    assert f"describes {len(WHOLE)} bytes, the file has {len(content)}" in refusal(content)


def test_padding_after_the_last_tensor_may_be_missing() -> None:
    tensors = [made.Tensor("a", (3,), made.F32_TENSOR)]
    assert read(made.header({}, tensors) + bytes(12)).tensors[0].stored_bytes == 12


def test_every_cut_of_the_header_is_an_error() -> None:
    for length in range(HEADER_BYTES):
        assert "truncated" in refusal(WHOLE[:length]) or length < 4


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is not a GGUF file"),
        (b"GGML" + bytes(60), "is not a GGUF file"),
        (b"version https://git-lfs.github.com/spec/v1\n", "Git LFS pointer"),
        (made.header({}, version=1), "GGUF version 1"),
        (made.header({}, version=4), "GGUF version 4"),
        (b"GGUF" + struct.pack("<IQQ", 3, 2**63, 1), "more than any model"),
        (b"GGUF" + struct.pack("<IQQ", 3, 1, 2**63), "more than any model"),
        (b"GGUF" + struct.pack("<IQQQ", 3, 0, 1, 2**62), "a metadata key at byte 24"),
        (made.header({"": 1}), "is empty or there twice"),
        (made.header({"k": made.Raw(99, b"")}), "unknown type 99"),
        (made.header({"k": made.Raw(made.ARRAY, struct.pack("<IQ", made.ARRAY, 1))}), "array of the unknown type 9"),
        (made.header({"k": made.Raw(made.ARRAY, struct.pack("<IQ", made.STRING, 2**61))}), "is truncated"),
        (made.header({"k": made.Raw(made.ARRAY, struct.pack("<IQQ", made.STRING, 2, 2**64 - 1))}), "is truncated"),
        (made.header({"k": made.Raw(made.ARRAY, struct.pack("<IQ", made.U64, 2**61))}), "is truncated"),
        (made.header({"k": made.Raw(made.STRING, struct.pack("<Q", 2**63))}), "is truncated"),
        (made.header({"general.alignment": 24}), "not a power of two"),
        (made.header({"general.alignment": "32"}), "not a power of two"),
        (made.header({}, [made.Tensor("n" * 64, (1,))]), "a tensor name"),
        (made.header({}, [made.Tensor("a", (1, 1, 1, 1, 1))]), "claims 5 dimensions"),
        (made.header({}, [made.Tensor("a", (31,), made.Q4_0)]), "impossible shape"),
        (made.header({}, [made.Tensor("a", (2**40, 2**40))]), "impossible shape"),
        (made.header({}, [made.Tensor("a", (1,)), made.Tensor("a", (1,))]), "is there twice"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_damage_is_named(content: bytes, message: str) -> None:
    assert message in refusal(content)


def test_a_key_that_is_there_twice() -> None:
    once = made.header({"key": 1})
    entry = once[24:].rstrip(b"\0") + bytes(3)
    assert "there twice" in refusal(b"GGUF" + struct.pack("<IQQ", 3, 0, 2) + entry + entry)


def test_a_removed_storage_type_and_a_gap_between_tensors() -> None:
    one = made.header({}, [made.Tensor("a", (32,), made.Q4_0)]) + bytes(32)
    at = one.index(b"a") + 1 + 4 + 8
    assert "stored as type 4" in refusal(one[:at] + struct.pack("<I", 4) + one[at + 4 :])
    assert "said to begin at byte 64" in refusal(one[: at + 4] + struct.pack("<Q", 64) + one[at + 12 :])


def test_missing_forbidden_and_broken_files(tmp_path: Path) -> None:
    class Broken(Disk):
        def __init__(self, problem: OSError) -> None:
            super().__init__(WHOLE)
            self.problem = problem

        def read_bytes(self, path: PurePosixPath | str, offset: int, length: int) -> bytes:
            raise self.problem

    with pytest.raises(UnreadableInput, match="no such file"):
        read_gguf(Disk().as_host(), str(tmp_path / "absent.gguf"))
    with pytest.raises(UnreadableInput, match="is a directory, not a model file"):
        read_gguf(Disk().as_host(), str(tmp_path))
    with pytest.raises(NoPermission):
        read_gguf(Broken(PermissionError(13, "Permission denied")).as_host(), "/m.gguf")
    with pytest.raises(UnreadableInput, match="Input/output error"):
        read_gguf(Broken(OSError(5, "Input/output error")).as_host(), "/m.gguf")


def test_a_file_that_shrinks_while_it_is_read() -> None:
    class Shrinking(Disk):
        def read_bytes(self, path: PurePosixPath | str, offset: int, length: int) -> bytes:
            return super().read_bytes(path, offset, length)[: length // 2]

    with pytest.raises(UnreadableInput, match="became shorter"):
        read_gguf(Shrinking(WHOLE).as_host(), "/m.gguf")


def test_hostile_counts_stay_within_64_mib_of_memory(tmp_path: Path) -> None:
    """The most that the limits let through: entries, kept arrays and tensor rows, each as large as allowed."""
    metadata: dict[str, object] = {f"{number:0900}": number for number in range(500)}
    metadata |= {f"array.{number}": made.Array(made.U64, [2**60 + number] * 1024) for number in range(400)}
    metadata |= {"strings": made.Strings(200_000), "blob": "x" * 8_000_000}
    tensors = [made.Tensor(f"{number:063}", (1, 1, 1, 1), made.F32_TENSOR) for number in range(32_768)]
    path = made.write(tmp_path / "m.gguf", metadata, tensors)
    tracemalloc.start()
    try:
        read_gguf_file(Disk().as_host(), str(path))
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak_bytes < 64 * 1024 * 1024


def test_metadata_beyond_the_limit_are_refused() -> None:
    metadata = {f"array.{number}": made.Array(made.U64, [1] * 1024) for number in range(520)}
    assert "larger than any model's" in refusal(made.header(metadata))


@settings(max_examples=400, deadline=None, derandomize=True)
@given(st.data())
def test_any_damage_gives_an_error_of_ours_or_a_model(data: st.DataObject) -> None:
    """Bytes of the header changed, and the end cut off."""
    content = bytearray(WHOLE)
    changes = data.draw(st.lists(st.tuples(st.integers(0, HEADER_BYTES - 1), st.integers(0, 255)), max_size=4))
    for position, value in changes:
        content[position] = value
    cut = data.draw(st.one_of(st.just(len(content)), st.integers(0, len(content))))
    try:
        spec = read_gguf(Disk(bytes(content[:cut])).as_host(), "/m.gguf")
    except LlmopsError as refused:
        assert refused.message.startswith("/m.gguf: ")
        assert refused.hint
    else:
        assert isinstance(spec, ModelSpec)
