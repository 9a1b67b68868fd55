"""Which Ollamas are on a machine: the official unit or another, snap, containers, started by hand, or on disk."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import PurePosixPath

from llmops import systemd
from llmops.core.errors import LlmopsError
from llmops.engines.containers import (
    Container,
    container_of,
    is_here,
    is_snap,
    list_containers,
    own_machine,
)
from llmops.engines.found import Installation
from llmops.engines.ollama.address import read_address
from llmops.engines.ollama.versions import version_of
from llmops.engines.programs import programs_on_disk
from llmops.engines.unit import environment, exec_words, unit_of, units_on_disk
from llmops.host import Host, ProcessInfo

NAME = PROGRAM = "ollama"
SERVE = "serve"
# BINDIR of scripts/install.sh, then where archives and packages put it.
_PLACES = ("/usr/local/bin", "/usr/bin", "/bin", "/opt/ollama/bin", "/snap/bin")
_IMAGE = re.compile(r"\bollama\b", re.IGNORECASE)
_SNAP_UNIT = re.compile(r"snap\.ollama\.")
_INTERPRETER = re.compile(r"python|perl|ruby|bash|dash|sh$")
_DELETED = " (deleted)"  # what /proc/PID/exe says after an upgrade of the program


def detect(host: Host) -> tuple[Installation, ...]:
    """Running units, other units, containers, processes, programs on disk."""
    own = own_machine(host)
    servers = [one for one in host.processes() if is_server(one) and is_here(one, own)]
    units = tuple(_units(host, servers))
    in_units = {unit.pid for unit in units if unit.pid}
    loose = [process for process in servers if process.pid not in in_units]
    containers = tuple(_containers(host, loose))
    inside = {container.pid for container in containers if container.pid}
    running = tuple(_process(host, process) for process in loose if process.pid not in inside)
    named = {word for known in (*units, *running) for word in known.command}
    programs = tuple(_program(host, path) for path in programs_on_disk(host, PROGRAM, _PLACES) if path not in named)
    return (*sorted(units, key=lambda unit: unit.pid is None), *containers, *running, *programs)


def is_server(process: ProcessInfo) -> bool:
    """`ollama serve` (or `start`, its other name) itself, also through an interpreter; no client and no runner."""
    length = program_length(process.argv)
    if length is None:
        return False
    executable = PurePosixPath((process.executable or "").removesuffix(_DELETED)).name
    return length == 1 or executable == PROGRAM or (length == 2 and bool(_INTERPRETER.match(executable)))


def program_length(words: tuple[str, ...]) -> int | None:
    """How many leading words start the program, wrappers included; None where it is not `ollama serve`."""
    for position, word in enumerate(words[:-1]):
        if PurePosixPath(word).name == PROGRAM and words[position + 1] in {SERVE, "start"}:
            return position + 1
    return None


def _units(host: Host, servers: Iterable[ProcessInfo]) -> Iterator[Installation]:
    if not systemd.is_booted(host):
        return
    grouped = {unit_of(process): process for process in servers if unit_of(process)}
    for name in sorted({*units_on_disk(host, PROGRAM), *(unit for unit in grouped if unit)}):
        try:
            found = _unit(host, name, grouped.get(name))
        except LlmopsError:  # systemctl is missing or refuses: then nothing can be said of units
            return
        if found is not None:
            yield found


def _unit(host: Host, name: str, process: ProcessInfo | None) -> Installation | None:
    files = systemd.unit_files(host, name)
    words = exec_words(host, name, files) or ()
    length = program_length(words)
    if length is None and process is None:
        return None
    program = words[length - 1] if length else _program_of(process)
    command = (program if program.startswith("/") else host.which(program) or program,)
    variables = dict((process.environment if process else None) or environment(host, name, files))
    managed_by = "snap" if _SNAP_UNIT.match(name) or is_snap(command[0]) else "unit"
    return _installation(
        host,
        managed_by,
        command,
        address=variables.get("OLLAMA_HOST"),
        unit=name if managed_by == "unit" else None,
        pid=process.pid if process else None,
        detail=name,
    )


def _program_of(process: ProcessInfo | None) -> str:
    return process.argv[(program_length(process.argv) or 1) - 1] if process else PROGRAM


def _containers(host: Host, loose: Iterable[ProcessInfo]) -> Iterator[Installation]:
    listed = list(list_containers(host, _IMAGE))
    for process in loose:
        inside = container_of(process)
        if inside is not None:
            named = next((one for one in listed if one.identity.startswith(inside.identity)), inside)
            listed = [one for one in listed if one is not named]
            yield _in_container(named, process)
    for container in listed:
        yield _in_container(container, None)


def _in_container(container: Container, process: ProcessInfo | None) -> Installation:
    command = (_program_of(process),)
    pid = process.pid if process else None
    return Installation(NAME, container.manager, command, None, None, None, detail=container.description, pid=pid)


def _process(host: Host, process: ProcessInfo) -> Installation:
    executable = (process.executable or "").removesuffix(_DELETED)
    said = _program_of(process)
    command = (said if said.startswith("/") else executable or said,)
    return _installation(
        host,
        "snap" if is_snap(executable or command[0]) else "process",
        command,
        address=dict(process.environment or ()).get("OLLAMA_HOST"),
        pid=process.pid,
        detail=f"process {process.pid}, in no unit of systemd",
    )


def _program(host: Host, path: str) -> Installation:
    return _installation(host, "snap" if is_snap(path) else "binary", (path,), detail=path)


def _installation(
    host: Host,
    managed_by: str,
    command: tuple[str, ...],
    *,
    address: str | None = None,
    unit: str | None = None,
    pid: int | None = None,
    detail: str = "",
) -> Installation:
    said = version_of(host, command, read_address(address).url if pid else None)
    return Installation(
        engine=NAME,
        managed_by=managed_by,
        command=command,
        version=said.version,
        version_text=said.text,
        flags=None,
        unit=unit,
        detail=detail,
        pid=pid,
        problem=said.problem,
    )
