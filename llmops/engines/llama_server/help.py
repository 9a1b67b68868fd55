"""What llama-server says of itself: the texts of --help, --version and --list-devices, read by their layout."""

from __future__ import annotations

import re
from dataclasses import dataclass

from llmops.core.version import Version

# An option starts in the first column; its spellings are separated by commas, a value name follows after one space,
# the explanation after several or on the next line (common/arg.cpp, to_string).
_SPELLING = re.compile(r"(-{1,2}[A-Za-z0-9][\w.-]*)(,\s+)?")
_VALUE_NAME = re.compile(r" \S")
_REMOVED = "the argument has been removed"
# Both layouts of common/build-info: `version: 9265 (abc1234)` and `version: 0.6.0 (build 11434, commit abc1234)`.
_VERSION = re.compile(
    r"^version: (?P<text>(?:(?P<old>\d+) \(\w+\))|(?:\S+ \(build (?P<new>\d+), commit \w+\))|\S.*)$", re.MULTILINE
)
_DEVICE = re.compile(r"^\s+(\w+: \S.*)$", re.MULTILINE)


@dataclass(frozen=True)
class KnownFlags:
    """Every spelling that a binary accepts, and those of them that take a value."""

    flags: frozenset[str]
    valued: frozenset[str]


def read_help(text: str) -> KnownFlags:
    """The options in the text of `llama-server --help`; those that it lists as removed are not known."""
    flags: set[str] = set()
    valued: set[str] = set()
    for block in _option_blocks(text):
        if any(_REMOVED in line for line in block):
            continue
        spellings, takes_value = _read_header(block[0])
        flags.update(spellings)
        if takes_value:
            valued.update(spelling for spelling in spellings if not spelling.startswith("--no-"))
    return KnownFlags(frozenset(flags), frozenset(valued))


def _option_blocks(text: str) -> list[list[str]]:
    blocks: list[list[str]] = []
    for line in text.splitlines():
        if line.startswith("-") and not line.startswith("---"):
            blocks.append([line])
        elif blocks and line.startswith(" "):
            blocks[-1].append(line)
    return blocks


def _read_header(line: str) -> tuple[list[str], bool]:
    spellings: list[str] = []
    position = 0
    while match := _SPELLING.match(line, position):
        spellings.append(match.group(1))
        position = match.end()
        if match.group(2) is None:
            break
    return spellings, _VALUE_NAME.match(line, position) is not None


def read_version(text: str) -> tuple[Version | None, str | None]:
    """The build number and the words of `--version`; build 0 (made without git) is an unknown version."""
    match = _VERSION.search(text)
    if match is None:
        return None, None
    build = int(match.group("old") or match.group("new") or 0)
    return (Version((build,)) if build else None), match.group("text").strip()


def read_devices(text: str) -> tuple[str, ...] | None:
    """The lines of `--list-devices`, such as `CUDA0: NVIDIA L4 (22574 MiB, 22000 MiB free)`; None without the list."""
    _, heading, rest = text.partition("Available devices:")
    return tuple(_DEVICE.findall(rest)) if heading else None
