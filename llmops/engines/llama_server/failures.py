"""Why a llama-server ended before it served, told from its exit code and its last words."""

from __future__ import annotations

import re

from llmops.engines.failures import ABORTED, CRASHES, KILLED, SHOWN_CHARACTERS, Cause, advice, how_it_ended

_ERROR_LINE = re.compile(r"^\S+ E |\berror:|failed|abort|not found|out of memory|No such file", re.IGNORECASE)
_SHOWN_LINES = 3

_CAUSES = (
    Cause(re.compile(r"address already in use|couldn't bind", re.IGNORECASE), "another program has the port"),
    Cause(
        re.compile(r"cudaMalloc failed|failed to allocate|unable to allocate|out of memory", re.IGNORECASE),
        "memory was too short: plan with less of it, such as --ram-available, or with fewer --slots",
    ),
    Cause(
        re.compile(r"invalid argument: (\S+)"), "this binary refuses one of the words: is it the one that was asked?"
    ),
    Cause(
        re.compile(r"quantized V cache requires flash_attn", re.IGNORECASE),
        "the model cannot use flash attention: plan with --cache-type f16",
    ),
    Cause(
        re.compile(r"failed to load model|invalid magic|tensor .* data is not within", re.IGNORECASE),
        "the model file cannot be loaded by this build: is it whole, and is the build new enough for it?",
    ),
    Cause(re.compile(r"cannot open shared object file"), "a library of this build is missing: reinstall it"),
)


def last_words(exit_code: int, output: str) -> str:
    """One line: how it ended, what it said last, and what to do where the cause is known."""
    parts = [how_it_ended(exit_code)]
    said = _telling_lines(output)
    if said:
        parts.append(f"it said: {said}")
    what_to_do = _advice(exit_code, output)
    if what_to_do:
        parts.append(what_to_do)
    return "; ".join(parts)


def _telling_lines(output: str) -> str:
    lines = [" ".join(line.split()) for line in output.splitlines() if line.strip()]
    errors = [line for line in lines if _ERROR_LINE.search(line)]
    return " | ".join((errors or lines)[-_SHOWN_LINES:])[-SHOWN_CHARACTERS:]


def _advice(exit_code: int, output: str) -> str:
    if exit_code == KILLED:
        return "most likely the kernel ran out of memory: dmesg tells; plan with less of it, such as --ram-available"
    if exit_code in CRASHES and ("AMX" in output or exit_code != ABORTED):
        # Builds with native flags die at the first AMX instruction on virtual machines that advertise AMX and cannot
        # run it; without repacked weights that code is never reached.
        return "a build for another processor does that, above all one with AMX: try it again with --no-repack"
    return advice(_CAUSES, output)
