"""The systemd files that make a plan live: our drop-in for an existing unit, or a complete unit."""

from __future__ import annotations

from pathlib import PurePosixPath

from llmops.core.errors import Misconfigured
from llmops.core.files import RenderedFile
from llmops.core.plan import Plan
from llmops.engines.base import Setting, setting_words
from llmops.engines.found import FOREIGN, InForce, Installation
from llmops.engines.llama_server.command import CommandLine, build, model_path, variables
from llmops.engines.llama_server.settings import compose, require_usable
from llmops.engines.unit import HIDDEN_PLACES, drop_in_path, unit_path

NEW_UNIT = "llama-server.service"


def render_files(plan: Plan, installation: Installation, in_force: InForce) -> tuple[RenderedFile, ...]:
    """Raise Misconfigured, TooOld or Unsupported where no file of systemd could make this plan live."""
    if installation.managed_by in FOREIGN:
        raise foreign(plan, installation)
    require_usable(installation)
    command = build(plan, installation, in_force)
    _require_reachable(command)
    if installation.unit is not None and not in_force.unit_file_managed:
        return (_drop_in(command, installation.unit),)
    return (complete_unit(plan, command.words, command.settings, installation.unit or NEW_UNIT),)


def _require_reachable(command: CommandLine) -> None:
    """What cannot be asked cannot be verified, so every apply would end in a rollback."""
    if command.url is None:
        raise Misconfigured(
            "this server listens on a socket in the file system only, where llmops cannot ask it anything",
            hint="let it listen on loopback as well: --host 127.0.0.1,/path/of.sock",
        )
    if command.url.startswith("https:"):
        raise Misconfigured(
            "this server speaks TLS itself, and its certificate does not hold for loopback, where llmops asks it",
            hint="serve plain HTTP on loopback and let a proxy such as nginx or Caddy speak TLS",
        )


def _drop_in(command: CommandLine, unit: str) -> RenderedFile:
    from llmops.render import render

    content = render(
        "llama-server/drop-in.conf.j2",
        exec_start=command.written,
        prefix=command.prefix,
        environment=variables(command.settings),
        environment_files=(),
    )
    return RenderedFile(drop_in_path(unit), content)


def complete_unit(
    plan: Plan,
    words: tuple[str, ...],
    settings: tuple[Setting, ...],
    unit: str,
    *,
    clients: tuple[str, ...] = (),
) -> RenderedFile:
    """A whole unit that only this machine reaches, and `clients` by their addresses."""
    from llmops.render import render

    paths = plan.model.source_paths or (model_path(plan),)
    program = str(PurePosixPath(words[0]).parent)
    shown = (*paths, program) if f"{program}/".startswith(HIDDEN_PLACES) else paths
    content = render(
        "llama-server/unit.service.j2",
        exec_start=words,
        environment=variables(settings),
        environment_files=(),
        description="llama-server, configured by llmops",
        model_paths=shown,
        gpu=bool(plan.gpu_layers),
        clients=clients,
        user=None,
    )
    return RenderedFile(unit_path(unit), content)


def foreign(plan: Plan, installation: Installation) -> Misconfigured:
    """Containers and snaps have their own configuration: the words to put there, without paths of this machine."""
    words = " ".join(setting_words(compose(plan, installation).settings))
    where = "the snap's own configuration" if installation.managed_by == "snap" else "the command of the container"
    return Misconfigured(
        f"llama-server runs in {installation.detail or installation.managed_by}, which llmops does not change",
        hint=f"put these words into {where}: {words}",
    )
