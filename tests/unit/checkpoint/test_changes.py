"""What differs between files as they should be and the disk, and what is no file to write over."""

from __future__ import annotations

from pathlib import PurePosixPath

import pytest

from llmops.checkpoint.changes import read_change
from llmops.core.errors import Misconfigured
from llmops.host import FileStatus
from tests.unit.fake_machine import FakeMachine


class Masked(FakeMachine):
    """Every path leads to /dev/null, as that of a masked unit does."""

    def status(self, path: PurePosixPath | str) -> FileStatus:
        return FileStatus("device", 0, 0o666, 0, 0, 0.0, 1, 1)


def test_a_masked_unit_is_named_with_what_unmasks_it() -> None:
    with pytest.raises(Misconfigured, match=r"vllm\.service is masked") as refused:
        read_change(Masked(), "/etc/systemd/system/vllm.service", "[Unit]\n", 0o644)
    assert refused.value.hint == "systemctl unmask vllm.service"
    with pytest.raises(Misconfigured, match="no plain file but a device"):
        read_change(Masked(), "/etc/llmops/front.cfg", "", 0o644)
