"""A command line to settings, refused where llama-server's own parser refuses it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from llmops.embedded.help import option_text
from llmops.embedded.options import OPTIONS, Option
from llmops.embedded.values import Value


class RefusedArgument(Exception):
    """What is wrong with the command line, in the words that llama-server uses."""


@dataclass(frozen=True)
class CommandLine:
    """The settings that were given, by attribute; the last of several wins, as `repeated` says."""

    settings: dict[str, Value] = field(default_factory=dict)
    repeated: tuple[str, ...] = ()


def read_command_line(words: Sequence[str]) -> CommandLine:
    """Raise RefusedArgument for a flag that is not known, a value that is missing or one that cannot be."""
    settings: dict[str, Value] = {}
    repeated: list[str] = []
    remaining = iter(words)
    for word in remaining:
        option, is_on = _find(word)
        value: Value = is_on
        if option.value_name is not None:
            value = _value(option, word, next(remaining, None))
        if option.attribute in settings:
            repeated.append(word)
        settings[option.attribute] = value
    return CommandLine(settings, tuple(repeated))


def _find(word: str) -> tuple[Option, bool]:
    # llama-server takes an underscore for a dash in long flags (common/arg.cpp, common_params_parse_ex).
    plain = word.replace("_", "-") if word.startswith("--") else word
    for option in OPTIONS:
        if plain in option.names:
            return option, True
        if plain in option.off:
            return option, False
    raise RefusedArgument(f"error: invalid argument: {word}")


def _value(option: Option, flag: str, word: str | None) -> Value:
    try:
        if word is None:
            raise ValueError("expected value for argument")
        return option.convert(word)
    except ValueError as error:
        raise RefusedArgument(
            f'error while handling argument "{flag}": {error}\n\nusage:\n{option_text(option)}'
        ) from None
