"""How one run of the command line talks: its output form, how much it says, and where the progress goes."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass, field

import click


@dataclass
class Progress:
    """Lines about long work on stderr: one status line on a terminal, plain lines in a pipe or with -v."""

    verbose: bool = False
    shown: bool = False

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


@dataclass
class Session:
    """Set from the words of the command line, before they are parsed, so that usage errors obey it too."""

    words: tuple[str, ...] = ()
    output: str = "text"
    verbose: bool = False
    debug: bool = False
    progress: Progress = field(default_factory=Progress)

    @classmethod
    def from_words(cls, words: tuple[str, ...]) -> Session:
        """Find --output, -v and --debug wherever they stand."""
        verbose = bool({"-v", "--verbose"} & set(words))
        return cls(words, _wanted_output(words), verbose, "--debug" in words, Progress(verbose))


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
