"""The header of a .safetensors file and the index over several of them."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from llmops.core.errors import UnreadableInput
from llmops.models.safetensors import Headers, Kind, read_safetensors
from llmops.models.safetensors_index import Listed, read_index
from tests.doubles import safetensors_files as made
from tests.unit.models.disk import Disk

HOST = Disk().as_host()
DENSE = {"a.weight": ("BF16", (4, 8)), "b.bias": ("F32", (8,)), "scalar": ("I64", ()), "none": ("F16", (0, 3))}


def kinds(path: Path) -> dict[Kind, int]:
    headers = Headers()
    read_safetensors(HOST, str(path), headers)
    return headers.kinds()


def refusal(path: Path) -> str:
    with pytest.raises(UnreadableInput) as refused:
        kinds(path)
    assert refused.value.hint
    assert refused.value.message.startswith(f"{path}: ")
    return refused.value.message


def raw(path: Path, text: str | bytes, data: int = 0) -> Path:
    content = made.framed(text.encode() if isinstance(text, str) else text)
    path.write_bytes(content + bytes(data))
    return path


def entry(data_type: str, shape: object, begin: int, end: int) -> dict[str, object]:
    return {"dtype": data_type, "shape": shape, "data_offsets": [begin, end]}


def test_every_tensor_with_its_type_and_size(tmp_path: Path) -> None:
    found = kinds(made.write(tmp_path / "m.safetensors", DENSE))
    assert found == {Kind(name, *described): 1 for name, described in DENSE.items()}
    assert {kind.name: kind.stored_bytes for kind in found} == {"a.weight": 64, "b.bias": 32, "scalar": 8, "none": 0}


def test_experts_are_one_kind(tmp_path: Path) -> None:
    tensors: made.Shapes = {
        f"model.layers.{layer}.mlp.experts.{n}.up_proj.weight": ("F8_E4M3", (4, 4)) for layer in (0, 1) for n in (0, 10)
    }
    tensors = {
        **tensors,
        "model.layers.0.mlp.experts.gate_up_proj": ("BF16", (2, 4, 4)),
        "x.shared_experts.0.w": ("F16", (2,)),
    }
    assert kinds(made.write(tmp_path / "m.safetensors", tensors)) == {
        Kind("model.layers.0.mlp.experts.*.up_proj.weight", "F8_E4M3", (4, 4)): 2,
        Kind("model.layers.1.mlp.experts.*.up_proj.weight", "F8_E4M3", (4, 4)): 2,
        Kind("model.layers.0.mlp.experts.gate_up_proj", "BF16", (2, 4, 4)): 1,
        Kind("x.shared_experts.0.w", "F16", (2,)): 1,
    }


@pytest.mark.parametrize(
    ("data_type", "shape", "size"),
    [
        ("F4", (3, 2), 3),
        ("F6_E2M3", (4,), 3),
        ("F8_E8M0", (5,), 5),
        ("U8", (5,), 5),
        ("BF16", (5,), 10),
        ("C64", (2,), 16),
    ],
)
def test_types_by_their_bits(tmp_path: Path, data_type: str, shape: tuple[int, ...], size: int) -> None:
    text = json.dumps({"t": entry(data_type, list(shape), 0, size)})
    assert [kind.stored_bytes for kind in kinds(raw(tmp_path / "m", text, size))] == [size]


def test_any_order_any_blanks_any_escape(tmp_path: Path) -> None:
    text = (
        '{ "__metadata__" : {"format":"pt", "a":"}\\"{"} ,\n "\\u0061" :{"data_offsets":[ 4 , 12 ],\t"shape":[2 ,2],'
        ' "dtype":"F16","more":1},"b":{"dtype":"F16","shape":[ 2 ],"data_offsets":[0,4]} }   '
    )
    assert kinds(raw(tmp_path / "m", text, 12)) == {Kind("a", "F16", (2, 2)): 1, Kind("b", "F16", (2,)): 1}


def test_a_writer_that_sorts_everything(tmp_path: Path) -> None:
    text = json.dumps(made.entries(DENSE), sort_keys=True)
    found = kinds(raw(tmp_path / "m", text, made.data_bytes(DENSE)))
    assert found == {Kind(name, *described): 1 for name, described in DENSE.items()}


def test_a_long_header_is_read_in_pieces(tmp_path: Path) -> None:
    tensors = {f"blocks.{n}.experts.{n}.{'x' * 200}": ("F16", (n % 7 + 1,)) for n in range(6_000)}
    path = made.write(tmp_path / "m.safetensors", tensors)
    disk = Disk()
    headers = Headers()
    assert read_safetensors(disk.as_host(), str(path), headers).tensors == 6_000
    assert sum(kind.stored_bytes * count for kind, count in headers.kinds().items()) == made.data_bytes(tensors)
    assert disk.largest_read <= 256 * 1024 < disk.bytes_read


TWO = {"a": entry("F16", [4], 0, 8), "b": entry("F16", [4], 8, 16)}
WRONG = {
    "overlap": (TWO | {"b": entry("F16", [4], 4, 12)}, 16, "do not fill its 16 bytes"),
    "the same place twice": (TWO | {"b": entry("F16", [4], 0, 8)}, 8, "do not fill its 8 bytes"),
    "three in one place": ({name: entry("F16", [4], 0, 8) for name in "abc"}, 8, "do not fill"),
    "hole": (TWO | {"b": entry("F16", [4], 10, 18)}, 18, "do not fill"),
    "data left over": (TWO, 20, "do not fill its 20 bytes"),
    "data missing": (TWO, 12, "'b' of 8 bytes is said to lie at 8 to 16 of 12 bytes of data"),
    "wrong length": ({"a": entry("F16", [4], 0, 9)}, 9, "of 8 bytes is said to lie at 0 to 9"),
    "backwards": ({"a": entry("F16", [4], 8, 0)}, 8, "is said to lie at 8 to 0"),
    "unknown type": ({"a": entry("Q9_X", [4], 0, 8)}, 8, "'Q9_X', which is not known"),
    "half a byte": ({"a": entry("F4", [3], 0, 1)}, 1, "the impossible shape"),
    "absurd": ({"a": entry("F16", [2**40, 2**40], 0, 8)}, 8, "the impossible shape"),
    "many dimensions": ({"a": entry("F16", [1] * 9, 0, 2)}, 2, "the impossible shape"),
    "negative": ({"a": entry("F16", [-2, -2], 0, 8)}, 8, "is described as"),
    "float": ({"a": entry("F16", [4.0], 0, 8)}, 8, "is described as"),
    "no list": ({"a": entry("F16", 4, 0, 8)}, 8, "is described as"),
    "nested": ({"a": {"b": TWO}}, 8, "is broken at byte"),
    "number": ({"a": 5}, 8, "is broken at byte"),
    "no name": ({"": entry("F16", [4], 0, 8)}, 8, "with a name of 0 bytes"),
    "metadata": ({"__metadata__": {"a": 1}}, 0, "is broken at byte"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_cannot_be(tmp_path: Path, case: str) -> None:
    document, data, message = WRONG[case]
    assert message in refusal(raw(tmp_path / "m.safetensors", json.dumps(document), data))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "it is empty"),
        (b"GGUF\3\0\0\0", "is not a safetensors file: it begins with b'GGUF"),
        (b"version https://git-lfs.github.com/spec/v1\n", "is a Git LFS pointer"),
        (made.framed(b"{}")[:-1], "is truncated: its header needs 10 bytes, the file has 9"),
        (made.framed(b"[]"), "is broken at byte 8: b'[]'"),
        (made.framed(b"{} x"), "is broken at byte 11: b'x'"),
        (made.framed(b'{"a":{"dtype":"F16","shape":[],"data_offsets":[0,2]}} "b":{}') + b"xx", "is broken at byte"),
        (made.framed(b'{"a'), "is broken at byte 9"),
        (made.framed(b'{"a":{"dtype":"F16","shape":[],"data_offsets":[0,2]},}') + b"xx", "is broken at byte"),
        (made.framed(b'{"\xff\\n":{"dtype":"F16","shape":[],"data_offsets":[0,2]}}') + b"xx", "UTF-8"),
    ],
)  # fmt: skip
def test_no_header(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "m.safetensors"
    path.write_bytes(content)
    assert message in refusal(path)


def test_a_name_twice(tmp_path: Path) -> None:
    one = json.dumps(entry("F16", [4], 0, 8))
    other = json.dumps(entry("F16", [4], 8, 16))
    assert "1 of its tensors are there twice" in refusal(raw(tmp_path / "m", f'{{"a":{one},"a":{other}}}', 16))


def test_an_empty_header(tmp_path: Path) -> None:
    assert kinds(raw(tmp_path / "m", "{}      ")) == {}


def test_a_directory(tmp_path: Path) -> None:
    assert "is a directory" in refusal(tmp_path)


def test_the_index_agrees_with_the_files(tmp_path: Path) -> None:
    tensors = {f"l.{n}.weight": ("BF16", (n + 1, 8)) for n in range(50)}
    listed = read_index(HOST, str(made.write_split(tmp_path, tensors, 3)))
    assert [*listed] == [f"model-0000{n}-of-00003.safetensors" for n in (1, 2, 3)]
    headers = Headers()
    for name, row in listed.items():
        assert read_safetensors(HOST, str(tmp_path / name), headers)[:2] == row
    assert sum(kind.stored_bytes for kind in headers.kinds()) == made.data_bytes(tensors)


def index(path: Path, text: str) -> dict[str, Listed]:
    path.write_text(text, encoding="utf-8")
    return read_index(HOST, str(path))


def test_an_index_with_other_members_and_escapes(tmp_path: Path) -> None:
    text = (
        '{"a":1.5e3,"weight_map":{"\\u0061":"x.safetensors","b":"\\u0078.safetensors"},'
        '"metadata":{"x":"}","y":null},"e":{}}'
    )
    assert index(tmp_path / "i", text) == {"x.safetensors": Listed(2, hash(b"a") + hash(b"b"))}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{}", "has no 'weight_map'"),
        ('{"weight_map":{}}', "has no 'weight_map'"),
        ('{"weight_map":{"a":"x.safetensors"},"weight_map":{"a":"x.safetensors"}}', "twice"),
        ('{"weight_map":{"a":"../x.safetensors"}}', "which is no .safetensors file beside it"),
        ('{"weight_map":{"a":"\\u001b.safetensors"}}', "which is no .safetensors file beside it"),
        ('{"weight_map":{"a":"x.bin"}}', "which is no .safetensors file beside it"),
        ('{"weight_map":{"a":1}}', "is broken at byte"),
        ('{"weight_map":["a"]}', "is broken at byte"),
        ('{"weight_map":{"a":"x.safetensors"}', "is broken at byte"),
        ('{"metadata":{"a":[1]},"weight_map":{"a":"x.safetensors"}}', "is broken at byte"),
        ('{"weight_map":{"a":"x.safetensors"} "b":"x.safetensors"}', "is broken at byte"),
        ("[1]", "is broken at byte 0"),
        ("", "is broken at byte 0"),
    ],
)  # fmt: skip
def test_an_index_that_is_none(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(UnreadableInput) as refused:
        index(tmp_path / "i", text)
    assert message in refused.value.message


def test_an_index_of_a_terabyte(tmp_path: Path) -> None:
    (tmp_path / "i").touch()
    os.truncate(tmp_path / "i", 1 << 40)
    with pytest.raises(UnreadableInput, match="has 1099511627776 bytes"):
        read_index(HOST, str(tmp_path / "i"))
