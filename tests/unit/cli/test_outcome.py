"""Every way in which a command can end: exit code, stream, form."""

from __future__ import annotations

import errno
import json
import os
import sys
from pathlib import Path

import click
import pytest

from llmops.cli import commands
from llmops.cli.outcome import deliver, outcome_of
from llmops.cli.result import Result, Status, failed
from llmops.cli.session import Progress, Session
from llmops.core import errors
from tests.unit.cli.conftest import Run

ALL_ERRORS = [
    (errors.UsageError("m", hint="h"), 2, "error"),
    (errors.ProblemsFound("m", hint="h"), 3, "problems"),
    (errors.ConflictingSetting("m", hint="h"), 3, "problems"),
    (errors.DoesNotFit("m", hint="h"), 4, "error"),
    (errors.RolledBack("m", hint="h"), 5, "error"),
    (errors.RollbackFailed("m", hint="h"), 6, "error"),
    (errors.NotInstalled("m", hint="h"), 7, "error"),
    (errors.TooOld("m", hint="h"), 7, "error"),
    (errors.Misconfigured("m", hint="h"), 7, "error"),
    (errors.Locked("m", hint="h"), 8, "error"),
    (errors.UnreadableInput("m", hint="h"), 9, "error"),
    (errors.UnknownArchitecture("m", hint="h"), 9, "error"),
    (errors.NoPermission("m", hint="h"), 10, "error"),
    (errors.EngineNotAnswering("m", hint="h"), 11, "error"),
    (errors.Interrupted(1, hint="h"), 129, "error"),
    (errors.Interrupted(15, hint="h"), 143, "error"),
]


def outcome(error: BaseException, session: Session | None = None) -> Result:
    def run() -> object:
        raise error

    result = outcome_of(run, "probe", session or Session())
    assert isinstance(result, Result)
    return result


@pytest.mark.parametrize(("error", "exit_code", "status"), ALL_ERRORS, ids=str)
def test_error_becomes_code_status_and_one_row(error: errors.LlmopsError, exit_code: int, status: str) -> None:
    envelope = outcome(error).envelope()
    assert (envelope["exit_code"], envelope["status"], envelope["command"]) == (exit_code, status, "probe")
    assert envelope["errors"] == [{"code": error.code, "message": error.message, "hint": "h"}]


def test_control_c_is_130() -> None:
    assert outcome(KeyboardInterrupt()).exit_code == 130
    assert outcome(click.Abort()).exit_code == 130


def test_what_cleaning_up_after_control_c_raises_is_still_130() -> None:
    def run() -> object:
        try:
            raise KeyboardInterrupt
        finally:
            raise BufferError("cannot close")

    result = outcome_of(run, "probe", Session())
    assert isinstance(result, Result)
    assert result.exit_code == 130


def test_permission_error_of_the_system_is_10() -> None:
    result = outcome(PermissionError(13, "Permission denied", "/etc/shadow"))
    assert result.exit_code == 10
    assert "/etc/shadow" in result.errors[0].message


def test_bug_is_one_line_and_says_where_the_traceback_is() -> None:
    (row,) = outcome(ZeroDivisionError("a\nb")).errors
    assert (row.code, row.message) == ("bug", "unexpected ZeroDivisionError: a b")
    assert row.hint is not None
    path = Path(row.hint.split(" is in ")[1].split(";")[0])
    try:
        assert "Traceback" in path.read_text()
    finally:
        path.unlink()


def test_debug_shows_the_traceback_and_keeps_none(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    result = outcome(ZeroDivisionError("x"), Session(("--debug",)))
    assert result.exit_code == 1
    assert "ZeroDivisionError: x" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_text_goes_to_stdout_and_errors_to_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    result = failed("size", errors.DoesNotFit("too large", hint="take less"), text=lambda: "the table")
    assert deliver(result, Session()) == 4
    captured = capsys.readouterr()
    assert captured.out == "the table\n"
    assert captured.err == "error: too large\nhint: take less\n"


def test_text_that_ends_its_line_is_printed_exactly(capsys: pytest.CaptureFixture[str]) -> None:
    deliver(Result("render", Status.OK, text=lambda: "[Service]\n"), Session())
    assert capsys.readouterr().out == "[Service]\n"


def test_json_is_the_envelope_and_nothing_else(capsys: pytest.CaptureFixture[str]) -> None:
    deliver(failed("plan", errors.Locked("busy")), Session(("--output", "json")))
    captured = capsys.readouterr()
    assert json.loads(captured.out) == {
        "schema": 1,
        "command": "plan",
        "status": "error",
        "exit_code": 8,
        "data": {},
        "errors": [{"code": "locked", "message": "busy", "hint": None}],
    }
    assert captured.err == ""


def test_a_reader_that_has_gone_is_quiet() -> None:
    def run() -> object:
        raise BrokenPipeError

    assert outcome_of(run, "probe", Session()) == 0


@pytest.mark.parametrize(
    "words",
    [("plan", "--no-such"), ("nonsense",), ("--no-such",), ("plan", "--users"), ("probe", "extra"), ("--output",)],
)
def test_usage_errors_are_2_one_line_and_a_hint(run: Run, words: tuple[str, ...]) -> None:
    ran = run(*words)
    assert ran.exit_code == 2
    assert ran.stdout == ""
    first, hint = ran.stderr.splitlines()
    assert first.startswith("error: ")
    assert hint.startswith("hint: see llmops")


@pytest.mark.parametrize(
    "words", [("plan", "--no-such", "--output", "json"), ("plan", "--output=json", "--users", "x")]
)
def test_usage_errors_obey_output_json(run: Run, words: tuple[str, ...]) -> None:
    ran = run(*words)
    assert ran.exit_code == 2
    assert (ran.envelope["command"], ran.envelope["status"], ran.envelope["exit_code"]) == ("plan", "error", 2)
    assert ran.envelope["errors"][0]["code"] == "usage"
    assert ran.stderr == ""


def test_output_may_stand_before_the_verb(run: Run) -> None:
    assert run("--output", "json", "plan", "--users", "0").envelope["exit_code"] == 2


def test_no_words_are_a_usage_error_in_one_line(run: Run) -> None:
    ran = run()
    assert ran.exit_code == 2
    assert ran.stderr == "error: Missing command.\nhint: see llmops --help\n"


@pytest.mark.parametrize("words", [("-h",), ("--help",), ("plan", "-h"), ("--version",)])
def test_help_and_version_are_0(run: Run, words: tuple[str, ...]) -> None:
    ran = run(*words)
    assert ran.exit_code == 0
    assert ran.stdout
    assert ran.stderr == ""


def test_progress_in_a_pipe_is_plain_lines(capsys: pytest.CaptureFixture[str]) -> None:
    progress = Progress()
    progress("loading")
    progress("testing")
    progress.clear()
    captured = capsys.readouterr()
    assert captured.err == "loading\ntesting\n"
    assert captured.out == ""


def test_every_command_has_a_module_of_its_name() -> None:
    from llmops.cli.application import COMMANDS

    directory = Path(next(iter(commands.__path__)))
    assert {path.stem for path in directory.glob("*.py")} - {"__init__"} == set(COMMANDS)


@pytest.mark.parametrize(
    ("number", "word"), [(errno.ENOSPC, "make room"), (errno.EROFS, "for writing"), (errno.EMFILE, "ulimit")]
)
def test_a_machine_in_trouble_is_no_bug(number: int, word: str) -> None:
    (row,) = outcome(OSError(number, os.strerror(number), "/var/x")).errors
    assert row.code == "error"
    assert row.message == f"{os.strerror(number)}: /var/x"
    assert word in str(row.hint)


def test_a_closed_standard_output_is_said(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "stdout", None)
    assert deliver(Result("plan", Status.OK, text=lambda: "the plan"), Session()) == 1
    assert "standard output is closed" in capsys.readouterr().err
    assert deliver(failed("plan", errors.DoesNotFit("m")), Session()) == 4
    assert capsys.readouterr().err == "error: m\n"


def test_what_names_hold_cannot_steer_the_terminal_or_make_two_lines() -> None:
    error = errors.UnreadableInput("/a\nb\x1b[31m\u202egguf: no such file", hint="look at /a\rb")
    (row,) = outcome(error).errors
    assert row.message == r"/a\nb\x1b[31m\u202egguf: no such file"
    assert row.hint == r"look at /a\rb"
