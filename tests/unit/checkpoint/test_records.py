"""What is kept on disk can be read back, and nothing else is taken for it."""

from __future__ import annotations

import json

import pytest

from llmops import checkpoint
from llmops.checkpoint.records import Checkpoint, UnitBefore, from_text, to_text
from llmops.core.errors import Misconfigured, UnreadableInput, UsageError
from llmops.core.files import Change, RenderedFile
from tests.unit.fake_machine import FakeFile, FakeMachine

RECORD = Checkpoint(
    identifier=7,
    kind="apply",
    engine="llama-server",
    unit=UnitBefore("llama-server.service", exists=True, active_state="active", enabled=True, invocation_id="ab"),
    started_at_seconds=1.5,
    changes=(Change("/etc/x", None, "new\n"), Change("/etc/y", "old\n", None, 0o640, None, 1, 2)),
    directories=("/etc/z.d",),
    enable=("llmops-recover.service",),
    accepted=("/etc/default/x: A=1",),
    summary="5 slots x 8192 tokens",
)


def test_a_record_survives_the_disk() -> None:
    assert from_text(to_text(RECORD, {"plan": {"slots": 5}}), "here") == (RECORD, {"plan": {"slots": 5}})
    assert from_text(to_text(RECORD, None), "here") == (RECORD, None)


def test_the_layout_carries_a_schema_number() -> None:
    document = json.loads(to_text(RECORD, None))
    assert document["schema"] == 1
    assert set(document) == {"schema", "checkpoint", "plan"}
    assert document["checkpoint"]["changes"][1] == {
        "path": "/etc/y",
        "before": "old\n",
        "after": None,
        "before_mode": 0o640,
        "after_mode": None,
        "before_uid": 1,
        "before_gid": 2,
    }


@pytest.mark.parametrize("text", ["", "{", "[]", '{"schema": 2}', '{"schema": 1}', '{"schema": 1, "checkpoint": {}}'])
def test_anything_else_is_refused_by_name(text: str) -> None:
    with pytest.raises(UnreadableInput, match=r"/var/lib/llmops/journal\.json"):
        from_text(text, "/var/lib/llmops/journal.json")


def test_a_damaged_journal_stops_every_change() -> None:
    host = FakeMachine(files={checkpoint.JOURNAL_PATH: FakeFile("{")})
    with pytest.raises(UnreadableInput, match=r"journal\.json"):
        checkpoint.recover(host)
    assert host.log == []


def test_a_rolled_back_change_is_no_longer_in_effect() -> None:
    second = Checkpoint(8, "apply", "llama-server", RECORD.unit, 2.0, RECORD.changes)
    back = Checkpoint(9, "rollback", "llama-server", RECORD.unit, 3.0, RECORD.changes, reverts=(8,))
    assert checkpoint.in_effect((RECORD, second, back)) == (RECORD,)
    assert checkpoint.in_effect((RECORD,), "ollama") == ()


def test_an_unknown_number_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match="no change 3"):
        checkpoint.read_plan(FakeMachine(), 3)


def test_changes_are_what_differs() -> None:
    host = FakeMachine(
        files={"/etc/same": FakeFile("a"), "/etc/other": FakeFile("b"), "/etc/mode": FakeFile("c", 0o600)}
    )
    wanted = [RenderedFile(path, text) for path, text in (("/etc/same", "a"), ("/etc/other", "B"), ("/etc/mode", "c"))]
    found = checkpoint.read_changes(host, [*wanted, RenderedFile("/etc/new", "d")])
    assert [(change.path, change.before, change.after) for change in found] == [
        ("/etc/other", "b", "B"),
        ("/etc/mode", "c", "c"),
        ("/etc/new", None, "d"),
    ]
    assert (found[1].before_mode, found[1].after_mode) == (0o600, 0o644)


def test_what_is_no_text_file_is_left_alone() -> None:
    host = FakeMachine(files={"/etc/latin": FakeFile("caf\ufffd")})
    with pytest.raises(Misconfigured, match="not UTF-8"):
        checkpoint.read_changes(host, [RenderedFile("/etc/latin", "x")])
    with pytest.raises(Misconfigured, match="directory"):
        checkpoint.read_changes(host, [RenderedFile("/etc", "x")])


def test_missing_parents_are_listed_from_the_top() -> None:
    host = FakeMachine()
    assert checkpoint.parents_missing(host, ("/etc/llmops/deep/x", "/etc/llmops/y", "/etc/systemd/z")) == (
        "/etc/llmops",
        "/etc/llmops/deep",
    )
