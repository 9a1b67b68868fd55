"""One holder at a time, and the other one is told who it is."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from llmops.core.errors import Locked
from llmops.host.local import LocalHost


def test_the_second_is_refused_and_told_who_holds_it(tmp_path: Path) -> None:
    host = LocalHost()
    path = tmp_path / "run" / "llmops.lock"
    lock = host.lock(path)
    with pytest.raises(Locked, match=rf"process {os.getpid()}\)") as refused:
        host.lock(path)
    assert refused.value.exit_code == 8
    lock.release()
    lock.release()
    host.lock(path).release()


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "lock").symlink_to(tmp_path / "victim")
    with pytest.raises(OSError, match="symbolic links"):
        LocalHost().lock(tmp_path / "lock")
    assert not (tmp_path / "victim").exists()
