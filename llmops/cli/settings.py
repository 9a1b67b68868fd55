"""What was asked for: each value from the flag, the file or the default, with where it came from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from llmops.cli.hosts import configuration_places, read_input
from llmops.cli.option_table import CONFIGURABLE, CONTRADICTIONS
from llmops.configuration import FileValue, read_configuration
from llmops.core.errors import UsageError
from llmops.core.plan import Policy
from llmops.core.workload import DEFAULTS, WorkloadKind

# Larger than any file of options; the YAML reader takes seconds for a megabyte.
_MOST_CONFIGURATION_BYTES = 64 * 1024


@dataclass(frozen=True)
class Given:
    """One value; `source` is a flag, a place in a file, or a default."""

    name: str
    value: Any
    source: str


@dataclass(frozen=True)
class Settings:
    """All values by option name; `values` holds only what was given, defaults are asked for with `default`."""

    values: Mapping[str, Given]
    defaults: Mapping[str, Given]

    def value(self, name: str) -> Any:
        """The value given, else its default, else None."""
        given = self.values.get(name) or self.defaults.get(name)
        return given.value if given else None

    def is_given(self, name: str) -> bool:
        """True when a flag or the file sets it."""
        return name in self.values

    def rows(self) -> tuple[Given, ...]:
        """Everything that has a value, in the order of the options."""
        merged = {**self.defaults, **self.values}
        return tuple(merged[name] for name in CONFIGURABLE if name in merged)


def read_settings(flags: Mapping[str, Any], config: str | None, *, search: bool = True) -> Settings:
    """Merge the flags (None is not typed) over the configuration file; raise UsageError for a contradiction.

    `search` False reads no file but `config`: for a recording, the files of this machine say nothing.
    """
    typed = {
        name: Given(name, flags[name.replace("-", "_")], f"flag --{name}")
        for name in CONFIGURABLE
        if flags.get(name.replace("-", "_")) is not None
    }
    filed = _file_values(config, search=search)
    values = _without_contradictions(typed, filed)
    return Settings(values, _defaults(values))


def _file_values(config: str | None, *, search: bool) -> dict[str, Given]:
    path, text = _configuration_text(config, search=search)
    found: dict[str, FileValue] = read_configuration(text, path, CONFIGURABLE) if text else {}
    return {name: Given(name, value.value, f"file {path}:{value.line}") for name, value in found.items()}


def _configuration_text(config: str | None, *, search: bool) -> tuple[str, str]:
    if config is not None:
        return config, _read(config)
    for path in configuration_places() if search else ():
        if Path(path).is_file():
            return path, _read(path)
    return "", ""


def _read(path: str) -> str:
    hint = "the file holds lines such as `users: 5`; the keys are the long options without their dashes"
    return read_input(path, "configuration file", hint=hint, most_bytes=_MOST_CONFIGURATION_BYTES)


def _without_contradictions(typed: dict[str, Given], filed: dict[str, Given]) -> dict[str, Given]:
    kept = dict(filed)
    for pair in CONTRADICTIONS:
        for level in (typed, filed):
            if all(name in level and level[name].value is not False for name in pair):
                raise UsageError(f"{_both(level, pair)} contradict each other", hint="give one of the two")
        for name, other in (pair, pair[::-1]):
            if name in typed:
                kept.pop(other, None)
    return {**kept, **typed}


def _both(level: Mapping[str, Given], pair: tuple[str, str]) -> str:
    return " and ".join(level[name].source.removeprefix("flag ") for name in pair)


def _defaults(values: Mapping[str, Given]) -> dict[str, Given]:
    kind = WorkloadKind(values["workload"].value) if "workload" in values else WorkloadKind.CHAT
    workload, policy = DEFAULTS[kind], Policy()
    source = f"default of workload {kind.value}"
    rows = (
        Given("engine", "auto", "default"),
        Given("workload", kind.value, "default"),
        Given("users", workload.users, source),
        Given("turn-seconds", workload.turn_seconds, source),
        Given("prompt-tokens", workload.prompt_tokens, source),
        Given("reply-tokens", workload.reply_tokens, source),
        Given("context", workload.context_floor_tokens, source),
        Given("protect", policy.protect, "default"),
        Given("max-gap-seconds", policy.max_gap_seconds, "default"),
        Given("wait-probability", policy.wait_probability, "default"),
        Given("patience-seconds", policy.patience_seconds, "default"),
        Given("min-speed", policy.minimum_tokens_per_second, "default"),
    )
    return {row.name: row for row in rows}
