"""What an apply would write on this machine, whether it may, and which parts of it differ from the disk."""

from __future__ import annotations

import dataclasses
import sys
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from llmops import checkpoint, systemd
from llmops.actions import conflicts, readable, recovery
from llmops.core.errors import Misconfigured, NotInstalled, UnreadableInput, Unsupported
from llmops.core.files import Change, RenderedFile
from llmops.core.plan import Plan
from llmops.engines.base import Contradiction, Engine, Setting
from llmops.engines.found import InForce, Installation
from llmops.engines.unit import UNIT_DIRECTORY
from llmops.host import Host

_OUTSIDE = {"docker": "a Docker container", "podman": "a Podman container", "snap": "a snap"}


def this_llmops() -> tuple[str, ...]:
    """The words that start the llmops that runs now."""
    return (sys.executable, "-m", "llmops")


@dataclass(frozen=True)
class ApplyOptions:
    """How far an apply may go and how long it waits.

    `executable` is how the boot unit starts this llmops; None means the interpreter that runs now.
    """

    take_over: bool = False
    install_unit: bool = False
    drain_seconds: float = 60.0
    ready_seconds: float = 600.0
    executable: tuple[str, ...] = field(default_factory=this_llmops)


@dataclass(frozen=True)
class Target:
    """The unit, its files as they should be, what differs, whose other files contradict, the plan as engine words."""

    unit: str
    installation: Installation
    in_force: InForce
    files: tuple[RenderedFile, ...]
    changes: tuple[Change, ...]
    contradictions: tuple[Contradiction, ...]
    installs_unit: bool
    words: tuple[str, ...]
    variables: tuple[tuple[str, str], ...] = ()


def read_target(host: Host, engine: Engine, installation: Installation, plan: Plan, options: ApplyOptions) -> Target:
    """Raise Unsupported where llmops cannot change how the engine is started; writes nothing."""
    require_appliable(engine, installation, plan, install_unit=options.install_unit)
    in_force = engine.in_force(host, installation)
    rendered = engine.files(plan, installation, in_force)
    unit = installation.unit or unit_of(rendered)
    settings = engine.settings(plan, installation, in_force)
    found = engine.contradictions(host, plan, installation, in_force)
    files = (recovery.recovery_file(host, options.executable), *conflicts.with_own_variables(unit, rendered, found))
    return Target(
        unit=unit,
        installation=dataclasses.replace(installation, managed_by="unit", unit=unit),
        in_force=in_force,
        files=files,
        changes=checkpoint.read_changes(host, files),
        contradictions=found,
        installs_unit=installation.unit is None,
        words=_words(settings),
        variables=tuple((setting.name, setting.value or "") for setting in settings if setting.environment),
    )


def _words(settings: tuple[Setting, ...]) -> tuple[str, ...]:
    return tuple(
        word
        for setting in settings
        if not setting.environment
        for word in (setting.name, setting.value)
        if word is not None
    )


def unit_of(files: tuple[RenderedFile, ...]) -> str:
    """The unit that a complete set of files makes."""
    for file in files:
        path = PurePosixPath(file.path)
        if str(path.parent) == UNIT_DIRECTORY and path.suffix == ".service":
            return path.name
    raise Misconfigured("this engine has no unit of its own to install", hint="write one, then run this again")


def require_appliable(engine: Engine, installation: Installation, plan: Plan, *, install_unit: bool) -> None:
    """Raise Unsupported, with the lines for their own configuration, unless a unit starts the engine."""
    lines = _settings_lines(engine, installation, plan)
    if installation.managed_by in _OUTSIDE:
        raise Unsupported(
            f"{engine.name} runs in {_OUTSIDE[installation.managed_by]} ({installation.detail or 'found running'}), "
            "which llmops does not change",
            hint=f"put these settings into its own configuration and restart it: {lines}",
        )
    if installation.managed_by == "process":
        raise Unsupported(
            f"{engine.name} was started by hand (process {installation.pid}), not by a systemd unit",
            hint=f"stop it and use --install-unit, or restart it yourself with: {lines}",
        )
    if installation.managed_by == "unit":
        return
    if installation.managed_by != "binary":
        raise NotInstalled(
            f"{engine.name} is not installed on this machine", hint="; ".join(engine.install_steps) or None
        )
    if not install_unit:
        raise NotInstalled(
            f"no systemd unit starts {engine.name}",
            hint="let llmops install a complete one: llmops tune --apply --install-unit",
        )


def _settings_lines(engine: Engine, installation: Installation, plan: Plan) -> str:
    words = []
    for setting in engine.settings(plan, installation):
        if setting.environment:
            words.append(f"{setting.name}={setting.value or ''}")
        else:
            words.append(setting.name if setting.value is None else f"{setting.name} {setting.value}")
    return " ".join(words)


def require_model(host: Host, plan: Plan) -> None:
    """Raise UnreadableInput where a file of the model is not there: a saved plan may come from another machine."""
    for path in plan.model.source_paths:
        try:
            host.status(path)
        except FileNotFoundError:
            raise UnreadableInput(
                f"the model of this plan is not on this machine: {path}",
                hint="put it there, or make a plan for a model that is here: llmops plan --model PATH",
            ) from None


def require_readable(host: Host, target: Target, plan: Plan) -> None:
    """Raise Misconfigured where the account of the unit could not read the model, or run the program of a new unit."""
    files = _unit_files_then(host, target)
    readable.require(host, target.unit, files, readable.model_paths(host, plan.model))
    if target.installs_unit:
        readable.require(host, target.unit, files, target.installation.command[:1], readable.RUN)


def _unit_files_then(host: Host, target: Target) -> tuple[systemd.UnitFile, ...]:
    """The files of the unit as they will be, in the order in which systemd applies them."""
    places = {target.unit, f"{target.unit}.d"}
    ours = {file.path: file.content for file in target.files if places & set(PurePosixPath(file.path).parts)}
    kept = [
        systemd.UnitFile(file.path, ours.pop(file.path, file.text)) for file in systemd.unit_files(host, target.unit)
    ]
    new = [systemd.UnitFile(path, text) for path, text in ours.items()]
    return (*new, *kept) if target.installs_unit else (*kept, *new)


def restart_reason(host: Host, target: Target) -> str | None:
    """Why the unit has to be started anew although its files are in place; None where it runs as they say."""
    state = systemd.state(host, target.unit)
    if not state.active:
        return f"{target.unit} does not run"
    if state.need_daemon_reload:
        return "systemd has not read the files as they are now"
    configured, running = target.in_force.configured_arguments, target.in_force.arguments
    if configured and running and running[-len(configured[1:]) :] != configured[1:] and len(configured) > 1:
        return f"{target.unit} still runs with older arguments"
    if target.in_force.environment is not None:
        running_variables = dict(target.in_force.environment)
        if any(running_variables.get(name) != value for name, value in target.variables):
            return f"{target.unit} still runs with older variables"
    return None
