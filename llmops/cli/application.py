"""The group of commands: each is imported when it is used, and every outcome is reported in one place."""

from __future__ import annotations

import signal
import sys
from collections.abc import Sequence
from importlib import import_module
from types import FrameType
from typing import Any, NoReturn

import click

from llmops import __version__
from llmops.cli.options import common_options
from llmops.cli.outcome import deliver, outcome_of
from llmops.cli.session import Session

# Name and summary of every command, in the order of use; the summary is here so that --help imports none of them.
COMMANDS = {
    "probe": "Show what this machine is, each value with its source.",
    "plan": "Compute how the engine should serve; change nothing.",
    "render": "Print exactly the file that a plan would write.",
    "apply": "Make a plan live, verify it, and undo it if it fails.",
    "verify": "Compare what is in force with the last applied plan.",
    "tune": "Probe, plan and show the difference; --apply makes it live.",
    "size": "Show memory and capacity of one explicit configuration.",
    "rollback": "Put back what was before an apply.",
    "history": "List what was applied and rolled back.",
    "snapshot": "Record this machine into a new directory, without secrets.",
}


class Application(click.Group):
    """A click group that knows its commands by name and loads only the one that runs."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """All commands, in the order of use."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the module of one command."""
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = import_module(f"llmops.cli.commands.{cmd_name}").command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The list in --help, without importing the commands."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, COMMANDS[name]) for name in self.list_commands(ctx)])

    def main(self, args: Sequence[str] | None = None, prog_name: str | None = None, **extra: Any) -> NoReturn:  # type: ignore[override]
        """Run, print the result in the wanted form and exit with its code."""
        words = tuple(sys.argv[1:] if args is None else args)
        session = Session(words)
        extra.pop("standalone_mode", None)
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # else ignored (nohup), or somebody's own
            signal.signal(signal.SIGINT, _stop)

        def run() -> object:
            return super(Application, self).main(
                list(words), prog_name or "llmops", standalone_mode=False, obj=session, **extra
            )

        sys.exit(deliver(outcome_of(run, _command_name(words), session), session))


class _Stopped(KeyboardInterrupt):
    """CPython takes a KeyboardInterrupt inside exec() for unhandled: the process would end by the signal, not with 130.

    It looks for that very class (run_eval_code_obj in pythonrun.c), and dataclasses use exec() as modules are imported.
    """


def _stop(_signal_number: int, _frame: FrameType | None) -> NoReturn:
    raise _Stopped


def _command_name(words: tuple[str, ...]) -> str:
    return next((word for word in words if word in COMMANDS), "llmops")


@click.group(
    "llmops",
    cls=Application,
    no_args_is_help=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, prog_name="llmops")
@common_options
def application() -> None:
    """Configure, verify and diagnose self-hosted LLM servers.

    The main job: `llmops tune` shows what would change, `sudo llmops tune --apply` changes it safely.
    """
