"""Headings, aligned pairs, tables and wrapped paragraphs of 80 columns."""

from __future__ import annotations

import shlex
import textwrap
from collections.abc import Iterable, Sequence

import click

WIDTH = 80
_INDENT = "  "


def heading(text: str) -> str:
    """A bold line."""
    return click.style(text, bold=True)


def good(text: str) -> str:
    """Green."""
    return click.style(text, fg="green")


def bad(text: str) -> str:
    """Red."""
    return click.style(text, fg="red")


def caution(text: str) -> str:
    """Yellow."""
    return click.style(text, fg="yellow")


def faint(text: str) -> str:
    """Grey."""
    return click.style(text, dim=True)


def pairs(rows: Iterable[tuple[str, str | None]]) -> str:
    """Name and value in two columns, long values wrapped under themselves; rows without a value are left out."""
    shown = [(name, value) for name, value in rows if value]
    gutter = max((len(name) for name, _ in shown), default=0) + 2 + len(_INDENT)
    return "\n".join(wrapped(value, first=f"{_INDENT}{name}".ljust(gutter), rest=" " * gutter) for name, value in shown)


def wrapped(text: str, *, first: str = _INDENT, rest: str = _INDENT) -> str:
    """A paragraph; the words of one line are never longer than the page unless a single word is."""
    lines = textwrap.wrap(
        text, WIDTH, initial_indent=first, subsequent_indent=rest, break_long_words=False, break_on_hyphens=False
    )
    return "\n".join(lines) if lines else first.rstrip()


def shell_lines(command: str) -> str:
    """A command of a shell, wrapped with backslashes at the ends of lines; an option keeps its value."""
    pieces: list[str] = []
    for word in map(shlex.quote, shlex.split(command)):
        if pieces and pieces[-1].startswith("--") and not word.startswith("-") and " " not in pieces[-1]:
            pieces[-1] += f" {word}"
        else:
            pieces.append(word)
    lines = [_INDENT + pieces[0]]
    for piece in pieces[1:]:
        if len(lines[-1]) + len(piece) + len("  \\") <= WIDTH:
            lines[-1] += f" {piece}"
        else:
            lines.append(_INDENT * 2 + piece)
    return " \\\n".join(lines)


def bullets(rows: Iterable[str]) -> str:
    """One wrapped paragraph with a dash per row."""
    return "\n".join(wrapped(row, first=f"{_INDENT}- ", rest=f"{_INDENT}  ") for row in rows)


def table(rows: Sequence[Sequence[str]], headers: Sequence[str], *, left_columns: int = 1) -> str:
    """A table whose first `left_columns` columns are aligned left and the others right, widths kept to the page."""
    import tabulate

    tabulate.MIN_PADDING = 0  # else every header widens its column by two
    alignment = ["left" if column < left_columns else "right" for column in range(len(headers))]
    widths = _fitting(_natural_widths(rows, headers))
    # Wrapped here: tabulate takes 65,648 for a number when it wraps, and fails.
    text = tabulate.tabulate(
        [_wrapped_cells(row, widths) for row in rows],
        headers=_wrapped_cells(headers, widths),
        tablefmt="simple",
        colalign=alignment if rows else None,
        disable_numparse=True,
    )
    return textwrap.indent(text, _INDENT)


def _wrapped_cells(cells: Sequence[str], widths: Sequence[int]) -> list[str]:
    return [
        cell if len(click.unstyle(str(cell))) <= width else textwrap.fill(str(cell), width)
        for cell, width in zip(cells, widths, strict=True)
    ]


def _natural_widths(rows: Sequence[Sequence[str]], headers: Sequence[str]) -> list[int]:
    return [
        max([len(header), *(len(click.unstyle(str(row[column]))) for row in rows)])
        for column, header in enumerate(headers)
    ]


def _fitting(natural: Sequence[int]) -> list[int]:
    """The widest columns give way until the row fits the page."""
    gap, room, narrowest = 2, WIDTH - len(_INDENT), 8
    widths = list(natural)
    while sum(widths) + gap * (len(widths) - 1) > room and max(widths) > narrowest:
        widths[widths.index(max(widths))] -= 1
    return widths


def sections(parts: Iterable[str]) -> str:
    """The parts that say something, one empty line between them."""
    return "\n\n".join(part for part in parts if part)
