"""Write docs/reference/commands.md from the commands' own help; a contract test compares the two."""

from __future__ import annotations

from pathlib import Path

import click

from llmops.cli.application import application

TARGET = Path(__file__).resolve().parent.parent / "docs" / "reference" / "commands.md"
HEADER = """# Commands

Made by `make docs` from the help of each command.
"""
WIDTH = 100


def help_of(command: click.Command, name: str, parent: click.Context | None = None) -> str:
    """The text of `llmops NAME --help`."""
    context = click.Context(
        command,
        info_name=name,
        parent=parent,
        terminal_width=WIDTH,
        max_content_width=WIDTH,
        help_option_names=["-h", "--help"],
    )
    return command.get_help(context).rstrip()


def reference() -> str:
    """The whole page: the group first, then every command in the order of use."""
    group = click.Context(application, info_name="llmops")
    pages = [f"{HEADER}\n```text\n{help_of(application, 'llmops')}\n```\n"]
    for name in application.list_commands(group):
        command = application.get_command(group, name)
        assert command is not None
        pages.append(f"\n## llmops {name}\n\n```text\n{help_of(command, name, group)}\n```\n")
    return "".join(pages)


if __name__ == "__main__":
    TARGET.write_text(reference(), encoding="utf-8")
