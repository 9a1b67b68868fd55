"""The command line: flags in, Result out. Only here is the local host built."""

from __future__ import annotations

from typing import NoReturn


def main() -> NoReturn:
    """Run the command that the process was started with and end the process."""
    from llmops.cli.application import application

    application.main()
    raise AssertionError("click ends the process")
