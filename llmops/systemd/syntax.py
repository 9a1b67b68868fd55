"""How systemd reads unit files: assignments, quoting, commands (systemd.syntax(7), systemd.service(5)). Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

_WHITESPACE = " \t\n\r"
_ESCAPES = {
    "a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "s": " ",
    "\\": "\\", '"': '"', "'": "'",
}  # fmt: skip
_NUMERIC = re.compile(r"x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([0-7]{3})")
_EXEC_PREFIX = re.compile(r"[@\-:+!|]*")
_SPECIFIER = re.compile(r"%(.)")
_VARIABLE = re.compile(r"\$\$|\$\{(\w+)\}|\$(\w+)")


@dataclass(frozen=True)
class UnitFile:
    """One fragment or drop-in as it is on disk; the text of one that this process may not read is empty."""

    path: str
    text: str
    readable: bool = True


@dataclass(frozen=True)
class Assignment:
    """One `key=value` line, continued lines joined."""

    section: str
    key: str
    value: str


@dataclass(frozen=True)
class Command:
    """One ExecStart= entry: the words to run and the prefix characters in front of them.

    `written` are the words with quotes undone and nothing else, so `%` and `$` in them still stand for something.
    """

    prefix: str
    words: tuple[str, ...]
    written: tuple[str, ...] = ()


def assignments(text: str) -> tuple[Assignment, ...]:
    """Every assignment of one file in order, without comments and without lines that are not UTF-8.

    systemd ignores such a line (config_parse); a host reads their bytes as U+FFFD.
    """
    found: list[Assignment] = []
    section = ""
    for line in _logical_lines(text):
        if "\ufffd" in line:
            continue
        if line.startswith("[") and line.endswith("]"):
            section = line[1:-1]
        elif "=" in line:
            key, _, value = line.partition("=")
            found.append(Assignment(section, key.strip(_WHITESPACE), value.strip(_WHITESPACE)))
    return tuple(found)


def _logical_lines(text: str) -> Iterable[str]:
    joined = ""
    for raw in text.split("\n"):
        line = raw.strip(_WHITESPACE)
        if line.startswith(("#", ";")) or (not joined and not line):
            continue
        if (len(line) - len(line.rstrip("\\"))) % 2:  # two backslashes are an escaped one, which continues nothing
            joined += line[:-1] + " "
            continue
        yield (joined + line).strip(_WHITESPACE)
        joined = ""
    if joined.strip(_WHITESPACE):
        yield joined.strip(_WHITESPACE)


def values(files: Iterable[UnitFile], section: str, key: str) -> tuple[tuple[str, str], ...]:
    """(path, value) of a list setting that are in force over all files; an empty value resets what came before."""
    kept: list[tuple[str, str]] = []
    for file in files:
        for assignment in assignments(file.text):
            if (assignment.section, assignment.key) == (section, key):
                kept = [*kept, (file.path, assignment.value)] if assignment.value else []
    return tuple(kept)


def split_words(value: str) -> tuple[str, ...]:
    """Words of a value, quotes and C escapes undone; raise ValueError where a quote is not closed."""
    words: list[str] = []
    position = 0
    while position < len(value):
        if value[position] in _WHITESPACE:
            position += 1
            continue
        word, position = _one_word(value, position)
        words.append(word)
    return tuple(words)


def _one_word(value: str, position: int) -> tuple[str, int]:
    word: list[str] = []
    quote = ""
    while position < len(value):
        character = value[position]
        if character == "\\":
            decoded, position = _escape_sequence(value, position + 1)
            word.append(decoded)
            continue
        if quote and character == quote:
            quote = ""
        elif not quote and character in "\"'":
            quote = character
        elif not quote and character in _WHITESPACE:
            break
        else:
            word.append(character)
        position += 1
    if quote:
        raise ValueError(f"a {quote} is not closed: {value}")
    return "".join(word), position


def _escape_sequence(value: str, position: int) -> tuple[str, int]:
    if position >= len(value):
        return "\\", position
    if value[position] in _ESCAPES:
        return _ESCAPES[value[position]], position + 1
    match = _NUMERIC.match(value, position)
    if match is None:  # systemd keeps an unknown escape as it is written
        return "\\" + value[position], position + 1
    two, four, eight, octal = match.groups()
    return chr(int(octal, 8) if octal else int(two or four or eight, 16)), match.end()


def resolve_specifiers(text: str, unit: str) -> str:
    """`%%` to `%`, and the specifiers that follow from the unit's name or are the same on every system manager.

    Others stay as they are written: what they stand for cannot be told from the files.
    """
    name, _, _ = unit.rpartition(".")
    prefix, _, instance = name.partition("@")
    known = {
        "%": "%", "n": unit, "N": name, "p": prefix, "i": instance, "t": "/run", "S": "/var/lib", "C": "/var/cache",
        "L": "/var/log", "E": "/etc", "h": "/root", "u": "root",
        "T": "/tmp", "V": "/var/tmp",  # noqa: S108 - what these two stand for
    }  # fmt: skip
    return _SPECIFIER.sub(lambda match: known.get(match.group(1), match.group()), text)


def command(value: str, unit: str, environment: Mapping[str, str] | None = None) -> Command:
    """The words of one ExecStart= value, variables replaced where `environment` is given; ValueError when malformed.

    A `$NAME` that stands alone is divided at spaces and may vanish, `${NAME}` stays within its word, `$$` is one `$`.
    """
    prefix = _EXEC_PREFIX.match(value)
    marks = prefix.group() if prefix else ""
    written = list(split_words(value[len(marks) :]))
    if "@" in marks and len(written) > 1:  # the second word is only the name that the process shows
        del written[1]
    words = [resolve_specifiers(word, unit) for word in written]
    if ":" in marks or not words:
        return Command(marks, tuple(words), tuple(word.replace("$", "$$") for word in written))
    arguments = [part for word in words[1:] for part in _expand(word, environment)]
    return Command(marks, (words[0], *arguments), tuple(written))


def literal(word: str) -> str:
    """A word so that systemd takes nothing in it for a specifier or a variable; its quotes are another matter."""
    return word.replace("%", "%%").replace("$", "$$")


def is_variable(word: str) -> bool:
    """Whether a word is one variable that systemd divides into any number of words."""
    return re.fullmatch(r"\$\w+", word) is not None


def variables_in(word: str) -> frozenset[str]:
    """The names of the variables that systemd replaces in a word of a command."""
    alone = re.fullmatch(r"\$(\w+)", word)
    return frozenset({alone.group(1)} if alone else {braced for braced, _ in _VARIABLE.findall(word) if braced})


def _expand(word: str, environment: Mapping[str, str] | None) -> tuple[str, ...]:
    alone = re.fullmatch(r"\$(\w+)", word)
    if alone and environment is not None:
        return split_words(environment.get(alone.group(1), ""))

    def replacement(match: re.Match[str]) -> str:
        if match.group() == "$$":
            return "$"
        if match.group(1) is None or environment is None:
            return match.group()
        return environment.get(match.group(1), "")

    return (_VARIABLE.sub(replacement, word),)


def environment_pairs(value: str, unit: str) -> tuple[tuple[str, str], ...]:
    """The variables that one Environment= value sets; words that are no assignment are left out, as systemd does."""
    pairs = (resolve_specifiers(word, unit).partition("=") for word in split_words(value))
    return tuple((name, text) for name, equals, text in pairs if equals and name)


def environment_file_pairs(text: str) -> tuple[tuple[str, str], ...]:
    """The variables that an EnvironmentFile= sets: shell-like assignments, last one wins (systemd.exec(5))."""
    pairs: dict[str, str] = {}
    for line in _environment_lines(text):
        name, equals, value = line.partition("=")
        if equals and re.fullmatch(r"\w+", name.strip()):
            pairs[name.strip()] = _environment_value(value.strip())
    return tuple(pairs.items())


def _environment_lines(text: str) -> Iterable[str]:
    for line in text.replace("\\\n", "").split("\n"):
        if line.strip() and not line.lstrip().startswith(("#", ";")):
            yield line


def _environment_value(value: str) -> str:
    parts: list[str] = []
    quote = ""
    position = 0
    while position < len(value):
        character = value[position]
        position += 1
        if character == "\\" and quote != "'" and position < len(value):
            following = value[position]
            position += 1
            parts.append(following if not quote or following in '"\\`$' else "\\" + following)
        elif character == quote:
            quote = ""
        elif not quote and character in "\"'":
            quote = character
        else:
            parts.append(character)
    return "".join(parts)
