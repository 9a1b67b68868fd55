"""What every command hands back, and the JSON envelope around it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from llmops.core.errors import EXIT_OK, Interrupted, LlmopsError, ProblemsFound

SCHEMA = 1
# Words of file names, engines and other people's files end up in messages: no control character and no mark that turns
# the direction of writing may reach the terminal or make two lines of one.
_UNPRINTABLE = {*range(32), *range(127, 160), 0x2028, 0x2029, *range(0x202A, 0x202F), *range(0x2066, 0x206A)}
_VISIBLE = {number: repr(chr(number))[1:-1] for number in _UNPRINTABLE}


class Status(str, Enum):
    """`changed` is for what was changed, or would be; `problems` for what was found and not changed."""

    OK = "ok"
    CHANGED = "changed"
    PROBLEMS = "problems"
    ERROR = "error"


@dataclass(frozen=True)
class ErrorEntry:
    """One row of `errors`: the word for scripts, the sentence for people, the next step."""

    code: str
    message: str
    hint: str | None = None

    @classmethod
    def of(cls, code: str, message: str, hint: str | None) -> ErrorEntry:
        """A row whose texts are one line each; characters that cannot be shown are written as `\\n` or `\\x1b`."""
        return cls(code, message.translate(_VISIBLE), None if hint is None else hint.translate(_VISIBLE))


def _no_text() -> str:
    return ""


@dataclass(frozen=True)
class Result:
    """The outcome of one command; `text` is called only where text is wanted."""

    command: str
    status: Status
    exit_code: int = EXIT_OK
    data: Mapping[str, Any] = field(default_factory=dict)
    errors: tuple[ErrorEntry, ...] = ()
    text: Callable[[], str] = _no_text

    def envelope(self) -> dict[str, Any]:
        """The whole result as JSON values."""
        return {
            "schema": SCHEMA,
            "command": self.command,
            "status": self.status.value,
            "exit_code": self.exit_code,
            "data": dict(self.data),
            "errors": [{"code": row.code, "message": row.message, "hint": row.hint} for row in self.errors],
        }


def failed(
    command: str,
    error: LlmopsError | Interrupted,
    *,
    data: Mapping[str, Any] | None = None,
    text: Callable[[], str] = _no_text,
) -> Result:
    """The result of an error, with what was found before it."""
    status = Status.PROBLEMS if isinstance(error, ProblemsFound) else Status.ERROR
    entry = ErrorEntry.of(error.code, error.message, error.hint)
    return Result(command, status, error.exit_code, data or {}, (entry,), text)
