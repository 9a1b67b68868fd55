"""Command lines of llama-server: words to options and back, whatever spelling a person chose. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from llmops.engines.llama_server.options import RENAMED, WORDS_TAKEN, Option, option_of

PROGRAM = "llama-server"
EMBEDDED_MODULE = "llmops.embedded"
_LOOKS_LIKE_FLAG = re.compile(r"--?[A-Za-z]")
_SHELLS = frozenset({"sh", "bash", "dash", "zsh"})


@dataclass(frozen=True)
class Argument:
    """One option of a command line: its canonical flag (empty for a lone word), its values, the words as written."""

    flag: str
    values: tuple[str, ...]
    words: tuple[str, ...]


def canonical_flag(word: str) -> str:
    """`--ctx_size=4096` to `--ctx-size`: long options may be written with underscores (common/arg.cpp)."""
    flag = word.partition("=")[0]
    return flag.replace("_", "-") if flag.startswith("--") else flag


def program_length(words: Sequence[str]) -> int | None:
    """How many leading words start the server (wrappers such as taskset included); None where it is not named.

    A shell in front means that the words are a script, which has no fixed arguments.
    """
    for position, word in enumerate(words):
        name = PurePosixPath(word).name
        if name in _SHELLS:
            return None
        if name == PROGRAM or (word == EMBEDDED_MODULE and words[position - 1] == "-m"):
            return position + 1
    return None


def read_arguments(
    words: Sequence[str], flags: frozenset[str] | None = None, valued: frozenset[str] | None = None
) -> tuple[Argument, ...]:
    """Divide the words after the program into options, by what the binary's help says of each where it is known."""
    arguments: list[Argument] = []
    position = 0
    while position < len(words):
        word = words[position]
        taken = _values_taken(word, words[position + 1 :], flags or frozenset(), valued)
        written = tuple(words[position : position + 1 + taken])
        flag = canonical_flag(word) if _LOOKS_LIKE_FLAG.match(word) else ""
        inline = (word.partition("=")[2],) if flag.startswith("--") and "=" in word else ()
        arguments.append(Argument(flag, inline + (written[1:] if flag else written), written))
        position += 1 + taken
    return tuple(arguments)


def _values_taken(word: str, rest: Sequence[str], flags: frozenset[str], valued: frozenset[str] | None) -> int:
    if not rest or not _LOOKS_LIKE_FLAG.match(word) or (word.startswith("--") and "=" in word):
        return 0
    flag = canonical_flag(word)
    if flag in WORDS_TAKEN:
        return min(WORDS_TAKEN[flag], len(rest))
    following = rest[0]
    if canonical_flag(following) in flags:
        return 0
    if valued is not None and flag in flags:
        return 1 if flag in valued else 0
    return 0 if _LOOKS_LIKE_FLAG.match(following) else 1


def find(arguments: Sequence[Argument], option: Option) -> Argument | None:
    """The last word on an option, the one that llama-server obeys; None where the command line is silent."""
    spellings = option.every_spelling
    said = [argument for argument in arguments if argument.flag in spellings]
    return said[-1] if said else None


def value_of(arguments: Sequence[Argument], option: Option) -> str | None:
    """The value of the last word on an option; an empty text for a flag without one."""
    argument = find(arguments, option)
    return None if argument is None else " ".join(argument.values)


def without(arguments: Sequence[Argument], options: Sequence[Option]) -> tuple[Argument, ...]:
    """The arguments that say nothing about these options, in their order."""
    return tuple(argument for argument in arguments if option_of(argument.flag) not in options)


def modernised(arguments: Sequence[Argument], flags: frozenset[str]) -> tuple[tuple[Argument, ...], tuple[str, ...]]:
    """The arguments with renamed words replaced where the binary knows only the new one, and a warning for each.

    A word that the binary does not know and that has no successor is kept, with a warning.
    """
    kept: list[Argument] = []
    warnings: list[str] = []
    for argument in arguments:
        successor = RENAMED.get(argument.flag)
        if not argument.flag or argument.flag in flags:
            kept.append(argument)
        elif successor in flags and successor is not None:
            kept.append(Argument(successor, argument.values, (successor, *argument.values)))
            warnings.append(f"{argument.flag} was removed from llama-server: written as {successor}")
        else:
            kept.append(argument)
            warnings.append(f"this llama-server does not list {argument.flag} in its --help; it is kept as it is")
    return tuple(kept), tuple(warnings)
