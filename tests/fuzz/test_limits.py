"""The limits notice what they are for: a check that lets everything pass would find nothing."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from llmops.core.errors import UnreadableInput
from tests.fuzz.gguf_inputs import SEEDS
from tests.fuzz.gguf_pieces import pieces
from tests.fuzz.limits import Finding, peak_bytes, under_limits
from tests.fuzz.trees import File, Link, Pipe, lay_out, workplace


def waste_memory() -> object:
    return bytearray(100 * 1024 * 1024)


def waste_time() -> None:
    began = time.process_time()
    while time.process_time() - began < 10.0:
        sum(range(1000))


def alien_error() -> None:
    raise KeyError("a")


def refuse(message: str, hint: str | None) -> Callable[[], object]:
    def read() -> object:
        raise UnreadableInput(message, hint=hint)

    return read


@pytest.mark.parametrize(
    ("read", "what"),
    [
        (waste_memory, "needs more than 64 MiB"),
        (waste_time, "takes more than 2.0 s"),
        (alien_error, "comes out as KeyError"),
        (refuse("broken", None), "without a message or a hint"),
        (refuse("broken \x1b[2J", "again"), "letters that a terminal obeys"),
        (refuse("broken " * 1000, "again"), "refused in 7005 letters"),
    ],
    ids=["memory", "time", "error", "no hint", "escape", "length"],
)
def test_a_broken_limit_is_a_finding(read: Callable[[], object], what: str) -> None:
    with pytest.raises(Finding, match=what):
        under_limits(read)


def test_what_is_held_is_measured() -> None:
    assert 10_000_000 < peak_bytes(lambda: bytes(10_000_000)) < 11_000_000
    with pytest.raises(Finding, match=r"holds 100\.0 MiB"):
        peak_bytes(waste_memory)


def test_within_the_limits() -> None:
    assert under_limits(lambda: bytes(10_000_000)).kind == "read"
    assert under_limits(refuse("broken", "get it again")).kind == "unreadable_input"


def test_a_header_taken_apart_is_whole() -> None:
    for seed in SEEDS:
        assert b"".join(piece.content for piece in pieces(seed)) == seed


def test_a_tree_stays_below_its_root(tmp_path: Path) -> None:
    with workplace() as root:
        lay_out(root, {"a": Link(str(tmp_path)), "a/inside": File(b"x"), "b": Pipe(), "c/d": File(b"y", 5)})
        assert sorted(path.name for path in root.iterdir()) == ["a", "b", "c"]
        assert (root / "c" / "d").read_bytes() == b"y" + bytes(5)
        lay_out(root, {})
        assert list(root.iterdir()) == []
    assert list(tmp_path.iterdir()) == []
    assert not root.exists()
