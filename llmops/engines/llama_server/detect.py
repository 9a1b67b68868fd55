"""Which llama-servers are on a machine: in units, containers, loose processes, on disk, and the embedded one."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import Any

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
from llmops.engines.foreign import whose_program
from llmops.engines.found import EMBEDDED, Installation
from llmops.engines.llama_server.arguments import EMBEDDED_MODULE, PROGRAM, program_length
from llmops.engines.llama_server.programs import (
    Answers,
    ask,
    embedded_answers,
    embedded_command,
    find_programs,
)
from llmops.engines.unit import exec_words, unit_of, units_on_disk
from llmops.host import Host, ProcessInfo

NAME = "llama-server"
_IMAGE = re.compile(r"llama[.-]?cpp|llama-server", re.IGNORECASE)
# Programs that start a llama-server of their own for every model; theirs are not ours to tune.
_OWNERS = frozenset({"ollama", PROGRAM, "llama-swap", "lms", "localai"})
_DELETED = " (deleted)"  # what /proc/PID/exe says after an upgrade of the program


@dataclass
class Machine:
    """What detection has seen so far: each program is asked once."""

    host: Host
    servers: tuple[ProcessInfo, ...]
    answers: dict[tuple[str, ...], Answers]

    def installation(self, managed_by: str, command: tuple[str, ...], **rest: Any) -> Installation:
        """An installation with what its program says of itself."""
        said = self.answers.get(command)
        if said is None:
            foreign = whose_program(self.host, command[0]) if managed_by == "process" else None
            said = Answers(problem=foreign) if foreign else ask(self.host, command)
            self.answers[command] = said
        known = Installation(
            engine=NAME,
            managed_by=managed_by,
            command=command,
            version=said.version,
            version_text=said.version_text,
            flags=said.flags,
            accelerators=said.accelerators,
            valued_flags=said.valued_flags,
            problem=said.problem,
        )
        return replace(known, **rest)


def detect(host: Host) -> tuple[Installation, ...]:
    """Every llama-server: running units, other units, containers, processes, programs on disk, the embedded one."""
    processes = host.processes()
    own = own_machine(host)
    machine = Machine(host, tuple(one for one in _servers(processes) if is_here(one, own)), {})
    units = tuple(_units(machine))
    in_units = {unit.pid for unit in units if unit.pid}
    loose = [process for process in machine.servers if process.pid not in in_units]
    containers = tuple(_containers(machine, loose))
    in_containers = {container.pid for container in containers if container.pid}
    running = tuple(_process(machine, process) for process in loose if process.pid not in in_containers)
    named = {word for known in (*units, *running) for word in known.command}
    programs = tuple(
        machine.installation("snap" if is_snap(path) else "binary", (path,), detail=path)
        for path in find_programs(host)
        if path not in named
    )
    return (*sorted(units, key=lambda unit: unit.pid is None), *containers, *running, *programs, *_embedded(machine))


def _servers(processes: Iterable[ProcessInfo]) -> tuple[ProcessInfo, ...]:
    by_pid = {process.pid: process for process in processes}
    return tuple(
        process
        for process in by_pid.values()
        if _is_server(process) and not _is_owned(process, by_pid.get(process.parent_pid or 0))
    )


def _is_server(process: ProcessInfo) -> bool:
    """The server itself, not one that only names it: a wrapper that waits for it, or `llmops --engine ...`."""
    length = program_length(process.argv)
    if length is None:
        return False
    if process.argv[length - 1] == EMBEDDED_MODULE:
        return length == 3  # python -m MODULE
    executable = (process.executable or "").removesuffix(_DELETED)
    return PROGRAM in {PurePosixPath(word).name for word in (process.argv[0], executable)}


def _is_owned(process: ProcessInfo, parent: ProcessInfo | None) -> bool:
    """Whether another program started it for itself; `python3 .../ollama serve` is how a script's name shows up."""
    words = parent.argv if parent else ()
    scripts = words[1:2] if words[2:3] == ("serve",) else ()
    names = {PurePosixPath(word).name for word in (*words[:1], *scripts, parent.executable or "" if parent else "")}
    return bool(names & _OWNERS) or "/ollama/" in (process.executable or "")


def _units(machine: Machine) -> Iterator[Installation]:
    if not systemd.is_booted(machine.host):
        return
    grouped = {unit_of(process): process for process in reversed(machine.servers) if unit_of(process)}
    for name in sorted(
        {*units_on_disk(machine.host, f"{PROGRAM}|{EMBEDDED_MODULE}"), *(unit for unit in grouped if unit)}
    ):
        try:
            found = _unit(machine, name, grouped.get(name))
        except LlmopsError:  # systemctl is missing or refuses: then nothing can be said of units
            return
        if found is not None:
            yield found


def _unit(machine: Machine, name: str, process: ProcessInfo | None) -> Installation | None:
    files = systemd.unit_files(machine.host, name)
    words = exec_words(machine.host, name, files) or ()
    length = program_length(words)
    if length is None and (process is None or not files):
        return None
    pid = process.pid if process else None
    if length is None and process is not None:
        command = _command_of(process)
        return machine.installation("unit", command, unit=name, pid=pid, detail=f"{name} starts it through a script")
    return machine.installation("unit", _located(machine.host, words[:length]), unit=name, pid=pid, detail=name)


def _located(host: Host, words: tuple[str, ...]) -> tuple[str, ...]:
    """The program without the wrappers before it, with its path."""
    command = words[-3:] if words[-1] == EMBEDDED_MODULE else words[-1:]
    return command if command[0].startswith("/") else (host.which(command[0]) or command[0], *command[1:])


def _command_of(process: ProcessInfo) -> tuple[str, ...]:
    words = process.argv[: program_length(process.argv) or 1]
    module = words[-2:] if words[-1] == EMBEDDED_MODULE else ()
    said = words[-1 - len(module)]
    # What was typed keeps the virtual environment of an interpreter; the executable is only where its links lead.
    return (said if said.startswith("/") else (process.executable or said).removesuffix(_DELETED), *module)


def _containers(machine: Machine, loose: Iterable[ProcessInfo]) -> Iterator[Installation]:
    listed = list(list_containers(machine.host, _IMAGE))
    for process in loose:
        inside = container_of(process)
        if inside is not None:
            named = next((one for one in listed if one.identity.startswith(inside.identity)), inside)
            listed = [one for one in listed if one is not named]
            yield _in_container(named, process)
    for container in listed:
        yield _in_container(container, None)


def _in_container(container: Container, process: ProcessInfo | None) -> Installation:
    return Installation(
        engine=NAME,
        managed_by=container.manager,
        command=process.argv[: program_length(process.argv)] if process else (PROGRAM,),
        version=None,
        version_text=None,
        flags=None,
        detail=container.description,
        pid=process.pid if process else None,
    )


def _process(machine: Machine, process: ProcessInfo) -> Installation:
    command = _command_of(process)
    managed_by = "snap" if is_snap(process.executable or command[0]) else "process"
    detail = f"process {process.pid}, in no unit of systemd"
    return machine.installation(managed_by, command, pid=process.pid, detail=detail)


def _embedded(machine: Machine) -> Iterator[Installation]:
    command = embedded_command()
    if command is not None:
        machine.answers[command] = embedded_answers()
        yield machine.installation(EMBEDDED, command, detail="the server that is a part of llmops")
