"""From whatever a command did to one printed result and one exit code. The only place that catches errors."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from llmops.cli.session import Session, wants_colour
from llmops.core.errors import EXIT_BUG, EXIT_OK, Interrupted, LlmopsError, NoPermission, UsageError

if TYPE_CHECKING:
    from llmops.cli.result import Result

# Results are imported where one is made: --help prints none and must start quickly.
_SIGINT = 2
# What a machine in trouble answers to anybody: no bug of llmops, and what to do about each.
_IN_TROUBLE = {
    errno.ENOSPC: "make room on that disk",
    errno.EDQUOT: "make room under the disk quota of this user",
    errno.EROFS: "mount it for writing, or name another place",
    errno.EIO: "look into dmesg: the device does not read or write",
    errno.EMFILE: "allow more open files: ulimit -n",
    errno.ENFILE: "too many files are open on this machine: look for what holds them",
    errno.ENOMEM: "free memory first",
}


def outcome_of(run: Callable[[], object], command: str, session: Session) -> Result | int:
    """The result, or the exit code where click has printed all there is (--help, --version)."""
    try:
        value = run()
    except BrokenPipeError:
        return EXIT_OK
    except (LlmopsError, Interrupted, click.ClickException, click.Abort, KeyboardInterrupt, PermissionError) as error:
        _show_traceback_in_debug(session)
        return _failed(command, _as_own_error(error))
    except Exception as error:  # noqa: BLE001 - a bug is reported like everything else: one line and an exit code
        known = _stopped_by(error) or _in_trouble(error)
        return _failed(command, known) if known else _bug(command, error, session)
    if value is None or isinstance(value, int):
        return value or EXIT_OK
    return _as_result(value)


def _as_result(value: object) -> Result:
    from llmops.cli.result import Result

    if not isinstance(value, Result):
        raise TypeError(f"a command returned {value!r} and no Result")
    return value


def _failed(command: str, error: LlmopsError | Interrupted) -> Result:
    from llmops.cli.result import failed

    return failed(command, error)


def _as_own_error(error: BaseException) -> LlmopsError | Interrupted:
    if isinstance(error, (LlmopsError, Interrupted)):
        return error
    if isinstance(error, click.UsageError):
        path = error.ctx.command_path if error.ctx else "llmops"
        return UsageError(_one_line(error.format_message()), hint=f"see {path} --help")
    if isinstance(error, click.ClickException):
        return UsageError(_one_line(error.format_message()))
    if isinstance(error, PermissionError):
        hint = "run it as root (sudo)" if os.geteuid() else "not even root may do this there: name another place"
        return NoPermission(f"no permission: {_one_line(str(error))}", hint=hint)
    return Interrupted(_SIGINT)


def _in_trouble(error: Exception) -> LlmopsError | None:
    """The error of a full disk and its like; None for everything else."""
    if not isinstance(error, OSError) or error.errno not in _IN_TROUBLE:
        return None
    where = f": {error.filename}" if error.filename else ""
    return LlmopsError(f"{error.strerror}{where}", hint=_IN_TROUBLE[error.errno])


def _stopped_by(error: BaseException | None) -> LlmopsError | Interrupted | None:
    """The signal behind an error that cleaning up after that signal raised."""
    while error is not None:
        if isinstance(error, (KeyboardInterrupt, Interrupted)):
            return _as_own_error(error)
        error = error.__context__
    return None


def _one_line(text: str) -> str:
    return " ".join(text.split())


def deliver(outcome: Result | int, session: Session) -> int:
    """Print the outcome and give its exit code; a reader that has gone away is no error."""
    session.progress.clear()
    if isinstance(outcome, int):
        return outcome
    if sys.stdout is None:  # closed by whoever started us (`>&-`)
        _print_errors(outcome)
        if not outcome.errors:
            click.echo("error: the result could not be written: standard output is closed", err=True)
        return outcome.exit_code or EXIT_BUG
    try:
        if session.output == "json":
            _print_json(outcome)
        else:
            _print_text(outcome)
        sys.stdout.flush()
    except BrokenPipeError:
        _drop_stdout()
    except OSError as error:
        _drop_stdout()
        click.echo(f"error: the result could not be written: {error.strerror}", err=True)
        return outcome.exit_code or EXIT_BUG
    return outcome.exit_code


def _drop_stdout() -> None:
    """What is still in the buffer would fail once more when the interpreter flushes it at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _print_json(result: Result) -> None:
    import json

    click.echo(json.dumps(result.envelope(), indent=2, ensure_ascii=False, allow_nan=False))


def _print_text(result: Result) -> None:
    text = result.text()
    if text:
        click.echo(text, nl=not text.endswith("\n"), color=wants_colour())
    _print_errors(result)


def _print_errors(result: Result) -> None:
    for error in result.errors:
        click.echo(f"{click.style('error:', fg='red')} {error.message}", err=True, color=wants_colour())
        if error.hint:
            click.echo(f"{click.style('hint:', fg='cyan')} {error.hint}", err=True, color=wants_colour())


def _show_traceback_in_debug(session: Session) -> None:
    if session.debug:
        import traceback

        click.echo(traceback.format_exc(), err=True)


def _bug(command: str, error: Exception, session: Session) -> Result:
    from llmops.cli.result import ErrorEntry, Result, Status

    message = f"unexpected {type(error).__name__}: {_one_line(str(error))}"
    _show_traceback_in_debug(session)
    place = "above" if session.debug else f"in {_keep_traceback()}"
    hint = f"the traceback is {place}; please report it"
    return Result(command, Status.ERROR, EXIT_BUG, errors=(ErrorEntry.of("bug", message, hint),))


def _keep_traceback() -> str:
    import tempfile
    import traceback

    with tempfile.NamedTemporaryFile("w", prefix="llmops-", suffix=".traceback", delete=False) as file:
        file.write(traceback.format_exc())
    return file.name
