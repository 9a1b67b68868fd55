"""Expectations compared with what was seen of a llama-server. What was not seen is never a pass."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import PurePosixPath

from llmops.core.verification import Check, CheckStatus, Expectation
from llmops.engines.base import InForce, Installation
from llmops.engines.llama_server import options
from llmops.engines.llama_server.arguments import Argument, find, program_length, read_arguments
from llmops.engines.llama_server.endpoint import config_pairs, key_sets
from llmops.engines.llama_server.expectations import SET

Verdict = tuple[CheckStatus, str | None, str]


def checks(expectations: Sequence[Expectation], installation: Installation, in_force: InForce) -> tuple[Check, ...]:
    """One check for each expectation, in order."""
    unseen = dict(in_force.unseen)
    arguments = _running_arguments(installation, in_force)
    found = []
    for expectation in expectations:
        if expectation.where == "command_line":
            verdict = _on_command_line(expectation, arguments, unseen)
        elif expectation.where == "variable":
            verdict = _in_environment(expectation, in_force, unseen)
        else:
            verdict = _VERDICTS[expectation.where, expectation.name](expectation, in_force, arguments, unseen)
        status, observed, detail = verdict
        found.append(Check(expectation.name, expectation.value, observed, status, detail))
    return tuple(found)


def _running_arguments(installation: Installation, in_force: InForce) -> tuple[Argument, ...] | None:
    if in_force.arguments is None:
        return None
    length = program_length(in_force.arguments) or 1
    return read_arguments(in_force.arguments[length:], installation.flags, installation.valued_flags)


def _on_command_line(
    expectation: Expectation, arguments: tuple[Argument, ...] | None, unseen: dict[str, str]
) -> Verdict:
    if arguments is None:
        return _not_evaluated(unseen, "arguments")
    option = options.option_of(expectation.name)
    said = None if option is None else find(arguments, option)
    if said is None:
        return CheckStatus.FAIL, "absent", "the running process was started without it"
    if expectation.value == SET:
        observed = SET if said.flag == expectation.name or _same_sense(expectation.name, said.flag) else said.flag
    else:
        observed = " ".join(said.values)
    said_so = "" if observed == expectation.value else f"the running process was started with {' '.join(said.words)}"
    return _compared(expectation.value, observed, said_so)


def _in_environment(expectation: Expectation, in_force: InForce, unseen: dict[str, str]) -> Verdict:
    if in_force.environment is None:
        return _not_evaluated(unseen, "environment")
    observed = dict(in_force.environment).get(expectation.name, "unset")
    return _compared(expectation.value, observed, "environment of the running process")


def _same_sense(wanted: str, said: str) -> bool:
    option = options.option_of(wanted)
    if option is None or option is options.LOAD_MODE:
        return False
    return (wanted in option.spellings) == (said in option.spellings)


def _compared(expected: str, observed: str, detail: str) -> Verdict:
    return (CheckStatus.PASS if observed == expected else CheckStatus.FAIL), observed, detail


def _not_evaluated(unseen: dict[str, str], *parts: str) -> Verdict:
    why = next((unseen[part] for part in (*parts, "unit", "arguments", "url") if part in unseen), "not observed")
    return CheckStatus.NOT_EVALUATED, None, why


_Rule = Callable[[Expectation, InForce, "tuple[Argument, ...] | None", "dict[str, str]"], Verdict]


def _total_slots(
    expectation: Expectation, in_force: InForce, _: tuple[Argument, ...] | None, unseen: dict[str, str]
) -> Verdict:
    if in_force.slots is None:
        return _not_evaluated(unseen, "props")
    return _compared(expectation.value, str(in_force.slots), "total_slots of /props")


def _slot_context(
    expectation: Expectation, in_force: InForce, _: tuple[Argument, ...] | None, unseen: dict[str, str]
) -> Verdict:
    if in_force.context_tokens_per_slot is None:
        return _not_evaluated(unseen, "props")
    return _compared(expectation.value, str(in_force.context_tokens_per_slot), "n_ctx of /props")


def _model(
    expectation: Expectation, in_force: InForce, _: tuple[Argument, ...] | None, unseen: dict[str, str]
) -> Verdict:
    if in_force.slots is None or in_force.model_path is None:
        return _not_evaluated(unseen, "props")
    wanted, seen = PurePosixPath(expectation.value).parts, PurePosixPath(in_force.model_path).parts
    # A path relative to the unit's working directory is the end of the whole path.
    same = wanted == seen or (not in_force.model_path.startswith("/") and wanted[-len(seen) :] == seen)
    status = CheckStatus.PASS if same else CheckStatus.FAIL
    return status, in_force.model_path, "model_path of /props"


def _every_slot(
    expectation: Expectation, in_force: InForce, _: tuple[Argument, ...] | None, unseen: dict[str, str]
) -> Verdict:
    if in_force.slot_contexts is None:
        return _not_evaluated(unseen, "slot_contexts", "props")
    observed = " ".join(sorted({str(tokens) for tokens in in_force.slot_contexts})) or "no slot"
    return _compared(expectation.value, observed, f"n_ctx of {len(in_force.slot_contexts)} slots of /slots")


def _listener(
    expectation: Expectation, in_force: InForce, _: tuple[Argument, ...] | None, unseen: dict[str, str]
) -> Verdict:
    if in_force.pid is None or in_force.listener_pid is None:
        return _not_evaluated(unseen, "listener_pid", "url")
    own = in_force.listener_pid == in_force.pid
    observed = expectation.value if own else f"process {in_force.listener_pid}"
    return _compared(expectation.value, observed, f"who listens at {in_force.url}")


def _hidden_variables(
    expectation: Expectation, in_force: InForce, arguments: tuple[Argument, ...] | None, unseen: dict[str, str]
) -> Verdict:
    if arguments is None or in_force.environment is None:
        return _not_evaluated(unseen, "environment")
    names = [name for name, _ in in_force.environment]
    hidden = [f"{name}={value}" for name, value in in_force.environment if _decides(name, arguments)]
    beaten = [name for name in names if options.option_of_variable(name) in options.PLANNED and name not in hidden]
    detail = f"set, but the command line wins: {', '.join(beaten)}" if beaten and not hidden else "LLAMA_ARG_ variables"
    return _compared(expectation.value, ", ".join(hidden) or "none", detail)


def _decides(name: str, arguments: Sequence[Argument]) -> bool:
    """Whether a variable sets a planned option that the command line leaves open."""
    option = options.option_of_variable(name)
    return option in options.PLANNED and option is not None and find(arguments, option) is None


def _hidden_config_keys(
    expectation: Expectation, in_force: InForce, arguments: tuple[Argument, ...] | None, unseen: dict[str, str]
) -> Verdict:
    if arguments is None:
        return _not_evaluated(unseen, "arguments")
    hidden = list(_deciding_keys(in_force.config_files, arguments))
    looked = ", ".join(path for path, _ in in_force.config_files) or "no config.ini of llama.cpp"
    return _compared(expectation.value, ", ".join(hidden) or "none", looked)


def _deciding_keys(config_files: Iterable[tuple[str, str]], arguments: Sequence[Argument]) -> Iterable[str]:
    for path, text in config_files:
        for key, value in config_pairs(text):
            if any(key_sets(key, option) and find(arguments, option) is None for option in options.PLANNED):
                yield f"{path}: {key} = {value}"


def _drop_in(
    expectation: Expectation, in_force: InForce, _: tuple[Argument, ...] | None, unseen: dict[str, str]
) -> Verdict:
    if in_force.need_daemon_reload is None:
        return _not_evaluated(unseen, "unit")
    loaded = in_force.drop_ins
    if not loaded or loaded[-1] != expectation.value:
        detail = "it must be the last, so that nothing overrides it" if expectation.value in loaded else "not loaded"
        return CheckStatus.FAIL, " ".join(loaded) or "none", detail
    return CheckStatus.PASS, loaded[-1], "the last of DropInPaths"


def _daemon_reload(
    expectation: Expectation, in_force: InForce, _: tuple[Argument, ...] | None, unseen: dict[str, str]
) -> Verdict:
    if in_force.need_daemon_reload is None:
        return _not_evaluated(unseen, "unit")
    return _compared(expectation.value, "yes" if in_force.need_daemon_reload else "no", "NeedDaemonReload")


def _running_command(
    expectation: Expectation, in_force: InForce, _: tuple[Argument, ...] | None, unseen: dict[str, str]
) -> Verdict:
    running, configured = in_force.arguments, in_force.configured_arguments
    if running is None or configured is None:
        return _not_evaluated(unseen, "arguments")
    same = running[program_length(running) or 1 :] == configured[program_length(configured) or 1 :]
    observed = expectation.value if same else " ".join(running)
    return _compared(expectation.value, observed, "arguments of ExecStart= and of the running process")


_VERDICTS: dict[tuple[str, str], _Rule] = {
    ("props", "total_slots"): _total_slots,
    ("props", "slot_context"): _slot_context,
    ("props", "model"): _model,
    ("slots", "every_slot_context"): _every_slot,
    ("listener", "listener"): _listener,
    ("environment", "hidden_variables"): _hidden_variables,
    ("config_file", "hidden_config_keys"): _hidden_config_keys,
    ("unit", "drop_in"): _drop_in,
    ("unit", "daemon_reload_needed"): _daemon_reload,
    ("unit", "running_command"): _running_command,
}
