"""In which order the machines of one server are started, with which words, and what must be reachable: plain text."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence

from llmops.core.files import RenderedFile
from llmops.core.plan import Plan
from llmops.engines.addresses import with_port
from llmops.engines.found import Installation
from llmops.engines.inventory import Inventory, Machine

ORDER_FILE = "/START.txt"


def network(machine: Machine) -> dict[str, str]:
    """How the parts on different machines find each other; NCCL takes `=` for this very interface."""
    variables = {"VLLM_HOST_IP": machine.address}
    if machine.interface is not None:
        variables |= {"GLOO_SOCKET_IFNAME": machine.interface, "NCCL_SOCKET_IFNAME": f"={machine.interface}"}
    return variables


def order(
    plan: Plan, installation: Installation, inventory: Inventory, commands: Sequence[tuple[str, ...]], path: str
) -> RenderedFile:
    """For processes of vLLM alone; `path` is where the file for each machine belongs there."""
    first = inventory.machines[0].address
    is_unit = path.endswith(".service")
    with_file = "systemctl daemon-reload && systemctl enable --now vllm" if is_unit else f"vllm serve --config {path}"
    text = [
        f"One vLLM on {plan.nodes} machines. Nothing was sent to any of them: copy what is below an address to it.",
        *_before(plan, installation, inventory, f"{inventory.master_port} of {first}, where all of them meet"),
        "Start in this order, without waiting in between: the first is ready only when the last has joined.",
    ]
    for number, (machine, words) in enumerate(zip(inventory.machines, commands, strict=True), 1):
        text += [_place(number, machine, answers=number == 1), _line(network(machine), words)]
    text += [
        "",
        f"With {path} in its place, instead of these words{'' if is_unit else ' and after the same variables'}:",
        f"   {with_file}",
        "",
        "A machine that starts again alone cannot join those that still run: stop all, then start all in this order.",
    ]
    return _file(text)


def ray_order(plan: Plan, installation: Installation, inventory: Inventory, server: tuple[str, ...]) -> RenderedFile:
    """The cluster first, machine by machine, then the server on the first one."""
    first, *others = inventory.machines
    meeting = with_port(first.address, inventory.ray_port)
    join = ("ray", "start", "--block")
    head = (*join, "--head", f"--node-ip-address={first.address}", f"--port={inventory.ray_port}")
    text = [
        f"One vLLM on a ray cluster of {plan.nodes} machines. Nothing was sent to any of them.",
        *_before(plan, installation, inventory, f"{inventory.ray_port} of {first.address}, where ray meets"),
        "Start in this order; `ray` (pip install ray, the same version everywhere) is that of vllm's environment:",
        _place(1, first),
        _line(network(first), head),
    ]
    for number, machine in enumerate(others, 2):
        words = (*join, f"--address={meeting}", f"--node-ip-address={machine.address}")
        text += [_place(number, machine), _line(network(machine), words)]
    text += [
        f"Once `ray status` counts {plan.tensor_parallel * plan.pipeline_parallel} cards:",
        _place(plan.nodes + 1, first, answers=True),
        _line({**_of_ray_server(inventory), "RAY_ADDRESS": meeting}, server),
    ]
    return _file(text)


def _of_ray_server(inventory: Inventory) -> dict[str, str]:
    """What begins with NCCL_ is copied to every machine (vllm/ray/ray_env.py): only what holds for all of them."""
    variables = network(inventory.machines[0])
    if len({machine.interface for machine in inventory.machines}) > 1:
        variables.pop("NCCL_SOCKET_IFNAME", None)
    return variables


def _before(plan: Plan, installation: Installation, inventory: Inventory, meeting: str) -> list[str]:
    each = plan.tensor_parallel * plan.pipeline_parallel // plan.nodes
    unnamed = [machine.address for machine in inventory.machines if machine.interface is None]
    lines = [
        "",
        f"Needed on every machine: vllm {installation.version_text or ''} as {installation.command[0]}, {each} cards"
        f" like those of the plan, the model at {plan.model.reference}.",
        f"Reachable between {', '.join(inventory.addresses)}: TCP port {meeting}, and all others, for more are"
        " picked at each start.",
        "Not reachable from anywhere else: what they say to each other is neither encrypted nor authenticated.",
        f"For clients: port {inventory.port} of {inventory.machines[0].address}, on loopback, for a proxy before it.",
    ]
    if unnamed:
        lines.append(f"No interface is named for {', '.join(unnamed)}: NCCL and Gloo pick one by themselves.")
    return [*lines, ""]


def _place(number: int, machine: Machine, *, answers: bool = False) -> str:
    return f"{number}. on {machine.address}{', which answers clients' if answers else ''}:"


def _line(variables: Mapping[str, str], words: tuple[str, ...]) -> str:
    said = [f"{name}={shlex.quote(value)}" for name, value in sorted(variables.items())]
    return f"   {' '.join(said)} {shlex.join(words)}"


def _file(text: list[str]) -> RenderedFile:
    return RenderedFile(ORDER_FILE, "\n".join(text) + "\n")
