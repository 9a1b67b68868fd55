"""Write docs/reference/command-line.md from the program's own --help, so that the two cannot drift."""

from __future__ import annotations

import sys
from pathlib import Path

from click.testing import CliRunner

from llmops.cli.application import COMMANDS, application

PATH = Path(__file__).parents[1] / "docs/reference/command-line.md"
WIDTH = 100
INTRODUCTION = """\
# The command line

Written by `python tools/write_command_reference.py` from the program itself; a test compares the two.

Every command takes `-h`, `--output text|json`, `-v` (say on stderr what is being done) and `--debug` (show the
traceback of an error). stdout is the result, stderr everything else. Colour appears only on a terminal and never where
`NO_COLOR` is set. Exit codes: [exit-codes.md](exit-codes.md). JSON: [json.md](json.md). The same options in a file:
[configuration.md](configuration.md).

Sizes are written with a unit (`24GiB` is binary, `24GB` decimal, `24G` binary as systemd reads it), rates per second
(`936GB/s`). `--snapshot DIR` reads a recording made by `llmops snapshot` instead of this machine; the configuration
files of this machine are then not read, `--config` is.

A bare `-` stands for standard input wherever a file is read (`--plan -`, `--hardware -`, `--config -`).
"""


def reference() -> str:
    """The whole page."""
    blocks = [INTRODUCTION, _block(())]
    blocks += [f"## llmops {name}\n\n{_block((name,))}" for name in COMMANDS]
    return "\n".join(blocks)


def _block(words: tuple[str, ...]) -> str:
    result = CliRunner().invoke(application, [*words, "--help"], terminal_width=WIDTH)
    if result.exit_code != 0:
        raise RuntimeError(result.output)
    return f"```text\n{result.output.rstrip()}\n```\n"


if __name__ == "__main__":
    PATH.write_text(reference(), "utf-8")
    sys.stdout.write(f"wrote {PATH}\n")
