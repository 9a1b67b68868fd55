"""Templates to text, and how one word is written in a unit file. Templates hold layout, never decisions."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import TYPE_CHECKING

from llmops.core.errors import UsageError

if TYPE_CHECKING:
    from jinja2 import Environment

# systemd.syntax(7), "Quoting": these have a short escape; every other control character is written \xNN.
_SHORT_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "\r": "\\r"}
_NEEDS_QUOTES = frozenset(" '\";#")


def template_directory() -> Path:
    """Where the templates are: inside an installed package, else beside it in the repository."""
    packaged = Path(__file__).parent / "templates"
    return packaged if packaged.is_dir() else Path(__file__).parents[1] / "templates"


def render(template: str, **values: object) -> str:
    """The text of a template such as `llama-server/unit.service.j2`: a missing value is an error, not an empty text."""
    return _environment().get_template(template).render(**values)


def systemd_quote(text: str) -> str:
    """One word as systemd reads it back: `\\` and `"` escaped, `%` doubled, in double quotes where it needs them."""
    return systemd_written(text.replace("%", "%%"))


def systemd_exec_word(text: str) -> str:
    """One argument of ExecStart=: as systemd_quote, and `$` doubled, so that it is never taken for a variable."""
    return systemd_quote(text.replace("$", "$$"))


def systemd_written(text: str) -> str:
    """One word in which `%` and `$` keep the meaning that they have for systemd: only quoted, as far as it needs it."""
    if "\0" in text:
        raise UsageError(f"a zero byte cannot be written into a unit file: {text!r}")
    escaped = "".join(_escape(character) for character in text)
    plain = text and escaped == text and not _NEEDS_QUOTES.intersection(text)
    return escaped if plain else f'"{escaped}"'


def systemd_specifiers(text: str) -> str:
    """A whole value that systemd takes as it is, but for `%` (EnvironmentFile=, Description=, User=)."""
    if any(character in text for character in "\0\n\r") or text.endswith("\\"):
        raise UsageError(f"{text!r} cannot be written into a unit file")
    return text.replace("%", "%%")


def systemd_bind(text: str) -> str:
    """A path of BindReadOnlyPaths=, which knows quotes but no C escapes; quoted also for `:`, which divides it."""
    if any(ord(character) < 32 for character in text):
        raise UsageError(f"{text!r} cannot be bound into a unit: rename it without control characters")
    doubled = text.replace("%", "%%")
    if not _NEEDS_QUOTES.union(":\\").intersection(text):
        return doubled
    return '"' + doubled.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _escape(character: str) -> str:
    if character in _SHORT_ESCAPES:
        return _SHORT_ESCAPES[character]
    return f"\\x{ord(character):02x}" if ord(character) < 32 or ord(character) == 127 else character


@functools.cache
def _environment() -> Environment:
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(template_directory()),
        undefined=jinja2.StrictUndefined,
        keep_trailing_newline=True,
        trim_blocks=True,
        lstrip_blocks=True,
        autoescape=False,  # noqa: S701 - unit files are not HTML; each value goes through a systemd filter
    )
    for filter_function in (systemd_quote, systemd_exec_word, systemd_written, systemd_specifiers, systemd_bind):
        environment.filters[filter_function.__name__] = filter_function
    return environment
