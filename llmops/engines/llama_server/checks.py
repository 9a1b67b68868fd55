"""Expectations compared with what was seen of a llama-server. What was not seen is never a pass."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import PurePosixPath

from llmops.core.verification import Check, CheckStatus, Expectation
from llmops.engines.found import InForce, Installation
from llmops.engines.llama_server import options
from llmops.engines.llama_server.arguments import Argument, find, program_length, read_arguments
from llmops.engines.llama_server.endpoint import config_pairs, key_sets
from llmops.engines.llama_server.expectations import SET
from llmops.engines.verdicts import COMMON, Verdict, compared, in_environment, not_evaluated, same_command

# None where the running command line was not seen.
Arguments = tuple[Argument, ...] | None


def checks(expectations: Sequence[Expectation], installation: Installation, in_force: InForce) -> tuple[Check, ...]:
    """One check for each expectation, in order."""
    arguments = _running_arguments(installation, in_force)
    found = []
    for expectation in expectations:
        status, observed, detail = _verdict(expectation, in_force, arguments)
        found.append(Check(expectation.name, expectation.value, observed, status, detail))
    return tuple(found)


def _verdict(expectation: Expectation, in_force: InForce, arguments: Arguments) -> Verdict:
    key = expectation.where, expectation.name
    if expectation.where == "command_line":
        return _on_command_line(expectation, in_force, arguments)
    if expectation.where == "variable":
        return in_environment(expectation, in_force)
    if key in _BESIDE_ARGUMENTS:
        return _BESIDE_ARGUMENTS[key](expectation, in_force, arguments)
    return (COMMON.get(key) or _VERDICTS[key])(expectation, in_force)


def _running_arguments(installation: Installation, in_force: InForce) -> Arguments:
    if in_force.arguments is None:
        return None
    length = program_length(in_force.arguments) or 1
    return read_arguments(in_force.arguments[length:], installation.flags, installation.valued_flags)


def _on_command_line(expectation: Expectation, in_force: InForce, arguments: Arguments) -> Verdict:
    if arguments is None:
        return not_evaluated(in_force, "arguments")
    option = options.option_of(expectation.name)
    said = None if option is None else find(arguments, option)
    if said is None:
        return CheckStatus.FAIL, "absent", "the running process was started without it"
    if expectation.value == SET:
        observed = SET if said.flag == expectation.name or _same_sense(expectation.name, said.flag) else said.flag
    else:
        observed = " ".join(said.values)
    said_so = "" if observed == expectation.value else f"the running process was started with {' '.join(said.words)}"
    return compared(expectation.value, observed, said_so)


def _same_sense(wanted: str, said: str) -> bool:
    option = options.option_of(wanted)
    if option is None or option is options.LOAD_MODE:
        return False
    return (wanted in option.spellings) == (said in option.spellings)


def _total_slots(expectation: Expectation, in_force: InForce) -> Verdict:
    if in_force.slots is None:
        return not_evaluated(in_force, "props")
    return compared(expectation.value, str(in_force.slots), "total_slots of /props")


def _slot_context(expectation: Expectation, in_force: InForce) -> Verdict:
    if in_force.context_tokens_per_slot is None:
        return not_evaluated(in_force, "props")
    return compared(expectation.value, str(in_force.context_tokens_per_slot), "n_ctx of /props")


def _model(expectation: Expectation, in_force: InForce) -> Verdict:
    if in_force.slots is None or in_force.model_path is None:
        return not_evaluated(in_force, "props")
    wanted, seen = PurePosixPath(expectation.value).parts, PurePosixPath(in_force.model_path).parts
    # A path relative to the unit's working directory is the end of the whole path.
    same = wanted == seen or (not in_force.model_path.startswith("/") and wanted[-len(seen) :] == seen)
    status = CheckStatus.PASS if same else CheckStatus.FAIL
    return status, in_force.model_path, "model_path of /props"


def _every_slot(expectation: Expectation, in_force: InForce) -> Verdict:
    if in_force.slot_contexts is None:
        return not_evaluated(in_force, "slot_contexts", "props")
    observed = " ".join(sorted({str(tokens) for tokens in in_force.slot_contexts})) or "no slot"
    return compared(expectation.value, observed, f"n_ctx of {len(in_force.slot_contexts)} slots of /slots")


def _hidden_variables(expectation: Expectation, in_force: InForce, arguments: Arguments) -> Verdict:
    if arguments is None or in_force.environment is None:
        return not_evaluated(in_force, "environment")
    names = [name for name, _ in in_force.environment]
    hidden = [f"{name}={value}" for name, value in in_force.environment if _decides(name, arguments)]
    beaten = [name for name in names if options.option_of_variable(name) in options.PLANNED and name not in hidden]
    detail = f"set, but the command line wins: {', '.join(beaten)}" if beaten and not hidden else "LLAMA_ARG_ variables"
    return compared(expectation.value, ", ".join(hidden) or "none", detail)


def _decides(name: str, arguments: Sequence[Argument]) -> bool:
    """Whether a variable sets a planned option that the command line leaves open."""
    option = options.option_of_variable(name)
    return option in options.PLANNED and option is not None and find(arguments, option) is None


def _hidden_config_keys(expectation: Expectation, in_force: InForce, arguments: Arguments) -> Verdict:
    if arguments is None:
        return not_evaluated(in_force, "arguments")
    hidden = list(_deciding_keys(in_force.config_files, arguments))
    looked = ", ".join(path for path, _ in in_force.config_files) or "no config.ini of llama.cpp"
    return compared(expectation.value, ", ".join(hidden) or "none", looked)


def _deciding_keys(config_files: Iterable[tuple[str, str]], arguments: Sequence[Argument]) -> Iterable[str]:
    for path, text in config_files:
        for key, value in config_pairs(text):
            if any(key_sets(key, option) and find(arguments, option) is None for option in options.PLANNED):
                yield f"{path}: {key} = {value}"


def _running_command(expectation: Expectation, in_force: InForce) -> Verdict:
    return same_command(expectation, in_force, program_length)


_VERDICTS: dict[tuple[str, str], Callable[[Expectation, InForce], Verdict]] = {
    ("props", "total_slots"): _total_slots,
    ("props", "slot_context"): _slot_context,
    ("props", "model"): _model,
    ("slots", "every_slot_context"): _every_slot,
    ("unit", "running_command"): _running_command,
}
# What hides behind the command line: it decides only where the running process was not told.
_BESIDE_ARGUMENTS: dict[tuple[str, str], Callable[[Expectation, InForce, Arguments], Verdict]] = {
    ("environment", "hidden_variables"): _hidden_variables,
    ("config_file", "hidden_config_keys"): _hidden_config_keys,
}
