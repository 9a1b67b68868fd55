"""Several servers with one plan behind one front: the files of every machine, and in which order they are started."""

from __future__ import annotations

from dataclasses import replace
from pathlib import PurePosixPath

from llmops import front
from llmops.actions.plan import Planned
from llmops.core.errors import UsageError
from llmops.core.files import RenderedFile
from llmops.core.plan import Plan
from llmops.engines.inventory import Inventory, Place
from llmops.front import Address, FrontSpec, Replicas

EXAMPLE_LISTEN = Address("127.0.0.1", 8000)


def replica_spec(
    plan: Plan,
    inventory: Inventory,
    listen: Address | None,
    *,
    queue_requests: int | None = None,
    affinity_header: str | None = None,
) -> FrontSpec:
    """The front before every machine of the inventory; raise UsageError where none is named for it."""
    return front.front_of_replicas(
        plan,
        [Address(address, inventory.port) for address in inventory.addresses],
        listen or EXAMPLE_LISTEN,
        machine=_machine_of_front(inventory),
        queue_requests=queue_requests,
        affinity_header=affinity_header,
    )


def replica_files(planned: Planned, spec: FrontSpec, inventory: Inventory) -> tuple[RenderedFile, ...]:
    """The front's configuration and unit first, then START.txt, then what every server needs, below its address.

    Raise what the engine raises where no unit could start it.
    """
    machine = _machine_of_front(inventory)
    servers = [
        (place.address, planned.engine.replica_files(planned.plan, planned.installation, planned.in_force, place))
        for place in _places(spec, machine)
    ]
    order = front.start_order(spec, _described(planned, len(servers), machine, servers[0][1]))
    before = (front.configuration_file(spec), front.unit_file(spec))
    return (
        *(_below(machine, file) for file in before),
        order,
        *(_below(address, file) for address, files in servers for file in files),
    )


def too_few(plan: Plan, servers: int) -> str | None:
    """A warning where these users need more servers than are named."""
    if plan.replicas is None or plan.replicas <= servers:
        return None
    return (
        f"these users need {plan.replicas} servers like this one for the wait that was asked for, and the inventory"
        f" names {servers}"
    )


def _machine_of_front(inventory: Inventory) -> str:
    if inventory.front is None:
        raise UsageError(
            "the inventory names no machine for the front, which alone may reach the servers",
            hint="write `front: ADDRESS` into it; that machine may be one of the hosts",
        )
    return inventory.front


def _places(spec: FrontSpec, machine: str) -> tuple[Place, ...]:
    """A machine talks to itself from its own address, so that verifying works there."""
    addresses = [server.address for server in spec.servers]
    return tuple(Place(one.host, one.port, tuple(dict.fromkeys((one.host, machine)))) for one in addresses)


def _described(planned: Planned, servers: int, machine: str, files: tuple[RenderedFile, ...]) -> Replicas:
    plan, installation = planned.plan, planned.installation
    path = PurePosixPath(files[0].path)
    version = f" {installation.version_text}" if installation.version_text else ""
    warning = too_few(plan, servers)
    return Replicas(
        machine=machine,
        needs=(
            f"{plan.engine}{version} as {installation.command[0]}, the model {plan.model.reference} in the same place,"
            " and memory and cards like those of the plan"
        ),
        unit=path.name if path.suffix == ".service" else path.parent.name.removesuffix(".d"),
        keeps_others_away=all("\nIPAddressDeny=any\n" in file.content for file in files),
        warnings=() if warning is None else (warning,),
    )


def _below(address: str, file: RenderedFile) -> RenderedFile:
    return replace(file, path=f"/{address}{file.path}")
