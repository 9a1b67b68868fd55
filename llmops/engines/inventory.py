"""The file that names machines: those of one server in their order, or equal servers behind a front."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Any

from llmops.configuration import OptionSpec, ValueKind, load_yaml, read_value
from llmops.core.errors import UnreadableInput, UsageError

EXAMPLE = "hosts: [{address: 10.0.0.1, interface: eth1}, {address: 10.0.0.2, interface: eth1}]"
_FORM = f"write `{EXAMPLE}`; beside it front, master-port, port and ray-port may stand"
_PORTS = {
    name: OptionSpec(name, ValueKind.INTEGER, "", minimum=1, maximum=65_535)
    for name in ("port", "master-port", "ray-port")
}
_MACHINE = ("address", "interface")
# Linux takes 15 characters (IFNAMSIZ); NCCL reads these as more than one name.
_INTERFACE = re.compile(r"[^\s/:,=^]{1,15}")
Position = tuple[int, int]


@dataclass(frozen=True)
class Machine:
    """One machine: the address that the others reach it at, and the network interface that has it."""

    address: str
    interface: str | None = None


@dataclass(frozen=True)
class Inventory:
    """The machines of one server in the order of their ranks, the first of which answers clients, or of equal servers.

    The ports are the engine's own. `front` is the address of the machine before equal servers: it may be one of them.
    """

    machines: tuple[Machine, ...]
    port: int = 8000
    master_port: int = 29501
    ray_port: int = 6379
    front: str | None = None

    @property
    def addresses(self) -> tuple[str, ...]:
        """Of all machines, in their order."""
        return tuple(machine.address for machine in self.machines)


@dataclass(frozen=True)
class Place:
    """Where one of several equal servers listens, and the addresses that may connect to it beside its own machine."""

    address: str
    port: int
    clients: tuple[str, ...]


def read_inventory(text: str, path: str) -> Inventory:
    """Raise UnreadableInput with path, line and column for everything that is not an inventory."""
    document = load_yaml(text, path)
    places = dict(_items(document, path, (0, 0), (*_PORTS, "front", "hosts")))
    if "hosts" not in places:
        raise UnreadableInput(f"{path}:1:1: no hosts are named", hint=_FORM)
    ports = {name: _port(name, document[name], _at(path, place)) for name, place in places.items() if name in _PORTS}
    machines = _machines(document["hosts"], path, places["hosts"])
    found = Inventory(
        machines,
        front=_front(document["front"], _at(path, places["front"]), machines) if "front" in places else None,
        **{name.replace("-", "_"): number for name, number in ports.items()},
    )
    _require_other_ports(found, path, places)
    return found


def _port(name: str, raw: object, place: str) -> int:
    try:
        return int(read_value(_PORTS[name], raw))
    except UsageError as error:
        raise UnreadableInput(f"{place}: {name}: {error.message}", hint="a port is a number up to 65535") from None


def _require_other_ports(found: Inventory, path: str, places: dict[str, Position]) -> None:
    taken: dict[int, str] = {}
    numbers = {"port": found.port, "master-port": found.master_port, "ray-port": found.ray_port}
    for name, number in sorted(numbers.items(), key=lambda row: row[0] in places):
        if number in taken:
            raise UnreadableInput(
                f"{_at(path, places[name])}: {name}: {number} is {taken[number]} already", hint="take another number"
            )
        taken[number] = name if name in places else f"{name} (as nothing else is said)"


def _machines(rows: Any, path: str, place: Position) -> tuple[Machine, ...]:
    if not isinstance(rows, list) or not rows:
        raise UnreadableInput(f"{_at(path, place)}: hosts: expected a list of machines", hint=_FORM)
    found: dict[str, Machine] = {}
    for number, row in enumerate(rows):
        where = rows.lc.item(number)  # type: ignore[attr-defined]
        machine, at = _machine(row, path, where)
        if machine.address in found:
            raise UnreadableInput(f"{at}: {machine.address} is named twice", hint="name every machine once")
        if found and ip_address(machine.address).version != ip_address(next(iter(found))).version:
            raise UnreadableInput(f"{at}: IPv4 and IPv6 addresses are mixed", hint="name all machines by one of them")
        found[machine.address] = machine
    return tuple(found.values())


def _front(raw: object, at: str, machines: tuple[Machine, ...]) -> str:
    address = _address(raw, at)
    if ip_address(address).version != ip_address(machines[0].address).version:
        raise UnreadableInput(
            f"{at}: front: IPv4 and IPv6 addresses are mixed", hint="name all machines by one of them"
        )
    return address


def _machine(row: Any, path: str, where: Position) -> tuple[Machine, str]:
    """One machine, and the place of its address."""
    places = dict(_items(row, path, where, _MACHINE))
    if "address" not in places:
        raise UnreadableInput(f"{_at(path, where)}: a machine without an address", hint=_FORM)
    at = _at(path, places["address"])
    interface = row.get("interface")
    if interface is not None and not (isinstance(interface, str) and _INTERFACE.fullmatch(interface)):
        raise UnreadableInput(
            f"{_at(path, places['interface'])}: {interface!r} is not the name of a network interface",
            hint="`ip -brief address` shows the names",
        )
    return Machine(_address(row["address"], at), interface), at


def _address(raw: object, at: str) -> str:
    """Names are not looked up: the engine wants an address (VLLM_HOST_IP), and each machine may see another one."""
    try:
        address = ip_address(raw) if isinstance(raw, str) else None
    except ValueError:
        address = None
    address = getattr(address, "ipv4_mapped", None) or address  # an IPv4 address in the clothes of an IPv6 one
    if address is None or "%" in str(raw):
        raise UnreadableInput(f"{at}: {raw!r} is not an IP address", hint="write it in numbers, such as 10.0.0.1")
    if address.is_loopback or address.is_unspecified or address.is_multicast:
        raise UnreadableInput(f"{at}: other machines cannot reach {address}", hint="`ip -brief address` shows others")
    return str(address)


def _items(mapping: Any, path: str, where: Position, known: tuple[str, ...]) -> Iterator[tuple[str, Position]]:
    """The keys of a mapping with their places, counted from 0."""
    if not hasattr(mapping, "lc") or not hasattr(mapping, "items"):
        raise UnreadableInput(f"{_at(path, where)}: expected keys and values, one of {', '.join(known)}", hint=_FORM)
    for name in mapping:
        if name not in (mapping.lc.data or ()):
            raise UnreadableInput(f"{path}: {name!r} comes from a merge key", hint="write the key itself, not `<<`")
        place = mapping.lc.key(name)
        if name not in known:
            raise UnreadableInput(f"{_at(path, place)}: unknown key {name!r}", hint=f"known: {', '.join(known)}")
        yield name, place


def _at(path: str, place: Position) -> str:
    return f"{path}:{place[0] + 1}:{place[1] + 1}"
