"""Long lists of JSON members, found by the window."""

from __future__ import annotations

from pathlib import Path

import pytest

from llmops.core.errors import UnreadableInput
from llmops.host.local import LocalHost
from llmops.models.json_stream import COMMA_OR_END, WINDOW_BYTES, JsonStream, listed

PAIRS = listed(rb'[ \n]*"(\w{1,16})":(\d{1,9})')


def stream(tmp_path: Path, content: bytes) -> JsonStream:
    path = tmp_path / "list.json"
    path.write_bytes(content)
    return JsonStream(LocalHost(), str(path), 0, len(content), "list")


def test_entries_are_found_up_to_the_end_of_the_object(tmp_path: Path) -> None:
    text = stream(tmp_path, b'"a":1,\n "b":2 , "c":3 }')
    assert [entry[1:] for entry in text.run(PAIRS)] == [(b"a", b"1", b","), (b"b", b"2", b","), (b"c", b"3", b"")]
    assert text.require(COMMA_OR_END).group(1) == b"}"
    text.require_end()


def test_entries_after_another_one_wait_for_it(tmp_path: Path) -> None:
    text = stream(tmp_path, b'"a":1,"b":[],"c":3}')
    assert [entry[1] for entry in text.run(PAIRS)] == [b"a"]
    assert text.run(PAIRS) == []
    assert text.key() == "b", "nothing of what does not fit is passed over"


def test_nothing_follows_the_end_of_the_object(tmp_path: Path) -> None:
    text = stream(tmp_path, b'"a":1}"b":2}')
    assert [entry[1] for entry in text.run(PAIRS)] == [b"a"]
    text.require(COMMA_OR_END)
    with pytest.raises(UnreadableInput, match="its list is broken at byte 6"):
        text.require_end()


def test_an_entry_over_the_end_of_a_window_is_found_with_the_next(tmp_path: Path) -> None:
    count = 3 * WINDOW_BYTES // 10
    text = stream(tmp_path, b",".join(b'"n%d":%d' % (number, number) for number in range(count)) + b"}")
    found: list[tuple[bytes, ...]] = []
    runs = 0
    while not found or found[-1][-1]:
        found += text.run(PAIRS)
        runs += 1
    assert [int(value) for _, _, value, _ in found] == list(range(count))
    assert runs > count * 10 // WINDOW_BYTES
