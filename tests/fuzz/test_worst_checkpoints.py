"""The most work and memory that the limits of the checkpoint readers let through, laid out on a real disk."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from llmops.core.errors import UnreadableInput
from llmops.host.local import LocalHost
from llmops.models import read_model
from llmops.models.json_file import MAX_BYTES
from llmops.models.safetensors import MAX_KINDS, MAX_TENSORS, MAX_UNUSUAL
from tests.doubles import safetensors_files as made
from tests.fuzz.checkpoint_inputs import CONFIG, SHARDS
from tests.fuzz.limits import peak_bytes, under_limits

HOST = LocalHost()
ASTRAL = "\N{GRINNING FACE}"
LAYER = '"model.layers.0.w":{"dtype":"F16","shape":[1],"data_offsets":[0,2]}'


@pytest.fixture
def model(tmp_path: Path) -> Path:
    (tmp_path / "config.json").write_text(json.dumps(CONFIG), encoding="utf-8")
    return tmp_path


def reading(path: Path) -> Callable[[], object]:
    return lambda: read_model(HOST, str(path))


def refusal(path: Path, *, weighed: bool = True) -> str:
    with pytest.raises(UnreadableInput) as refused:
        reading(path)()
    assert under_limits(reading(path)).kind in {"unreadable_input", "unknown_architecture"}
    if weighed:  # slow where millions of small things come and go
        peak_bytes(reading(path))
    return refused.value.message


def header(model: Path, text: bytes, data: int) -> Path:
    content = made.framed(text)
    path = model / "model.safetensors"
    path.write_bytes(content)
    os.truncate(path, len(content) + data)
    return model


def experts(count: int, *, start: int = 0, name: str = "w") -> bytes:
    """Tensors of one kind, the last one first, so that no two of them follow each other."""
    places = range(start + count - 1, start - 1, -1)
    entry = '"a.experts.%d.' + name + '":{"dtype":"F16","shape":[1],"data_offsets":[%d,%d]}'
    return ",".join([entry % (n, 2 + 2 * n, 4 + 2 * n) for n in places]).encode()


def test_the_most_tensors_of_one_file(model: Path) -> None:
    text = b"{" + LAYER.encode() + b"," + experts(MAX_TENSORS - 1) + b"}"
    header(model, text, 2 * MAX_TENSORS)
    assert under_limits(reading(model)).kind == "read"


def test_more_tensors_than_any_model(model: Path) -> None:
    header(model, b"{" + experts(MAX_TENSORS + 1, start=-1) + b"}", 2 * MAX_TENSORS + 2)
    assert f"more than {MAX_TENSORS} tensors" in refusal(model, weighed=False)


def test_more_kinds_than_any_model(model: Path) -> None:
    """Long names, each of its own."""
    entry = '"%05d' + "n" * 500 + '":{"dtype":"F16","shape":[' + "1," * 7 + '1],"data_offsets":[%d,%d]}'
    text = ",".join([entry % (n, 2 * n, 2 * n + 2) for n in range(MAX_KINDS + 1)])
    header(model, b"{" + text.encode() + b"}", 2 * MAX_KINDS + 2)
    assert f"more than {MAX_KINDS} kinds" in refusal(model)


def test_the_most_kinds_with_packed_weights(model: Path) -> None:
    """Every matrix is compared with every pattern of the quantisation."""
    patterns = [f"re:.*{'a' * 40}{number}.*{'b' * 40}" for number in range(250)]
    group = {"targets": patterns, "weights": {"num_bits": 4, "group_size": 32}}
    quantised = {"quant_method": "compressed-tensors", "format": "pack-quantized", "config_groups": {"g": group}}
    (model / "config.json").write_text(json.dumps(CONFIG | {"quantization_config": quantised}), encoding="utf-8")
    entry = '"%05d.' + "a." * 14 + 'weight_packed":{"dtype":"I32","shape":[1,1],"data_offsets":[%d,%d]}'
    text = ",".join([entry % (n, 4 * n, 4 * n + 4) for n in range(MAX_KINDS)])
    header(model, b"{" + text.encode() + b"}", 4 * MAX_KINDS)
    assert "kinds of packed tensors" in refusal(model, weighed=False)


def test_entries_in_an_unusual_form(model: Path) -> None:
    entry = '"\\u0061.experts.%d.w":{"shape":[1],"data_offsets":[%d,%d],"dtype":"F16"}'
    text = ",".join([entry % (n, 2 * n, 2 * n + 2) for n in range(MAX_UNUSUAL + 1)])
    header(model, b"{" + text.encode() + b"}", 2 * MAX_UNUSUAL + 2)
    assert "that are not described as usual" in refusal(model, weighed=False)


@pytest.mark.parametrize(
    "text",
    [
        b'{"__metadata__":{"a":"' + b"\\" * 10_000_000 + b'"}}',
        b'{"__metadata__":{"a":"' + b"x" * 10_000_000 + b'"}}',
        b'{"__metadata__":{' + b'"":"",' * 2_000_000 + b'"":""}}',
        b'{"__metadata__":' + b"{" * 10_000_000,
        b'{"a":' + b"[" * 10_000_000,
        b'{"a":{"dtype":"' + b"F" * 10_000_000,
        b"{" + b" " * 60_000_000 + b"}",
        b"{}" + b" " * 60_000_000 + b"x",
        b"{" + b" " * 60_000_000,
        b'{"' + b"a" * 10_000_000 + b'":{}}',
        b'{"' + b"\\u0000" * 2_000_000 + b'":{}}',
        ('{"' + ASTRAL * 200 + '":{').encode(),
    ],
    ids=["escapes", "text", "pairs", "objects", "lists", "type", "blanks", "end", "cut", "name", "escaped", "astral"],
)  # fmt: skip
def test_headers_that_are_long_for_nothing(model: Path, text: bytes) -> None:
    assert "model.safetensors: " in refusal(header(model, text, 0))


def test_a_header_that_is_a_hole(model: Path) -> None:
    path = model / "model.safetensors"
    path.write_bytes((100_000_000).to_bytes(8, "little") + b"{")
    os.truncate(path, 1 << 40)
    assert "is broken at byte 9" in refusal(model)


def index(model: Path, text: bytes) -> Path:
    (model / "model.safetensors.index.json").write_bytes(text)
    return model


def test_the_longest_index(model: Path) -> None:
    """As many tensors as are let in, in two files of which neither holds one."""
    for shard in SHARDS:
        made.write(model / shard, {})
    names = [f'"{number:06}{"n" * 100}":"{SHARDS[number % 2]}"' for number in range(MAX_TENSORS)]
    index(model, b'{"weight_map":{' + ",".join(names).encode() + b"}}")
    assert "holds 0 tensors, and the index lists 150000 in it" in refusal(model, weighed=False)


@pytest.mark.parametrize(
    "text",
    [
        b'{"weight_map":{' + b",".join(b'"%d":"%d.safetensors"' % (n, n) for n in range(200_000)) + b"}}",
        b'{"weight_map":{' + b",".join(b'"\\u0061%d":"a.safetensors"' % n for n in range(200_000)) + b"}}",
        b'{"weight_map":' + b"[" * 10_000_000,
        b'{"metadata":{' + b'"a":"",' * 1_000_000 + b'"":""}}',
        b"{" + b'"a":"",' * 1_000_000 + b'"":""}',
        b'{"metadata":"' + b"\\\\" * 10_000_000 + b'"}',
        b"{" + b" " * 60_000_000 + b"}",
    ],
    ids=["files", "escapes", "lists", "metadata", "members", "text", "blanks"],
)
def test_indexes_that_are_long_for_nothing(model: Path, text: bytes) -> None:
    assert "model.safetensors.index.json: " in refusal(index(model, text), weighed=False)


@pytest.mark.parametrize(
    "text",
    [
        b'{"a": [' + b"[[[[[[[[0]]]]]]]]," * (MAX_BYTES // 19) + b"0]}",
        b'{"a": [' + b'{"":{"":{}}},' * (MAX_BYTES // 14) + b"0]}",
        b'{"a": [' + b"{}," * (MAX_BYTES // 4) + b"0]}",
        b'{"a": ' + b"9" * (MAX_BYTES - 20) + b"}",
        b'{"a":' * 200_000,
        b"[" * (MAX_BYTES - 1),
        b"{" + b",".join(b'"%d":0' % n for n in range(90_000)) + b"}",
        ('{"a": "' + ASTRAL * 250_000 + '"}').encode(),
    ],
    ids=["lists", "objects", "empty", "digits", "deep objects", "deep", "names", "astral"],
)
def test_configurations_that_grow_in_memory(tmp_path: Path, text: bytes) -> None:
    (tmp_path / "config.json").write_bytes(text)
    assert "config.json" in refusal(tmp_path, weighed=False)


def test_a_configuration_with_a_hole_of_a_terabyte(tmp_path: Path) -> None:
    (tmp_path / "config.json").touch()
    os.truncate(tmp_path / "config.json", 1 << 40)
    assert "has 1099511627776 bytes" in refusal(tmp_path)


def test_layers_of_every_kind_and_their_weights(tmp_path: Path) -> None:
    """The largest number of layers and experts, nothing but config.json to go by."""
    changed = {"model_type": "qwen3_moe", "num_hidden_layers": 512, "num_experts": 4096, "num_experts_per_tok": 8,
               "layer_types": ["full_attention", "sliding_attention"] * 256, "moe_intermediate_size": 64}  # fmt: skip
    (tmp_path / "config.json").write_text(json.dumps(CONFIG | changed), encoding="utf-8")
    assert under_limits(reading(tmp_path)).kind == "read"
    peak_bytes(reading(tmp_path))


def test_a_thousand_parts_that_are_not_there(model: Path) -> None:
    (model / "model-00001-of-01000.safetensors").touch()
    assert "model-00002-of-01000.safetensors" in refusal(model)


def test_a_directory_of_pipes(model: Path) -> None:
    os.mkfifo(model / "model.safetensors")
    os.mkfifo(model / "tokenizer_config.json")
    assert "files of the model are missing: model.safetensors" in refusal(model)
