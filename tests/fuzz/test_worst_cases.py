"""The most work and memory that the limits of the readers let through, laid out on a real disk."""

from __future__ import annotations

import itertools
import json
import os
import struct
from collections.abc import Callable
from pathlib import Path, PurePath

import pytest

from llmops.core.errors import UnreadableInput
from llmops.host import FileStatus
from llmops.host.local import LocalHost, files
from llmops.models.gguf import MAX_PARTS, read_gguf
from llmops.models.gguf_reader import MAX_HEADER_BYTES, MAX_STRINGS, MAX_TENSORS
from llmops.models.ollama_store import MAX_ENTRIES, MAX_MANIFEST_BYTES, list_models
from tests.doubles import gguf_files as made
from tests.fuzz import store_inputs as stored
from tests.fuzz.limits import peak_bytes, under_limits
from tests.fuzz.targets import STORE
from tests.fuzz.trees import Entry, File, Link, lay_out, workplace

HOST = LocalHost()
ASTRAL = "\N{GRINNING FACE}"  # one such letter makes Python keep four bytes for every letter of the text


def reading(path: Path) -> Callable[[], object]:
    return lambda: read_gguf(HOST, str(path))


def refusal(read: Callable[[], object], *, weighed: bool = True) -> str:
    with pytest.raises(UnreadableInput) as refused:
        read()
    assert under_limits(read).kind == "unreadable_input"
    if weighed:  # slow where millions of numbers come and go
        peak_bytes(read)
    return refused.value.message


def listing(path: Path, count: int, size_bytes: int) -> Path:
    """A list of empty strings that is nothing but a hole."""
    head = b"GGUF" + struct.pack("<IQQQ", 3, 0, 1, 1) + b"k" + struct.pack("<IIQ", made.ARRAY, made.STRING, count)
    path.write_bytes(head)
    os.truncate(path, size_bytes)
    return path


def test_lists_in_a_file_of_a_terabyte(tmp_path: Path) -> None:
    path = listing(tmp_path / "m.gguf", MAX_STRINGS + 1, 1 << 40)
    assert "lists more than" in refusal(reading(path))
    listing(path, MAX_STRINGS, 1 << 40)
    assert "holds a vocabulary and no weights" in refusal(reading(path), weighed=False)
    listing(path, 10**9, 1 << 34)
    assert "its header claims more than" in refusal(reading(path))


def test_the_largest_header_of_all(tmp_path: Path) -> None:
    """Keys, arrays and names as large as they are let in, every number one that Python keeps apart."""
    metadata = made.model_metadata()
    metadata |= {f"{number}{ASTRAL}": made.Array(made.U64, [2**62 + n for n in range(1024)]) for number in range(480)}
    name = ASTRAL + "n" * 54
    tensors = [made.Tensor("token_embd.weight", (32, 64))]
    tensors += [
        made.Tensor(f"{number:05}{name}", (2**30 + number, 0, 2**30, 2**30)) for number in range(MAX_TENSORS - 1)
    ]
    path = made.write(tmp_path / "m.gguf", metadata, tensors)
    assert under_limits(reading(path)).kind == "read"
    assert peak_bytes(reading(path)) > 40_000_000


def test_a_thousand_parts_cost_no_more_than_one(tmp_path: Path) -> None:
    names = (f"m-{number + 1:05d}-of-{MAX_PARTS:05d}.gguf" for number in range(MAX_PARTS))
    big = {f"k{number}": made.Strings(0) for number in range(400)}
    for number, name in enumerate(itertools.islice(names, 45)):
        own = {"split.no": made.Typed(made.U16, number), "split.count": made.Typed(made.U16, MAX_PARTS)}
        made.write(tmp_path / name, {**(made.model_metadata() if number == 0 else {}), **own, **big})
    first = tmp_path / f"m-00001-of-{MAX_PARTS:05d}.gguf"
    assert "claims 0 tensors and 402 metadata entries, more than any model" in refusal(reading(first))


def test_holes_in_all_parts_share_one_allowance(tmp_path: Path) -> None:
    """Each part passes over half of the header that one model may have."""
    for number in range(3):
        own: dict[str, object] = made.model_metadata() if number == 0 else {}
        own |= {"split.no": made.Typed(made.U16, number), "split.count": made.Typed(made.U16, 3)}
        length = struct.pack("<Q", MAX_HEADER_BYTES // 2)
        path = tmp_path / f"m-{number + 1:05d}-of-00003.gguf"
        path.write_bytes(made.header({**own, "z": made.Raw(made.STRING, length)}).rstrip(b"\0"))
        os.truncate(path, 1 << 40)
    assert "00003.gguf: its header claims more than" in refusal(reading(tmp_path / "m-00001-of-00003.gguf"))


class Changing(LocalHost):
    """A file that is another one each time a piece of it is read."""

    def __init__(self, *contents: bytes) -> None:
        self.contents = itertools.cycle(contents)

    def status(self, path: PurePath | str) -> FileStatus:
        return FileStatus("file", 1 << 40, 0o644, 0, 0, 0.0, 0, 0)

    def read_bytes(self, path: PurePath | str, offset: int, length: int) -> bytes:
        content = next(self.contents)
        return (content * (length // len(content) + 1))[:length]


@pytest.mark.parametrize("filling", [b"\xff" * 8, bytes(8), b"GGUF\3\0\0\0", struct.pack("<Q", 2**20)])
def test_a_file_that_changes_while_it_is_read(filling: bytes) -> None:
    head = b"GGUF" + struct.pack("<IQQQ", 3, 0, 5, 1) + b"k"
    head += struct.pack("<IIQ", made.ARRAY, made.STRING, MAX_STRINGS) + bytes(2**20)
    host = Changing(head, filling)
    assert refusal(lambda: read_gguf(host, "/m.gguf")).startswith("/m.gguf: ")


@pytest.mark.parametrize("kind", ["pipe", "device", "loop", "directory", "long"])
def test_what_is_no_file(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "m.gguf"
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "directory":
        path.mkdir()
    else:
        path.symlink_to({"device": "/dev/zero", "loop": "m.gguf", "long": "x" * 300}[kind])
    assert str(path) in refusal(reading(path))


def test_a_pipe_in_the_place_of_a_file_does_not_hold_the_reader(tmp_path: Path) -> None:
    """As if it were put there between the look at the file and its opening."""
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="not seekable"):
        HOST.read_bytes(tmp_path / "pipe", 0, 8)


def test_a_path_that_cannot_be() -> None:
    assert "null byte" in refusal(lambda: read_gguf(HOST, "/m\0.gguf"))


def test_links_in_circles_do_not_multiply_a_store(tmp_path: Path) -> None:
    tree: dict[str, Entry] = {f"store/manifests/l{number}": Link(".") for number in range(300)}
    tree |= {f"store/manifests/no name {number}": Link(".") for number in range(300)}
    lay_out(tmp_path, tree)
    assert under_limits(lambda: list_models(HOST, str(tmp_path / "store"))).kind == "read"
    assert len(list_models(HOST, str(tmp_path / "store"))) <= MAX_ENTRIES


def test_a_store_directory_with_fifty_thousand_files() -> None:
    with workplace() as root:
        directory = root / "store/manifests/registry.ollama.ai/library/m"
        directory.mkdir(parents=True)
        for number in range(50_000):
            (directory / f"{number:05}").touch()
        said = refusal(lambda: list_models(HOST, str(root / "store")))
        assert said == f"{directory}: cannot be listed: holds more than {files.MAX_ENTRIES} entries"
        assert peak_bytes(lambda: list_models(HOST, str(root / "store"))) < 4 * 2**20


@pytest.mark.parametrize(
    "text",
    [
        b'{"layers": [' + b"[[[[[[[[0]]]]]]]]," * (MAX_MANIFEST_BYTES // 19) + b"0]}",
        b'{"layers": [' + b'{"":{"":{"":{}}}},' * (MAX_MANIFEST_BYTES // 19) + b"0]}",
        b'{"layers": ' + b"9" * (MAX_MANIFEST_BYTES - 20) + b"}",
        b'{"layers":[{"mediaType":"m","digest":' + b"[" * 900 + b"]" * 900 + b"}]}",
        b"[" * (MAX_MANIFEST_BYTES - 1),
        json.dumps({"layers": [{}] * 100_000}).encode(),
        stored.manifest(stored.layer("model", "model"), *[stored.layer("model", "model")] * 2),
    ],
    ids=["lists", "objects", "digits", "deep digest", "deep", "layers", "models"],
)
def test_manifests_that_grow_in_memory(tmp_path: Path, text: bytes) -> None:
    lay_out(tmp_path, stored.tree_of(text))
    assert stored.MANIFEST in refusal(lambda: STORE.read(tmp_path, "store"))


def test_a_manifest_of_two_thousand_projectors(tmp_path: Path) -> None:
    layers = [stored.layer("projector", "projector")] * 2_000
    lay_out(tmp_path, stored.tree_of(stored.manifest(stored.layer("model", "model"), *layers)))
    assert under_limits(lambda: STORE.read(tmp_path, "store")).kind == "read"


def test_a_manifest_with_a_hole_of_a_terabyte(tmp_path: Path) -> None:
    lay_out(tmp_path, {**stored.tree_of(b""), stored.MANIFEST: File(b"{", 1 << 40)})
    assert "has 1099511627777 bytes" in refusal(lambda: STORE.read(tmp_path, "store"))
