"""The text that Prometheus reads from a server: names, labels and values of the samples that are asked for."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass

from llmops.core.errors import UnreadableInput

# A server with hundreds of adapters writes some hundred KiB; more is no answer of an engine.
LARGEST_CHARACTERS = 16 * 1024 * 1024
# Beyond it a double counts in steps of more than a hundred; no engine gets there.
_MOST_COUNTED = 1e18
_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_LABEL = re.compile(r'\s*([a-zA-Z_][a-zA-Z0-9_]*)\s*=\s*"((?:[^"\\\n]|\\.)*)"\s*(,|(?=\}))')
_ESCAPED = re.compile(r"\\(.)")
_ESCAPES = {"n": "\n"}


@dataclass(frozen=True)
class Sample:
    """One line: `vllm:num_preemptions_total{engine="0"} 18.0`."""

    name: str
    labels: tuple[tuple[str, str], ...]
    value: float

    def label(self, name: str) -> str | None:
        """The value of one label; None where the sample has none of that name."""
        return next((value for key, value in self.labels if key == name), None)


def read_samples(text: str, prefix: str) -> tuple[Sample, ...]:
    """The samples whose name begins with `prefix`; raise UnreadableInput for a line of them that is none.

    The format: https://prometheus.io/docs/instrumenting/exposition_formats/ (a time after the value is left out).
    """
    if len(text) > LARGEST_CHARACTERS:
        raise UnreadableInput(f"the metrics are {len(text):,} characters long, far more than an engine writes")
    return tuple(_samples(text, prefix))


def _samples(text: str, prefix: str) -> Iterator[Sample]:
    # Not splitlines(): a label may hold other characters that Python takes for the end of a line.
    for number, line in enumerate(text.split("\n"), 1):
        if line.startswith(prefix):
            yield _sample(line.rstrip("\r"), number)


def _sample(line: str, number: int) -> Sample:
    name = _NAME.match(line)
    if name is None:
        raise _broken(line, number)
    labels, place = _labels(line, name.end(), number) if line[name.end() : name.end() + 1] == "{" else ((), name.end())
    words = line[place:].split("#", maxsplit=1)[0].split()
    if not 1 <= len(words) <= 2:
        raise _broken(line, number)
    try:
        value = float(words[0])
    except ValueError:
        raise _broken(line, number) from None
    return Sample(name.group(), labels, value)


def _labels(line: str, place: int, number: int) -> tuple[tuple[tuple[str, str], ...], int]:
    """The labels between the braces that open at `place`, and the place after them."""
    found: list[tuple[str, str]] = []
    place += 1
    while line[place : place + 1] != "}":
        label = _LABEL.match(line, place)
        if label is None:
            raise _broken(line, number)
        found.append((label[1], _ESCAPED.sub(lambda one: _ESCAPES.get(one[1], one[1]), label[2])))
        place = label.end()
    return tuple(found), place + 1


def _broken(line: str, number: int) -> UnreadableInput:
    return UnreadableInput(f"line {number} of the metrics is no sample: {line[:80]!r}")


def counted(name: str, value: float) -> float:
    """A value that counts something; raise UnreadableInput for one that cannot be a count."""
    if not math.isfinite(value) or not 0 <= value <= _MOST_COUNTED:
        raise UnreadableInput(f"{name} is {value}, which counts nothing")
    return value
