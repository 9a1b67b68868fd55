"""Processes as /proc shows them; what may not be read is None, and a process that ends meanwhile is left out."""

from __future__ import annotations

import os
import re
from pathlib import Path

from llmops.host import ProcessInfo

PROC = Path("/proc")
_PARENT = re.compile(rb"^PPid:\s*(\d+)", re.MULTILINE)
_USER = re.compile(rb"^Uid:\s*(\d+)", re.MULTILINE)  # the real one; the kernel escapes line ends in names


def read_processes(proc: Path = PROC) -> tuple[ProcessInfo, ...]:
    """Every process of this process-id namespace, by number."""
    numbers = sorted(int(entry.name) for entry in os.scandir(proc) if entry.name.isdigit())
    found = (read_process(proc, number) for number in numbers)
    return tuple(process for process in found if process is not None)


def read_process(proc: Path, pid: int) -> ProcessInfo | None:
    """One process, or None when it has gone."""
    # Paths are plain text here: pathlib takes longer than the reading, and there are hundreds of processes.
    directory = f"{proc}/{pid}"
    status = _bytes(f"{directory}/status")
    if status is None:
        return None
    environment = _bytes(f"{directory}/environ")
    return ProcessInfo(
        pid=pid,
        parent_pid=_number(_PARENT.search(status)),
        executable=_link(f"{directory}/exe"),
        argv=_words(_bytes(f"{directory}/cmdline")),
        environment=None if environment is None else _variables(environment),
        uid=_number(_USER.search(status)),
        control_group=_control_group(_bytes(f"{directory}/cgroup")),
    )


def _bytes(path: str) -> bytes | None:
    try:
        with open(path, "rb", buffering=0) as file:  # noqa: PTH123 - see read_process
            return file.readall()
    except OSError:  # not permitted, or ended between two reads (ESRCH)
        return None


def _link(path: str) -> str | None:
    try:
        return os.readlink(path)  # noqa: PTH115 - see read_process
    except OSError:
        return None


def _number(found: re.Match[bytes] | None) -> int | None:
    return None if found is None else int(found.group(1))


def _words(command_line: bytes | None) -> tuple[str, ...]:
    if not command_line:
        return ()
    return tuple(word.decode("utf-8", errors="replace") for word in command_line.removesuffix(b"\0").split(b"\0"))


def _variables(environment: bytes) -> tuple[tuple[str, str], ...]:
    pairs = (entry.partition("=") for entry in _words(environment))
    return tuple((name, value) for name, equals, value in pairs if equals)


def _control_group(text: bytes | None) -> str | None:
    """The group that systemd put it in: the name=systemd hierarchy where there is one (v1), else the unified one."""
    if text is None:
        return None
    groups: dict[bytes, str] = {}
    for line in text.splitlines():
        _, controllers, path = line.split(b":", 2)
        groups[controllers] = path.decode("utf-8", errors="replace")
    return groups.get(b"name=systemd", groups.get(b""))
