"""How a server that ended early ended, and the causes that words in its log identify."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

# Exit codes of a shell: 128 and the number of the signal.
KILLED, ABORTED = 137, 134
CRASHES = {132: "an illegal instruction", ABORTED: "an abort", 139: "a segmentation fault"}
SHOWN_CHARACTERS = 400


@dataclass(frozen=True)
class Cause:
    """Words in the log that identify a cause, and what to do; {0}, {1} are what the words name."""

    words: re.Pattern[str]
    advice: str


def how_it_ended(exit_code: int) -> str:
    """The end by itself, in words."""
    if exit_code in CRASHES:
        return f"it crashed with {CRASHES[exit_code]} (exit code {exit_code})"
    if exit_code == KILLED:
        return f"it was killed (exit code {exit_code})"
    return f"it ended with exit code {exit_code}"


def advice(causes: Iterable[Cause], output: str) -> str:
    """What to do against the first cause that the log shows; empty where it shows none."""
    for cause in causes:
        match = cause.words.search(output)
        if match is not None:
            return cause.advice.format(*(group for group in match.groups() if group is not None))
    return ""
