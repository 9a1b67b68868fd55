"""A person's own words for a llama-server: as they run, and as the unit has them written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from llmops.core.errors import Misconfigured
from llmops.engines import unit as units
from llmops.engines.found import InForce, Installation
from llmops.engines.llama_server import options
from llmops.engines.llama_server.arguments import Argument, find, program_length
from llmops.systemd import Command

# They are written anew with the value that holds, so it must be known.
_WRITTEN_ANEW = (options.MODEL, options.HOST, options.PORT)


@dataclass(frozen=True)
class OwnWords:
    """What starts the program and what follows, as it runs and as it is written; `prefix` stands before all of it.

    Written words keep their variables and specifiers: what a variable holds is for its owner to change, and may be a
    secret, which must not get into a file that everybody reads.
    """

    program: tuple[str, ...]
    arguments: tuple[str, ...]
    written_program: tuple[str, ...]
    written_arguments: tuple[str, ...]
    prefix: str = ""


def own_words(installation: Installation, in_force: InForce | None) -> OwnWords:
    """Raise Misconfigured for a unit whose words cannot be kept."""
    if installation.unit is None or in_force is None:
        running = (in_force.arguments or ()) if in_force is not None and installation.managed_by == "process" else ()
        after = running[program_length(running) or len(running) :]
        return _divided(Command("", (*installation.command, *after), units.literals((*installation.command, *after))))
    command = in_force.user_command
    if command is None and in_force.user_arguments is not None:
        command = Command("", in_force.user_arguments, units.literals(in_force.user_arguments))
    if command is None:
        units.require_open(installation.unit, dict(in_force.unseen).get("unit"))
    if command is None or not program_length(command.words) or not program_length(command.written):
        said = " ".join(command.written) if command else "it has no ExecStart= that can be read"
        raise Misconfigured(
            f"{installation.unit} does not start llama-server with words that llmops can keep: {said}",
            hint="write the llama-server command itself into ExecStart= of the unit, then run this again",
        )
    return _divided(command)


def require_known(installation: Installation, in_force: InForce | None, arguments: Sequence[Argument]) -> None:
    """Raise Misconfigured where the model, the host or the port hang on something that the files do not say."""
    if installation.unit is None or in_force is None or in_force.user_arguments is not None:
        return
    for option in _WRITTEN_ANEW:
        said = find(arguments, option)
        if said is not None and ("%" in said.words[-1] or not "".join(said.values)):
            raise Misconfigured(
                f"{' '.join(said.words)} in {installation.unit} hangs on something that its files do not say",
                hint="write the value itself into ExecStart= of the unit, then run this again",
            )


def _divided(command: Command) -> OwnWords:
    length, written_length = program_length(command.words) or 1, program_length(command.written) or 1
    return OwnWords(
        command.words[:length],
        command.words[length:],
        command.written[:written_length],
        command.written[written_length:],
        units.kept_prefix(command),
    )
