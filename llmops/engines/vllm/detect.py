"""Which vLLMs are on a machine: in units, containers, loose processes and on disk. None of them is started to ask it.

Importing vLLM takes many seconds, so its version is the name of the package's metadata directory.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath

from llmops import systemd
from llmops.core.errors import LlmopsError
from llmops.core.version import Version
from llmops.engines.containers import container_of, in_another_machine, list_containers, own_machine
from llmops.engines.foreign import whose_program
from llmops.engines.found import Installation
from llmops.engines.programs import programs_on_disk
from llmops.engines.unit import exec_words, unit_of, units_on_disk
from llmops.engines.vllm.package import flags_of, interpreter_of, package_of
from llmops.engines.vllm.words import MODULE, NAME
from llmops.host import Host, ProcessInfo

_IMAGE = re.compile(r"\bvllm\b", re.IGNORECASE)
_PLACES = ("/usr/local/bin", "/usr/bin", "/opt/vllm/bin", "/opt/vllm/.venv/bin", "/opt/vllm/venv/bin")
_HOME_PLACES = (".local/bin", "vllm/bin", "vllm/.venv/bin", ".venv/bin", "venv/bin")


def detect(host: Host) -> tuple[Installation, ...]:
    """Every vLLM: units, containers, processes, programs on disk."""
    own = own_machine(host)
    processes = tuple(one for one in host.processes() if _is_server(one.argv) and not in_another_machine(one, own))
    units = tuple(_units(host, processes))
    in_units = {unit.pid for unit in units if unit.pid}
    loose = [one for one in processes if one.pid not in in_units and container_of(one) is None]
    running = tuple(
        _installation(host, "process", _command(one.argv), pid=one.pid, detail=f"process {one.pid}, in no unit")
        for one in loose
    )
    containers = tuple(
        Installation(NAME, container.manager, (NAME,), None, None, None, detail=container.description)
        for container in list_containers(host, _IMAGE)
    )
    named = {word for known in (*units, *running) for word in known.command}
    programs = tuple(
        _installation(host, "binary", _startable(host, path), detail=path)
        for path in programs_on_disk(host, NAME, _PLACES, _HOME_PLACES)
        if path not in named
    )
    return (*sorted(units, key=lambda unit: unit.pid is None), *containers, *running, *programs)


def _is_server(words: Sequence[str]) -> bool:
    """`vllm serve ...`, started by itself or by its interpreter, or the module of its server."""
    names = [PurePosixPath(word).name for word in words[:2]]
    return (NAME in names and "serve" in words[1:3]) or MODULE in words[1:4]


def _command(words: Sequence[str]) -> tuple[str, ...]:
    """The words up to `vllm` or the module."""
    ends = [place for place, word in enumerate(words[:4]) if PurePosixPath(word).name == NAME or word == MODULE]
    return tuple(words[: ends[0] + 1]) if ends else tuple(words[:1])


def _units(host: Host, processes: Sequence[ProcessInfo]) -> Iterator[Installation]:
    if not systemd.is_booted(host):
        return
    grouped = {unit_of(process): process for process in reversed(processes) if unit_of(process)}
    for name in sorted({*units_on_disk(host, NAME), *(unit for unit in grouped if unit)}):
        try:
            files = systemd.unit_files(host, name)
        except LlmopsError:  # systemctl is missing or refuses: then nothing can be said of units
            return
        process = grouped.get(name)
        words = exec_words(host, name, files) or (process.argv if process else ())
        if _is_server(words):
            pid = process.pid if process else None
            yield _installation(host, "unit", _command(words), unit=name, pid=pid, detail=name)


def _startable(host: Host, script: str) -> tuple[str, ...]:
    """The words that start a program: its script, or its module where the script cannot find its own package.

    The script asks for the version of a package named vllm and ends where a build has another name (cli/main.py).
    """
    interpreter = interpreter_of(host, script)
    if interpreter is None or package_of(host, (script,)).is_named_vllm:
        return (script,)
    return (interpreter, "-m", MODULE)


def _installation(
    host: Host,
    managed_by: str,
    command: tuple[str, ...],
    *,
    unit: str | None = None,
    pid: int | None = None,
    detail: str,
) -> Installation:
    package = package_of(host, command)
    text = package.version_text
    # A build for the processor: by its own name, or by the local part of its version.
    on_processor = "cpu" in package.name or (text is not None and "+cpu" in text)
    plain = None if text is None else text.partition("+")[0]
    return Installation(
        NAME,
        managed_by,
        command,
        Version.parse(plain) if plain else None,
        plain,
        flags_of(host, package),
        accelerators=() if on_processor else None,
        unit=unit,
        pid=pid,
        detail=detail,
        problem=_foreign(host, command) if managed_by == "process" else None,
    )


def _foreign(host: Host, command: tuple[str, ...]) -> str | None:
    """Why root must not start what it found running: its interpreter or its script may be anybody's."""
    said = (whose_program(host, word) for word in command if word.startswith("/"))
    return next((why for why in said if why is not None), None)
