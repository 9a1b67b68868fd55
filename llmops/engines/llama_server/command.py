"""The command line that makes a plan live: the person's own words, with only the planned options replaced."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from llmops.core.errors import Misconfigured
from llmops.core.plan import Plan
from llmops.engines.base import Setting, setting_words
from llmops.engines.found import InForce, Installation
from llmops.engines.llama_server import options
from llmops.engines.llama_server.arguments import (
    Argument,
    find,
    modernised,
    read_arguments,
    value_of,
    without,
)
from llmops.engines.llama_server.endpoint import read_endpoint
from llmops.engines.llama_server.options import Option
from llmops.engines.llama_server.own_words import own_words, require_known
from llmops.engines.llama_server.settings import compose
from llmops.engines.waiting import waits_as_told
from llmops.systemd.syntax import literal


@dataclass(frozen=True)
class CommandLine:
    """The words to start the server with, the settings among them that llmops decided, and what to tell the person.

    `written` are the words for a drop-in of the person's unit: `prefix` stands before them, and `%` and `$` in them
    are systemd's. `url` is where it will listen, None for a socket in the file system.
    """

    words: tuple[str, ...]
    settings: tuple[Setting, ...]
    warnings: tuple[str, ...]
    url: str | None
    written: tuple[str, ...] = ()
    prefix: str = ""


def build(plan: Plan, installation: Installation, in_force: InForce | None = None) -> CommandLine:
    """Raise TooOld for a binary without the flags that a plan needs, Misconfigured for words that cannot be kept."""
    present = own_words(installation, in_force)
    arguments = read_arguments(present.arguments, installation.flags, installation.valued_flags)
    written = read_arguments(present.written_arguments, installation.flags, installation.valued_flags)
    _refuse_router(arguments)
    require_known(installation, in_force, arguments)
    draft = compose(plan, installation, memory_locked=_memory_locked(arguments))
    own: list[Setting] = []
    replaced: list[Option] = [options.HOST, options.PORT, *options.PLANNED]
    if not _model_stays(plan, arguments, in_force):
        own.append(Setting("--model", model_path(plan)))
        replaced.append(options.MODEL)
    if any(options.option_of(one.name) is options.DEVICES for one in draft.settings):
        replaced.append(options.DEVICES)
    endpoint = read_endpoint(arguments, in_force)
    own += [Setting("--host", endpoint.host), Setting("--port", endpoint.port)]
    settings = (*own, *(one for one in draft.settings if not (one.environment and waits_as_told(in_force))))
    _require_said(_hidden(arguments, written), settings)
    kept, warnings = _kept(without(arguments, replaced), installation)
    kept_written, _ = _kept(without(written, replaced), installation)
    planned = setting_words(settings)
    return CommandLine(
        words=(*present.program, *_words(kept), *planned),
        settings=settings,
        warnings=(*draft.warnings, *warnings, *_remarks(arguments, written)),
        url=endpoint.url,
        written=(*present.written_program, *_words(kept_written), *map(literal, planned)),
        prefix=present.prefix,
    )


def _words(arguments: Sequence[Argument]) -> tuple[str, ...]:
    return tuple(word for argument in arguments for word in argument.words)


def variables(settings: Sequence[Setting]) -> tuple[tuple[str, str], ...]:
    """The settings that are environment variables."""
    return tuple((setting.name, setting.value or "") for setting in settings if setting.environment)


def model_path(plan: Plan) -> str:
    """The file that the plan was made for: the first part of a split model."""
    return plan.model.source_paths[0] if plan.model.source_paths else plan.model.reference


def _refuse_router(arguments: Sequence[Argument]) -> None:
    for argument in arguments:
        if argument.flag in options.ROUTER:
            raise Misconfigured(
                f"this server starts a child for each of several models ({argument.flag}), which llmops cannot tune",
                hint="serve one model per unit with --model",
            )


def _memory_locked(arguments: Sequence[Argument]) -> bool:
    said = [argument for argument in arguments if argument.flag in options.LOAD_MODE.every_spelling]
    return any(argument.flag == "--mlock" or "mlock" in "".join(argument.values) for argument in said)


def _model_stays(plan: Plan, arguments: Sequence[Argument], in_force: InForce | None) -> bool:
    """True when the server already names the plan's model in its own way: by path, repository or variable."""
    if in_force is None:
        return False
    wanted = {model_path(plan), plan.model.reference, *plan.model.source_paths}
    if value_of(arguments, options.MODEL) in wanted:
        return True
    named = find(arguments, options.MODEL) is not None or any(
        options.option_of_variable(name) is options.MODEL
        for name, _ in (*(in_force.environment or ()), *(in_force.configured_environment or ()))
    )
    return named and in_force.model_path in wanted


def _kept(arguments: Sequence[Argument], installation: Installation) -> tuple[tuple[Argument, ...], tuple[str, ...]]:
    known = installation.flags
    return (tuple(arguments), ()) if known is None else modernised(arguments, known)


def _hidden(arguments: Sequence[Argument], written: Sequence[Argument]) -> list[Argument]:
    """Planned options that a variable brings, as it runs now."""
    seen = {argument.flag for argument in written}
    return [one for one in arguments if one.flag not in seen and options.option_of(one.flag) in options.PLANNED]


def _require_said(hidden: Sequence[Argument], settings: Sequence[Setting]) -> None:
    """Raise Misconfigured for an option in a variable that the plan leaves out: no word of ours would come later."""
    said = {options.option_of(one.name) for one in settings}
    for argument in hidden:
        if options.option_of(argument.flag) not in said:
            raise Misconfigured(
                f"{' '.join(argument.words)} hides in a variable of ExecStart=, and the plan leaves it out",
                hint="take it out of the variable, then run this again",
            )


def _remarks(arguments: Sequence[Argument], written: Sequence[Argument]) -> tuple[str, ...]:
    """What stays although it works against a plan, and what stays behind a variable although it is planned."""
    against = [
        f"{argument.flag} is kept, but: {options.WORKS_AGAINST[argument.flag]}"
        for argument in arguments
        if argument.flag in options.WORKS_AGAINST
    ]
    hidden = [
        f"{' '.join(argument.words)} stays in the variable that brings it; the plan's word comes later and wins"
        for argument in _hidden(arguments, written)
    ]
    return (*against, *hidden)
