"""llmops.yaml: the options that a person should not type twice, checked with line and column."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from llmops.core.errors import UnreadableInput, UsageError
from llmops.core.units import parse_bytes, parse_rate

_THOUSANDS = re.compile(r"\d{1,3}(,\d{3})+")
_FORM = "write lines such as `users: 5`, without tabs; the keys are the long options without their dashes"


class ValueKind(str, Enum):
    """What an option takes; sizes and rates are texts with a unit, base units once parsed."""

    TEXT = "text"
    TEXTS = "texts"
    INTEGER = "integer"
    NUMBER = "number"
    SIZE = "size"
    RATE = "rate"
    CHOICE = "choice"
    FLAG = "flag"


@dataclass(frozen=True)
class OptionSpec:
    """One option under its own name: what it takes and within which bounds (`above` and `below` exclude theirs)."""

    name: str
    kind: ValueKind
    help: str
    metavar: str | None = None
    choices: tuple[str, ...] = ()
    minimum: float | None = None
    above: float | None = None
    below: float | None = None
    maximum: float | None = None
    check: Callable[[str], object] | None = None  # raises UsageError for a text that has another form


@dataclass(frozen=True)
class FileValue:
    """A value of the configuration file, parsed, and its place there (line and column from 1)."""

    value: Any
    line: int
    column: int


def read_value(spec: OptionSpec, raw: object) -> Any:
    """The parsed value in base units; raise UsageError naming what is wrong with it.

    `raw` is a text of the command line or a value of the configuration file.
    """
    value = _PARSERS[spec.kind](spec, raw)
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        _check_bounds(spec, value)
    return value


def read_configuration(text: str, path: str, specs: Mapping[str, OptionSpec]) -> dict[str, FileValue]:
    """The values of one file by option name; raise UnreadableInput with path, line and column for anything else."""
    mapping = load_yaml(text, path)
    if mapping is None:
        return {}
    if not hasattr(mapping, "lc") or not hasattr(mapping, "items"):
        raise UnreadableInput(f"{path}:1:1: expected lines of the form `option: value`", hint=_FORM)
    values = {}
    for name, raw in mapping.items():
        place = mapping.lc.key(name) if name in (mapping.lc.data or ()) else None
        if place is None:
            raise UnreadableInput(f"{path}: {name!r} comes from a merge key", hint="write the option itself, not `<<`")
        line, column = (number + 1 for number in place)
        values[name] = _file_value(name, raw, specs, f"{path}:{line}:{column}", (line, column))
    return values


def _file_value(
    name: object, raw: object, specs: Mapping[str, OptionSpec], place: str, position: tuple[int, int]
) -> FileValue:
    spec = specs.get(str(name))
    if spec is None:
        raise UnreadableInput(f"{place}: unknown key {name!r}", hint=_nearest(str(name), specs))
    try:
        value = read_value(spec, raw)
        if spec.check is not None:
            for text in value if isinstance(value, tuple) else (value,):
                spec.check(text)
        return FileValue(value, *position)
    except UsageError as error:
        hint = error.hint or f"correct this line, or take it out: the option is --{name} of llmops plan --help"
        raise UnreadableInput(f"{place}: {name}: {error.message}", hint=hint) from None


def _nearest(name: str, specs: Mapping[str, OptionSpec]) -> str:
    from difflib import get_close_matches

    close = get_close_matches(name.replace("_", "-"), specs, n=1)
    return f"did you mean {close[0]!r}?" if close else "the keys are the long options without their dashes"


def load_yaml(text: str, path: str) -> Any:
    """The document with the places of its parts (`lc`); raise UnreadableInput with path, line and column."""
    from ruamel.yaml import YAML
    from ruamel.yaml.constructor import DuplicateKeyError
    from ruamel.yaml.error import MarkedYAMLError, YAMLError

    try:
        return YAML(typ="rt", pure=True).load(text)
    except DuplicateKeyError as error:
        raise UnreadableInput(f"{_place(path, error)}: the same key stands twice", hint="remove one of them") from None
    except MarkedYAMLError as error:
        problem = " ".join(str(error.problem or error.context).split())
        raise UnreadableInput(f"{_place(path, error)}: not valid YAML: {problem}", hint=_FORM) from None
    except (YAMLError, ValueError, RecursionError) as error:
        problem = " ".join(str(error).split())[:120] or type(error).__name__
        raise UnreadableInput(f"{path}: not valid YAML: {problem}", hint=_FORM) from None


def _place(path: str, error: Any) -> str:
    mark = error.problem_mark or error.context_mark
    return path if mark is None else f"{path}:{mark.line + 1}:{mark.column + 1}"


def _text(_spec: OptionSpec, raw: object) -> str:
    if isinstance(raw, bool) or not isinstance(raw, (str, int)):
        raise UsageError(f"expected a text, found {_shown(raw)}", hint="put it in quotes")
    if not str(raw).strip():
        raise UsageError("expected a text, found nothing")
    return str(raw)


def _texts(spec: OptionSpec, raw: object) -> tuple[str, ...]:
    rows = raw if isinstance(raw, (list, tuple)) else [raw]
    return tuple(_text(spec, row) for row in rows)


def _integer(_spec: OptionSpec, raw: object) -> int:
    try:
        if isinstance(raw, str):
            return int(raw.replace(",", "") if _THOUSANDS.fullmatch(raw.strip()) else raw)
    except ValueError:
        raise UsageError(f"expected a whole number, found {_shown(raw)}") from None
    if isinstance(raw, bool) or not isinstance(raw, int):
        raise UsageError(f"expected a whole number, found {_shown(raw)}")
    return int(raw)


def _number(_spec: OptionSpec, raw: object) -> float:
    try:
        number = math.nan if isinstance(raw, bool) else float(raw)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not math.isfinite(number):
        raise UsageError(f"expected a number, found {_shown(raw)}")
    return number


def _size(_spec: OptionSpec, raw: object) -> int:
    if isinstance(raw, (bool, float)) or not isinstance(raw, (str, int)):
        raise UsageError(f"expected a size such as 24GiB, found {_shown(raw)}")
    return parse_bytes(str(raw))


def _rate(_spec: OptionSpec, raw: object) -> int:
    if not isinstance(raw, str):
        raise UsageError(f"expected a rate such as 936GB/s, found {_shown(raw)}")
    return parse_rate(raw)


def _choice(spec: OptionSpec, raw: object) -> str:
    if raw not in spec.choices:
        raise UsageError(f"{_shown(raw)} is not one of {', '.join(spec.choices)}")
    return str(raw)


def _flag(_spec: OptionSpec, raw: object) -> bool:
    if not isinstance(raw, bool):
        raise UsageError(f"expected true or false, found {_shown(raw)}")
    return raw


def _check_bounds(spec: OptionSpec, value: float) -> None:
    if spec.minimum is not None and value < spec.minimum:
        raise UsageError(f"{value:g} is too small: the least is {spec.minimum:g}")
    if spec.above is not None and value <= spec.above:
        raise UsageError(f"{value:g} is too small: it must be more than {spec.above:g}")
    if spec.maximum is not None and value > spec.maximum:
        raise UsageError(f"{value:g} is too large: the most is {spec.maximum:,}")
    if spec.below is not None and value >= spec.below:
        raise UsageError(f"{value:g} is too large: it must be less than {spec.below:g}")


def _shown(raw: object) -> str:
    text = "nothing" if raw is None else repr(raw) if isinstance(raw, str) else str(raw)
    return text if len(text) <= 40 else text[:37] + "..."


_PARSERS = {
    ValueKind.TEXT: _text,
    ValueKind.TEXTS: _texts,
    ValueKind.INTEGER: _integer,
    ValueKind.NUMBER: _number,
    ValueKind.SIZE: _size,
    ValueKind.RATE: _rate,
    ValueKind.CHOICE: _choice,
    ValueKind.FLAG: _flag,
}
