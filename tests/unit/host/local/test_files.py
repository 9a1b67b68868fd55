"""Files are changed whole or not at all, and nothing is left behind."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from llmops.host.local import LocalHost, files

HOST = LocalHost()


def everything(directory: Path) -> list[str]:
    return sorted(str(path.relative_to(directory)) for path in directory.rglob("*"))


def test_mode_does_not_depend_on_the_umask(tmp_path: Path) -> None:
    old = os.umask(0o077)
    try:
        HOST.write_text(tmp_path / "a" / "b" / "file.conf", "x\n", mode=0o644)
    finally:
        os.umask(old)
    assert HOST.status(tmp_path / "a" / "b" / "file.conf").mode == 0o644
    assert HOST.status(tmp_path / "a" / "b").mode == 0o755
    assert everything(tmp_path) == ["a", "a/b", "a/b/file.conf"]


def test_the_file_is_replaced_and_never_truncated(tmp_path: Path) -> None:
    path = tmp_path / "file.conf"
    HOST.write_text(path, "old\n", mode=0o600)
    with path.open() as reader:
        HOST.write_text(path, "new\n", mode=0o640)
        assert reader.read() == "old\n", "a reader of the old file must still see it whole"
    assert (path.read_text(), HOST.status(path).mode) == ("new\n", 0o640)


def test_an_owner_can_be_given(tmp_path: Path) -> None:
    HOST.write_text(tmp_path / "file.conf", "x\n", mode=0o600, uid=os.getuid(), gid=os.getgid())
    status = HOST.status(tmp_path / "file.conf")
    assert (status.uid, status.gid) == (os.getuid(), os.getgid())


@pytest.mark.parametrize("failing", ["fsync", "fchmod", "fchown"])
def test_a_failed_write_leaves_no_trace(failing: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "old.conf").write_text("old\n")

    def full(*_arguments: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, failing, full)
    for name in ("old.conf", "made/for/new.conf"):
        with pytest.raises(OSError, match="No space left"):
            HOST.write_text(tmp_path / name, "new\n", mode=0o600, uid=os.getuid())
    monkeypatch.undo()
    assert (everything(tmp_path), (tmp_path / "old.conf").read_text()) == (["old.conf"], "old\n")


def test_the_temporary_file_of_a_killed_run_is_no_obstacle_and_goes(tmp_path: Path) -> None:
    left = tmp_path / f".file.conf{files.TEMPORARY_SUFFIX}"
    left.symlink_to(tmp_path / "victim")
    HOST.write_text(tmp_path / "file.conf", "x\n", mode=0o600)
    assert everything(tmp_path) == ["file.conf"]


def test_removing_takes_away_what_a_killed_write_left(tmp_path: Path) -> None:
    left = tmp_path / f".file.conf{files.TEMPORARY_SUFFIX}"
    left.write_text("half")
    files.remove(str(tmp_path / "file.conf"))
    assert list(tmp_path.iterdir()) == []


def test_removing_is_repeatable(tmp_path: Path) -> None:
    HOST.write_text(tmp_path / "d" / "file.conf", "x\n", mode=0o600)
    HOST.remove_directory_if_empty(tmp_path / "d")
    assert everything(tmp_path) == ["d", "d/file.conf"]
    for _ in range(2):
        HOST.remove(tmp_path / "d" / "file.conf")
        HOST.remove_directory_if_empty(tmp_path / "d")
    assert everything(tmp_path) == []


def test_reading_keeps_line_ends_and_survives_bytes_that_are_not_text(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"a\r\n\xff\n")
    assert HOST.read_text(tmp_path / "file") == "a\r\n\ufffd\n"
    assert HOST.read_bytes(tmp_path / "file", 3, 100) == b"\xff\n"


def test_kinds(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert [HOST.status(path).kind for path in ("/dev/null", tmp_path, tmp_path / "pipe", __file__)] == [
        "device",
        "directory",
        "pipe",
        "file",
    ]


def test_absent_things_raise_what_python_raises(tmp_path: Path) -> None:
    for ask in (HOST.read_text, HOST.status, HOST.list_directory):
        with pytest.raises(FileNotFoundError):
            ask(tmp_path / "absent")
    with pytest.raises(NotADirectoryError):
        HOST.list_directory(__file__)


def test_a_directory_that_somebody_filled_is_not_listed_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stand-in for the million entries that no test makes: it fails where a reader goes on."""
    seen = 0

    def entries() -> Iterator[SimpleNamespace]:
        nonlocal seen
        for number in range(1_000_000):
            seen += 1
            yield SimpleNamespace(name=f"{number:07}")

    monkeypatch.setattr(os, "scandir", lambda path: contextlib.nullcontext(entries()))
    with pytest.raises(OSError, match="holds more than 16384 entries"):
        HOST.list_directory("/srv/full")
    assert seen == files.MAX_ENTRIES + 1


def test_a_file_that_is_already_so_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "file.conf"
    HOST.write_text(path, "same\n", mode=0o640)
    left_by_a_killed_write = tmp_path / f".file.conf{files.TEMPORARY_SUFFIX}"
    left_by_a_killed_write.write_text("half")
    before = path.stat()
    HOST.write_text(path, "same\n", mode=0o640)
    assert (path.stat().st_ino, path.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    assert everything(tmp_path) == ["file.conf"]
    HOST.write_text(path, "same\n", mode=0o600)
    assert HOST.status(path).mode == 0o600


def test_what_is_not_there_needs_no_writable_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    def read_only(*_arguments: object, **_keywords: object) -> None:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(os, "unlink", read_only)
    monkeypatch.setattr(os, "rmdir", read_only)
    HOST.remove("/nowhere/file.conf")
    HOST.remove_directory_if_empty("/nowhere")
