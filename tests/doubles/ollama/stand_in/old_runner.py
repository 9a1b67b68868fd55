"""The runner of versions before 0.30: a process of its own name that keeps the real engine behind it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from types import FrameType

from .launch import RUNNER_ARGUMENTS


def run() -> int:
    """Start the engine that the environment names and end with it."""
    words = json.loads(os.environ.pop(RUNNER_ARGUMENTS))
    process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=sys.stderr, stderr=sys.stderr)

    def stop(_number: int, _frame: FrameType | None) -> None:
        process.kill()

    signal.signal(signal.SIGTERM, stop)
    return process.wait()
