"""What a test compares: the configuration on the disk and how the engine runs, before and after."""

from __future__ import annotations

import hashlib
from pathlib import Path

from tests.systemd.machine import Machine

CONFIGURATION = ("/etc/systemd", "/etc/llmops", "/etc/default")
STATE = "/var/lib/llmops"
UNIT = "llama-server.service"
DROP_IN = f"/etc/systemd/system/{UNIT}.d/zz-llmops.conf"
JOURNAL = f"{STATE}/journal.json"


def files_of(machine: Machine, *directories: str) -> dict[str, str]:
    """Every file, link and directory below, with what it is: a hash and mode, a target, a mode."""
    found = {}
    for directory in directories:
        for path in sorted(machine.path(directory).rglob("*")):
            found[f"/{path.relative_to(machine.root)}"] = _what(path)
    return found


def _what(path: Path) -> str:
    if path.is_symlink():
        return f"link to {path.readlink()}"
    mode = f"{path.stat().st_mode & 0o7777:04o}"
    return f"directory {mode}" if path.is_dir() else f"{hashlib.sha256(path.read_bytes()).hexdigest()} {mode}"


def configuration(machine: Machine) -> dict[str, str]:
    """The configuration that a change may touch."""
    return files_of(machine, *CONFIGURATION)


def times_of(machine: Machine) -> dict[str, int]:
    """When each file of configuration and state was last written, in nanoseconds."""
    return {
        str(path): path.lstat().st_mtime_ns
        for directory in (*CONFIGURATION, STATE)
        for path in machine.path(directory).rglob("*")
    }


def invocation(machine: Machine) -> str:
    """Which start of the unit runs."""
    return machine.show(UNIT, "InvocationID")


def slots(machine: Machine) -> int:
    """How many slots the engine itself says it has, once it serves."""
    properties = machine.wait_until_serving()
    return int(properties["total_slots"])
