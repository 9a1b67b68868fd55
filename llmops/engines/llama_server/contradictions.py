"""Where a person's own drop-ins and environment files say otherwise than a plan for llama-server."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from llmops import systemd
from llmops.engines.base import Contradiction, Setting
from llmops.engines.found import InForce
from llmops.engines.llama_server import options
from llmops.engines.llama_server.arguments import canonical_flag, find, program_length, read_arguments
from llmops.engines.llama_server.options import Option
from llmops.engines.unit import OWN_DIRECTORY, pairs_in_file, pairs_of
from llmops.host import Host

_OFF = frozenset({"0", "false", "off", "disabled"})
# Each says only a part of what --load-mode says; builds that know --load-mode refuse or ignore them.
_PARTS_OF_LOAD_MODE = frozenset(
    {
        "--mmap",
        "--mlock",
        "--direct-io",
        "-dio",
        "LLAMA_ARG_MMAP",
        "LLAMA_ARG_NO_MMAP",
        "LLAMA_ARG_MLOCK",
        "LLAMA_ARG_DIO",
    }
)


def contradictions(
    host: Host, settings: Sequence[Setting], unit: str, in_force: InForce, managed: Sequence[str]
) -> tuple[Contradiction, ...]:
    """One for each planned option that a file outside `managed` sets to another value."""
    planned = {option: setting for setting in settings if (option := _planned_option(setting)) is not None}
    files = tuple(systemd.UnitFile(path, text) for path, text in in_force.unmanaged_drop_ins)
    variables = dict(in_force.configured_environment or ())
    found = [*_in_commands(files, unit, planned, variables), *_in_environment(files, unit, planned)]
    for path in in_force.environment_files:
        if path not in managed and not path.startswith(OWN_DIRECTORY):
            found += _variables(path, "environment_file", pairs_in_file(host, path), planned)
    return tuple(found)


def _planned_option(setting: Setting) -> Option | None:
    option = options.option_of(canonical_flag(setting.name))
    return option if option in options.PLANNED else None


def _in_commands(
    files: Sequence[systemd.UnitFile], unit: str, planned: Mapping[Option, Setting], variables: Mapping[str, str]
) -> Iterator[Contradiction]:
    for path, value in systemd.values(files, "Service", "ExecStart"):
        words = _words(value, unit, variables)
        length = program_length(words)
        arguments = read_arguments(words[length or 0 :])
        for option, setting in planned.items():
            said = find(arguments, option)
            if said is None or said.flag in _PARTS_OF_LOAD_MODE:
                continue
            if _meaning(option, said.flag, " ".join(said.values)) != _planned(option, setting):
                yield Contradiction(path, "drop_in", setting.name, " ".join(said.words), _shown(setting))


def _words(value: str, unit: str, variables: Mapping[str, str]) -> tuple[str, ...]:
    try:
        return systemd.command(value, unit, variables).words
    except ValueError:  # systemd refuses such a line too, so it sets nothing
        return ()


def _in_environment(
    files: Sequence[systemd.UnitFile], unit: str, planned: Mapping[Option, Setting]
) -> Iterator[Contradiction]:
    for path, value in systemd.values(files, "Service", "Environment"):
        yield from _variables(path, "drop_in", pairs_of(value, unit), planned)


def _variables(
    path: str, source: str, pairs: Sequence[tuple[str, str]], planned: Mapping[Option, Setting]
) -> Iterator[Contradiction]:
    for name, value in pairs:
        option = options.option_of_variable(name)
        setting = planned.get(option) if option is not None else None
        if option is None or setting is None or name in _PARTS_OF_LOAD_MODE:
            continue
        if _variable_meaning(name, value, setting) != _planned(option, setting):
            yield Contradiction(path, source, name, value, variable_value(name, setting))


def variable_value(name: str, setting: Setting) -> str:
    """What the variable has to be so that it says the same as the planned setting."""
    if setting.value is not None:
        return setting.value
    option = options.option_of(canonical_flag(setting.name))
    on = option is None or setting.name not in option.negated
    return "true" if on else "false"


def _planned(option: Option, setting: Setting) -> str:
    return _meaning(option, canonical_flag(setting.name), setting.value or "")


def _meaning(option: Option, flag: str, value: str) -> str:
    return "off" if flag in option.negated else (value or "on")


def _variable_meaning(name: str, value: str, setting: Setting) -> str:
    if setting.value is not None:
        return value
    if name.startswith("LLAMA_ARG_NO_"):  # present with any value means off (common/arg.cpp)
        return "off"
    return "off" if value.strip().lower() in _OFF else "on"


def _shown(setting: Setting) -> str:
    return setting.name if setting.value is None else f"{setting.name} {setting.value}"
