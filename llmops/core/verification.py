"""What should be in force, what was seen, and whether they agree. What could not be seen is never a pass."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class CheckStatus(str, Enum):
    """`not_evaluated` is for what could not be observed; the detail says why."""

    PASS = "pass"  # noqa: S105 - a verdict, not a password
    FAIL = "fail"
    NOT_EVALUATED = "not_evaluated"


@dataclass(frozen=True)
class Expectation:
    """A value that must be in force once the plan is applied.

    `where` says which observation answers it: command_line, variable, environment, props, unit, listener, config_file.
    """

    name: str
    where: str
    value: str


@dataclass(frozen=True)
class Check:
    """One thing that was looked at."""

    name: str
    expected: str
    observed: str | None
    status: CheckStatus
    detail: str = ""


@dataclass(frozen=True)
class VerificationReport:
    """All checks of one verification."""

    checks: tuple[Check, ...]

    @property
    def failed(self) -> tuple[Check, ...]:
        """The checks that say no."""
        return tuple(check for check in self.checks if check.status is CheckStatus.FAIL)

    @property
    def passed(self) -> bool:
        """True when nothing failed and at least one thing was really seen."""
        return not self.failed and any(check.status is CheckStatus.PASS for check in self.checks)
