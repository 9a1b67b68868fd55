"""The files that make a plan live: our drop-in for an existing unit, a complete unit, and a file for --config."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from types import MappingProxyType

from llmops.core.errors import Misconfigured
from llmops.core.files import RenderedFile
from llmops.core.plan import Plan
from llmops.engines.base import Setting, setting_words
from llmops.engines.found import CONTAINERS, InForce, Installation
from llmops.engines.unit import HIDDEN_PLACES, drop_in_path, unit_path
from llmops.engines.vllm.arguments import arguments
from llmops.engines.vllm.command import (
    DEFAULT_HOST,
    DRAIN_SECONDS,
    CommandLine,
    build,
    cached_repository,
    require_usable,
)
from llmops.engines.vllm.launch import ENVIRONMENT, variable_pairs
from llmops.engines.vllm.observe import VllmInForce

NEW_UNIT = "vllm.service"
KEY_FILE = "/etc/llmops/vllm-key.env"
CONFIG_FILE = "/etc/llmops/vllm.yaml"
# Workers end after the last request; SIGKILL must not come before that.
STOP_SECONDS = DRAIN_SECONDS + 30
_LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})
_STATE, _CACHE = "/var/lib/vllm", "/var/cache/vllm"


def render_files(plan: Plan, installation: Installation, in_force: InForce) -> tuple[RenderedFile, ...]:
    """Raise Misconfigured, TooOld or Unsupported where no file of systemd could make this plan live."""
    if installation.managed_by in CONTAINERS:
        raise _foreign(plan, installation)
    require_usable(installation)
    _require_one_machine(plan)
    command = build(plan, installation, in_force)
    _require_reachable(in_force)
    if installation.unit is not None and not in_force.unit_file_managed:
        return (_drop_in(plan, command, installation.unit),)
    return (complete_unit(plan, command, installation.unit or NEW_UNIT, in_force),)


def _require_one_machine(plan: Plan) -> None:
    if plan.nodes > 1:
        raise Misconfigured(
            f"this plan needs {plan.nodes} machines, and one unit starts one of them",
            hint="llmops render --inventory FILE --directory DIR writes a unit for each of them",
        )


def _require_reachable(in_force: InForce) -> None:
    """What cannot be asked cannot be verified, so every apply would end in a rollback."""
    why = dict(in_force.unseen).get("url")
    if why is not None:
        raise Misconfigured(
            f"{why}, where llmops cannot ask it anything",
            hint="serve plain HTTP on loopback and let a proxy such as nginx or Caddy speak TLS",
        )


def _drains(command: CommandLine) -> bool:
    return any(setting.name == "--shutdown-timeout" for setting in command.settings)


def _drop_in(plan: Plan, command: CommandLine, unit: str) -> RenderedFile:
    from llmops.render import render

    content = render(
        "vllm/drop-in.conf.j2",
        exec_start=command.written,
        prefix=command.prefix,
        environment=tuple(variable_pairs(plan).items()),
        stop_seconds=STOP_SECONDS if _drains(command) else None,
    )
    return RenderedFile(drop_in_path(unit), content)


def complete_unit(
    plan: Plan,
    command: CommandLine,
    unit: str,
    in_force: InForce,
    *,
    network: Mapping[str, str] | None = None,
    peers: tuple[str, ...] = (),
    clients: tuple[str, ...] = (),
) -> RenderedFile:
    """A whole unit; `network` says how parts on several machines find each other, whose addresses `peers` are.

    `clients` are the addresses that alone may connect where it does not listen on loopback; empty: everybody may.
    """
    from llmops.render import render

    host = next((setting.value for setting in command.settings if setting.name == "--host"), DEFAULT_HOST)
    content = render(
        "vllm/unit.service.j2",
        exec_start=command.words,
        environment=_environment(plan, network),
        key_file=KEY_FILE,
        description="vLLM, configured by llmops",
        readable_paths=_readable_paths(plan, command, in_force),
        gpu=plan.gpu_layers is not None,
        loopback=host in _LOOPBACK,
        peers=peers,
        clients=clients,
        stop_seconds=STOP_SECONDS,
    )
    return RenderedFile(unit_path(unit), content)


def _environment(plan: Plan, network: Mapping[str, str] | None) -> tuple[tuple[str, str], ...]:
    """Where it may write, that it downloads nothing and tells nobody, and how its parts talk: else over loopback."""
    variables = {**ENVIRONMENT, "HOME": _STATE, "HF_HOME": f"{_STATE}/huggingface", "VLLM_CACHE_ROOT": _CACHE}
    repository = cached_repository(plan)
    if repository is not None:
        variables["HF_HUB_CACHE"] = str(repository.parent)
    if network is not None:
        variables |= network
    elif plan.shape.cards > 1:
        variables |= {"NCCL_SOCKET_IFNAME": "lo", "GLOO_SOCKET_IFNAME": "lo"}
    if plan.passive_waiting:
        variables["OMP_WAIT_POLICY"] = "passive"
    return tuple(sorted({**variables, **variable_pairs(plan)}.items()))


def _readable_paths(plan: Plan, command: CommandLine, in_force: InForce) -> tuple[str, ...]:
    """The model's directory, of a cached repository all of it, since its files are links; a hidden program too.

    An environment in /opt may have been made with a Python in somebody's home.
    """
    repository = cached_repository(plan)
    model = repository or PurePosixPath(plan.model.source_paths[0] if plan.model.source_paths else "/").parent
    shown = [str(model)] if model != PurePosixPath("/") else []
    needed = in_force.program_directories if isinstance(in_force, VllmInForce) else ()
    program = (str(PurePosixPath(command.words[0]).parent.parent), *needed)
    shown += [path for path in program if f"{path}/".startswith(HIDDEN_PLACES)]
    return tuple(dict.fromkeys(shown))


def config_file(plan: Plan, installation: Installation) -> RenderedFile:
    """The planned options as YAML for `vllm serve --config`: long names, booleans; true is the flag alone."""
    return options_yaml(arguments(plan, installation.version), variable_pairs(plan))


def options_yaml(settings: Sequence[Setting], variables: Mapping[str, str] = MappingProxyType({})) -> RenderedFile:
    """These settings as that file; the first names the model. Variables cannot be in it and are said."""
    lines = ["# vllm serve --config FILE: words on the command line win over this file."]
    lines += [f"# Set in its environment: {name}={value}" for name, value in variables.items()]
    for setting in settings:
        if not setting.name.startswith("--"):
            lines.append(f"model: {_yaml(setting.name)}")
        elif setting.value is None:
            lines.append(f"{setting.name.removeprefix('--').removeprefix('no-')}: {_switch(setting.name)}")
        else:
            lines.append(f"{setting.name.removeprefix('--')}: {_yaml(setting.value)}")
    return RenderedFile(CONFIG_FILE, "\n".join(lines) + "\n")


def _switch(name: str) -> str:
    return "false" if name.startswith("--no-") else "true"


def _yaml(text: str) -> str:
    """Numbers as they are, everything else in double quotes, which YAML reads as JSON does."""
    import json

    try:
        float(text)
    except ValueError:
        return json.dumps(text, ensure_ascii=False)
    return text


def _foreign(plan: Plan, installation: Installation) -> Misconfigured:
    """Containers have their own configuration: the words to put there, without paths of this machine."""
    words = " ".join(setting_words(arguments(plan, installation.version)[1:]))
    told = "".join(f", and into its environment: {name}={value}" for name, value in variable_pairs(plan).items())
    return Misconfigured(
        f"vllm runs in {installation.detail or installation.managed_by}, which llmops does not change",
        hint=f"put these words into the command of the container: {words}{told}",
    )
