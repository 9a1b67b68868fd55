"""One server on several machines: for each its unit or its options, and in which order they are started."""

from __future__ import annotations

from dataclasses import replace

from llmops.core.errors import Misconfigured, TooOld, UsageError
from llmops.core.files import RenderedFile
from llmops.core.plan import Plan
from llmops.engines.base import Setting, setting_words
from llmops.engines.found import CONTAINERS, InForce, Installation
from llmops.engines.inventory import Inventory, Machine
from llmops.engines.vllm.arguments import NODES_FLAG
from llmops.engines.vllm.command import (
    DEFAULT_HOST,
    CommandLine,
    planned_settings,
    require_flags,
    require_usable,
    serve_words,
    url_of,
)
from llmops.engines.vllm.files import NEW_UNIT, complete_unit, options_yaml
from llmops.engines.vllm.start_order import network, order, ray_order
from llmops.engines.vllm.words import MODULE


def machine_files(
    plan: Plan, installation: Installation, in_force: InForce, inventory: Inventory, backend: str, *, options_file: bool
) -> tuple[RenderedFile, ...]:
    """The order of start, and below each machine's address what belongs there; nothing is sent to any machine.

    With ray only the first machine starts a server, by hand: its sockets lie where a unit would not see them. Raise
    UsageError, TooOld or Misconfigured where these machines cannot be started like that.
    """
    _require_machines(plan, inventory)
    program = serve_words(installation.command)
    if backend == "ray":
        settings = _ray_settings(plan, installation, inventory)
        text = ray_order(plan, installation, inventory, (*program, *setting_words(settings)))
        return (text, _below(inventory.machines[0], _yaml(settings)))
    if not NODES_FLAG.at(installation.version):
        raise TooOld(
            f"vllm {installation.version} has no --nnodes, which came with 0.11.1",
            hint="install a newer one, or --distributed-executor-backend ray",
        )
    if program[-1] == MODULE:
        raise Misconfigured(
            f"python -m {MODULE} takes no notice of --headless, so that no other machine could join",
            hint="install vllm so that the script `vllm` starts it, or --distributed-executor-backend ray",
        )
    lines = [_settings(plan, installation, inventory, rank) for rank in range(plan.nodes)]
    if options_file:
        files = [_yaml(settings) for settings in lines]
    else:
        require_own_unit(installation, in_force)
        commands = [_command(plan, (*program, *setting_words(one)), one, inventory) for one in lines]
        files = [
            complete_unit(plan, command, NEW_UNIT, in_force, network=network(machine), peers=inventory.addresses)
            for command, machine in zip(commands, inventory.machines, strict=True)
        ]
    text = order(plan, installation, inventory, [(*program, *setting_words(one)) for one in lines], files[0].path)
    return (text, *(_below(machine, file) for machine, file in zip(inventory.machines, files, strict=True)))


def _require_machines(plan: Plan, inventory: Inventory) -> None:
    named = len(inventory.machines)
    if named != plan.nodes:
        raise UsageError(
            f"the inventory names {named} machines, and the plan is for {plan.nodes}", hint=f"give --nodes {named}"
        )
    if plan.nodes < 2:
        raise UsageError("an inventory is for several machines", hint="leave --inventory out")
    if plan.gpu_layers is None:
        raise UsageError(
            "several machines are planned for with graphics cards only", hint="give their cards with --gpu"
        )


def require_own_unit(installation: Installation, in_force: InForce) -> None:
    """Raise Misconfigured for a unit of somebody else, with words that the other machines' units would not get."""
    require_usable(installation)
    if installation.detail is not None and installation.managed_by in CONTAINERS:
        raise Misconfigured(
            f"vllm runs in {installation.detail}, which llmops does not change",
            hint="--options-file writes the options of each machine, for vllm serve --config",
        )
    if installation.unit is not None and not in_force.unit_file_managed:
        raise Misconfigured(
            f"{installation.unit} starts vllm here with words of its own, which no other machine would get",
            hint="--options-file writes the options of each machine; put --config FILE into each unit",
        )


def _settings(plan: Plan, installation: Installation, inventory: Inventory, rank: int) -> tuple[Setting, ...]:
    """One machine's words; only the first one listens to clients."""
    place = (
        Setting("--node-rank", str(rank)),
        Setting("--master-addr", inventory.machines[0].address),
        Setting("--master-port", str(inventory.master_port)),
    )
    require_flags(place, installation)
    listens = _listens(inventory) if rank == 0 else (Setting("--headless", None),)
    return (model_setting(plan, installation), *listens, *planned_settings(plan, installation), *place)


def _ray_settings(plan: Plan, installation: Installation, inventory: Inventory) -> tuple[Setting, ...]:
    """The words of the one server that a ray cluster needs; --nnodes excludes ray (vllm/config/parallel.py)."""
    single = planned_settings(replace(plan, nodes=1), installation)
    ray = Setting("--distributed-executor-backend", "ray")
    require_flags((ray,), installation)
    return (model_setting(plan, installation), *_listens(inventory), *single, ray)


def model_setting(plan: Plan, installation: Installation) -> Setting:
    """The word for the model, as this program takes it."""
    is_module = serve_words(installation.command)[-1] == MODULE
    return Setting("--model", plan.model.reference) if is_module else Setting(plan.model.reference, None)


def _listens(inventory: Inventory) -> tuple[Setting, Setting]:
    return Setting("--host", DEFAULT_HOST), Setting("--port", str(inventory.port))


def _command(plan: Plan, words: tuple[str, ...], settings: tuple[Setting, ...], inventory: Inventory) -> CommandLine:
    return CommandLine(words, settings, plan.model.reference, url_of(DEFAULT_HOST, str(inventory.port)))


def _yaml(settings: tuple[Setting, ...]) -> RenderedFile:
    named = (Setting(settings[0].value or settings[0].name, None), *settings[1:])
    return options_yaml(named)


def _below(machine: Machine, file: RenderedFile) -> RenderedFile:
    return replace(file, path=f"/{machine.address}{file.path}")
