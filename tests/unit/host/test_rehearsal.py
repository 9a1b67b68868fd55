"""A dry run changes nothing and knows what would have changed."""

from __future__ import annotations

from pathlib import Path

import pytest

from llmops.core.errors import Unsupported
from llmops.host.local import LocalHost
from llmops.host.rehearsal import Rehearsal


def disk(directory: Path) -> dict[str, str]:
    return {str(path): path.read_text() for path in directory.rglob("*") if path.is_file()}


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """A directory with two files."""
    for name in ("kept.conf", "other.conf"):
        (tmp_path / name).write_text(f"{name}\n")
        (tmp_path / name).chmod(0o644)
    return tmp_path


def test_nothing_changes_and_every_change_is_known(machine: Path) -> None:
    before = disk(machine)
    host = Rehearsal(LocalHost())
    host.write_text(machine / "kept.conf", "new\n", mode=0o600)
    host.write_text(machine / "unit.d" / "zz.conf", "[Service]\n", mode=0o644)
    host.remove(machine / "other.conf")
    host.execute(("systemctl", "daemon-reload"))
    assert disk(machine) == before
    assert host.commands == (("systemctl", "daemon-reload"),)
    found = {Path(one.path).name: (one.before, one.after, one.before_mode, one.after_mode) for one in host.changes}
    assert found == {
        "kept.conf": ("kept.conf\n", "new\n", 0o644, 0o600),
        "zz.conf": (None, "[Service]\n", None, 0o644),
        "other.conf": ("other.conf\n", None, 0o644, None),
    }


def test_reads_see_what_was_noted(machine: Path) -> None:
    host = Rehearsal(LocalHost())
    host.write_text(machine / "unit.d" / "zz.conf", "ümlaut\n", mode=0o640)
    host.remove(machine / "other.conf")
    assert host.read_text(machine / "unit.d" / "zz.conf") == "ümlaut\n"
    assert host.read_bytes(machine / "unit.d" / "zz.conf", 0, 2) == "ü".encode()
    assert (host.status(machine / "unit.d" / "zz.conf").mode, host.status(machine / "kept.conf").mode) == (0o640, 0o644)
    assert host.list_directory(machine / "unit.d") == ("zz.conf",)
    assert host.list_directory(machine) == ("kept.conf",)
    with pytest.raises(FileNotFoundError):
        host.read_text(machine / "other.conf")


def test_writing_what_is_there_is_no_change(machine: Path) -> None:
    host = Rehearsal(LocalHost())
    host.write_text(machine / "kept.conf", "kept.conf\n", mode=0o644)
    host.remove(machine / "never-there.conf")
    assert host.changes == ()


def test_a_dry_run_starts_no_process() -> None:
    with pytest.raises(Unsupported, match="does not start llama-server"):
        Rehearsal(LocalHost()).spawn(("llama-server",), {})
