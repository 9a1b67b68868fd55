"""How one run of the command line talks: its output form, how much it says, and where the progress goes."""

from __future__ import annotations

import os
import sys

import click

# Plain classes: making dataclasses costs a part of the time that --help may take.


class Progress:
    """Lines about long work on stderr: one status line on a terminal, plain lines in a pipe or with -v."""

    def __init__(self, *, verbose: bool = False) -> None:
        self.verbose = verbose
        self.shown = False

    def __call__(self, line: str) -> None:
        """Show what is being done now."""
        if self.verbose or not sys.stderr.isatty():
            click.echo(line, err=True)
            return
        width = os.get_terminal_size(sys.stderr.fileno()).columns
        click.echo(f"\r\x1b[K{line[: width - 1]}", err=True, nl=False, color=True)
        self.shown = True

    def clear(self) -> None:
        """Take the status line away before anything else is printed."""
        if self.shown:
            click.echo("\r\x1b[K", err=True, nl=False, color=True)
            self.shown = False


class Session:
    """Set from the words of the command line, before they are parsed, so that usage errors obey it too."""

    def __init__(self, words: tuple[str, ...] = ()) -> None:
        self.words = words
        self.output = _wanted_output(words)
        self.verbose = bool({"-v", "--verbose"} & set(words))
        self.debug = "--debug" in words
        self.api_key: str | None = None
        self.progress = Progress(verbose=self.verbose)


def _wanted_output(words: tuple[str, ...]) -> str:
    wanted = "text"
    for place, word in enumerate(words):
        name, equals, value = word.partition("=")
        if name == "--output":
            wanted = value if equals else "".join(words[place + 1 : place + 2])
    return "json" if wanted == "json" else "text"


def wants_colour() -> bool | None:
    """False where NO_COLOR (https://no-color.org) or a dumb terminal says so; None lets click look at the stream."""
    return False if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb" else None
