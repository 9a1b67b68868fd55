"""The checks by name, and how one passes, fails or does not apply."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from .client import Server


class Failed(Exception):
    """The server does something else."""


class NotApplicable(Exception):
    """The check needs something that was not given or is not there."""


@dataclass(frozen=True)
class Check:
    """One behaviour; the first line of the function's docstring says which."""

    name: str
    statement: str
    run: Callable[[Server], None]
    tries: int = 1


CHECKS: list[Check] = []


def check(function: Callable[[Server], None]) -> Callable[[Server], None]:
    """Add this function to the checks."""
    CHECKS.append(Check(function.__name__, (function.__doc__ or "").strip(), function))
    return function


def timed_check(function: Callable[[Server], None]) -> Callable[[Server], None]:
    """The same for one that compares times: a busy machine gets in their way once or twice, seldom three times."""
    CHECKS.append(Check(function.__name__, (function.__doc__ or "").strip(), function, tries=3))
    return function


def expect(condition: object, *seen: object) -> None:
    """Fail unless the condition holds, and say what was seen."""
    if not condition:
        raise Failed(" ".join(map(str, seen)) or "it does not hold")


def need(value: object, what: str) -> None:
    """The check does not apply without this."""
    if value is None or value is False:
        raise NotApplicable(what)
