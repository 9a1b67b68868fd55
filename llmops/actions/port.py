"""Whether another program listens where an engine is about to: said before anything is changed, with its name."""

from __future__ import annotations

from pathlib import PurePosixPath
from urllib.parse import urlsplit

from llmops.core.errors import Misconfigured
from llmops.engines.addresses import EVERY_ADDRESS
from llmops.engines.found import InForce
from llmops.engines.unit import unit_of
from llmops.host import Host, ProcessInfo

# What a name stands for that engines take for an address; sockets are listed by numbers.
_NUMBERS = {"localhost": frozenset({"127.0.0.1", "::1"})}
# systemd itself listens for a unit that a socket starts.
_SYSTEMD = 1


def require_port(host: Host, unit: str, in_force: InForce) -> None:
    """Raise Misconfigured where a process that is no part of the unit listens at the address of its server."""
    if in_force.url is None:
        return
    address = urlsplit(in_force.url)
    name = address.hostname or ""
    taken = EVERY_ADDRESS | _NUMBERS.get(name, {name})
    holders = {one.pid for one in host.listening_sockets() if one.port == address.port and one.address in taken}
    foreign = holders - {None, _SYSTEMD, *in_force.pids}
    if not foreign:
        return
    for process in host.processes():
        if process.pid in foreign and unit_of(process) != unit:
            raise _taken(process, unit, f"{address.hostname}:{address.port}")


def _taken(process: ProcessInfo, unit: str, address: str) -> Misconfigured:
    owner = unit_of(process)
    cure = f"systemctl stop {owner}" if owner else f"stop process {process.pid}"
    return Misconfigured(
        f"{name_of(process)} (process {process.pid}{f' of {owner}' if owner else ''}) listens at {address},"
        f" where {unit} is to serve",
        hint=f"{cure}, or give the server another port: --port in ExecStart= of a unit of your own",
    )


def name_of(process: ProcessInfo) -> str:
    """The program of a process, as people know it; servers write more than their name into their first word."""
    first = process.argv[0] if process.argv and process.argv[0] else process.executable
    return PurePosixPath(first.split(maxsplit=1)[0].rstrip(":")).name if first else "a program"
