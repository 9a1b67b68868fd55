"""Why a llama-server ended before it served, told from its exit code and its last words."""

from __future__ import annotations

import re
from dataclasses import dataclass

_ERROR_LINE = re.compile(r"^\S+ E |\berror:|failed|abort|not found|out of memory|No such file", re.IGNORECASE)
_SHOWN_LINES = 3
_SHOWN_CHARACTERS = 400
_CRASHES = {132: "an illegal instruction", 134: "an abort", 139: "a segmentation fault"}
_KILLED = 137


@dataclass(frozen=True)
class _Cause:
    """Words in the log that identify a cause, and what to do about it."""

    words: re.Pattern[str]
    advice: str


_CAUSES = (
    _Cause(re.compile(r"address already in use|couldn't bind", re.IGNORECASE), "another program has the port"),
    _Cause(
        re.compile(r"cudaMalloc failed|failed to allocate|unable to allocate|out of memory", re.IGNORECASE),
        "memory was too short: plan with less of it, such as --ram-available, or with fewer --slots",
    ),
    _Cause(
        re.compile(r"invalid argument: (\S+)"), "this binary refuses one of the words: is it the one that was asked?"
    ),
    _Cause(
        re.compile(r"quantized V cache requires flash_attn", re.IGNORECASE),
        "the model cannot use flash attention: plan with --cache-type f16",
    ),
    _Cause(
        re.compile(r"failed to load model|invalid magic|tensor .* data is not within", re.IGNORECASE),
        "the model file cannot be loaded by this build: is it whole, and is the build new enough for it?",
    ),
    _Cause(re.compile(r"cannot open shared object file"), "a library of this build is missing: reinstall it"),
)


def last_words(exit_code: int, output: str) -> str:
    """One line: how it ended, what it said last, and what to do where the cause is known."""
    parts = [_how(exit_code)]
    said = _telling_lines(output)
    if said:
        parts.append(f"it said: {said}")
    advice = _advice(exit_code, output)
    if advice:
        parts.append(advice)
    return "; ".join(parts)


def _how(exit_code: int) -> str:
    if exit_code in _CRASHES:
        return f"it crashed with {_CRASHES[exit_code]} (exit code {exit_code})"
    if exit_code == _KILLED:
        return "it was killed (exit code 137)"
    return f"it ended with exit code {exit_code}"


def _telling_lines(output: str) -> str:
    lines = [" ".join(line.split()) for line in output.splitlines() if line.strip()]
    errors = [line for line in lines if _ERROR_LINE.search(line)]
    return " | ".join((errors or lines)[-_SHOWN_LINES:])[-_SHOWN_CHARACTERS:]


def _advice(exit_code: int, output: str) -> str:
    if exit_code == _KILLED:
        return "most likely the kernel ran out of memory: dmesg tells; plan with less of it, such as --ram-available"
    if exit_code in _CRASHES and ("AMX" in output or exit_code != 134):
        # Builds with native flags die at the first AMX instruction on virtual machines that advertise AMX and cannot
        # run it; without repacked weights that code is never reached.
        return "a build for another processor does that, above all one with AMX: try it again with --no-repack"
    return next((cause.advice for cause in _CAUSES if cause.words.search(output)), "")
