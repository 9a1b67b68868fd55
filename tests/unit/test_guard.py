"""The guard around unit tests bites."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Callable

import pytest


@pytest.mark.parametrize(
    "touch",
    [
        lambda: subprocess.run([sys.executable, "-c", ""], check=False),
        lambda: os.system("true"),
        lambda: os.posix_spawn("/bin/true", ["true"], {}),
        socket.socket,
    ],
    ids=["subprocess", "system", "posix_spawn", "socket"],
)
def test_a_unit_test_cannot_touch_the_machine(touch: Callable[[], object]) -> None:
    with pytest.raises(BaseException) as refused:
        touch()
    assert refused.typename == "TouchedTheMachine"
    assert not isinstance(refused.value, Exception), "an ordinary exception could be swallowed by the code under test"
