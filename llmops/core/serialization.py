"""Frozen dataclasses to plain JSON values and back, checked against their own type hints."""

from __future__ import annotations

import dataclasses
import math
import types
from collections.abc import Mapping
from enum import Enum
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from llmops.core.errors import UnreadableInput

T = TypeVar("T")


def encode(value: object) -> Any:
    """The value as dictionaries, lists, strings, numbers, booleans and None; keys are the field names."""
    if isinstance(value, Enum):
        return value.value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: encode(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(key): encode(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [encode(entry) for entry in value]
    return value


def decode(wanted: type[T], value: object, where: str) -> T:
    """A `wanted` from what `encode` made; raise UnreadableInput naming the place for anything else.

    Unknown keys are refused, so that a misspelled one is never silently ignored; missing keys take their defaults.
    """
    result: T = _decode(wanted, value, where)
    return result


def _decode(wanted: Any, value: object, where: str) -> Any:
    origin = get_origin(wanted)
    if origin in (Union, types.UnionType):
        return _optional(wanted, value, where)
    if origin is tuple:
        return _tuple(get_args(wanted), value, where)
    if dataclasses.is_dataclass(wanted):
        return _dataclass(wanted, value, where)
    if isinstance(wanted, type) and issubclass(wanted, Enum):
        return _enum(wanted, value, where)
    return _scalar(wanted, value, where)


def _optional(wanted: Any, value: object, where: str) -> Any:
    if value is None:
        return None
    (inner,) = [argument for argument in get_args(wanted) if argument is not type(None)]
    return _decode(inner, value, where)


def _tuple(arguments: tuple[Any, ...], value: object, where: str) -> tuple[Any, ...]:
    if not isinstance(value, list):
        raise _wrong(where, "a list", value)
    if len(arguments) == 2 and arguments[1] is Ellipsis:
        return tuple(_decode(arguments[0], entry, f"{where}[{place}]") for place, entry in enumerate(value))
    if len(value) != len(arguments):
        raise _wrong(where, f"a list of {len(arguments)}", value)
    pairs = zip(arguments, value, strict=True)
    return tuple(_decode(argument, entry, f"{where}[{place}]") for place, (argument, entry) in enumerate(pairs))


def _dataclass(wanted: Any, value: object, where: str) -> Any:
    if not isinstance(value, dict):
        raise _wrong(where, "an object", value)
    hints = get_type_hints(wanted)
    fields = {field.name: field for field in dataclasses.fields(wanted)}
    for key in value:
        if key not in fields:
            raise UnreadableInput(f"{where}: unknown key {key!r}", hint=f"known keys: {', '.join(sorted(fields))}")
    for name, field in fields.items():
        required = field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
        if required and name not in value:
            raise UnreadableInput(f"{where}: the key {name!r} is missing")
    return wanted(**{name: _decode(hints[name], entry, f"{where}.{name}") for name, entry in value.items()})


def _enum(wanted: type[Enum], value: object, where: str) -> Enum:
    for member in wanted:
        if member.value == value:
            return member
    raise _wrong(where, "one of " + ", ".join(str(member.value) for member in wanted), value)


def _scalar(wanted: Any, value: object, where: str) -> Any:
    if wanted is float and isinstance(value, int) and not isinstance(value, bool):
        value = float(value)
    if not isinstance(value, wanted) or (wanted is not bool and isinstance(value, bool)):
        raise _wrong(where, _NAMES[wanted], value)
    if wanted is float and not math.isfinite(value):
        raise _wrong(where, "a finite number", value)
    return value


_NAMES = {int: "a whole number", float: "a number", str: "a text", bool: "true or false"}


def _wrong(where: str, expected: str, value: object) -> UnreadableInput:
    shown = repr(value)
    shown = shown if len(shown) <= 40 else shown[:37] + "..."
    return UnreadableInput(f"{where}: expected {expected}, found {shown}")
