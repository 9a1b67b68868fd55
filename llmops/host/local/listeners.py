"""Listening TCP sockets from /proc/net/tcp and tcp6, and their owners from the descriptors of every process."""

from __future__ import annotations

import ipaddress
import os
import sys
from collections.abc import Iterator
from pathlib import Path

from llmops.host import ListeningSocket

PROC = Path("/proc")
_LISTEN = "0A"  # TCP_LISTEN, include/net/tcp_states.h


def read_listening_sockets(proc: Path = PROC) -> tuple[ListeningSocket, ...]:
    """Every listening TCP socket of this network namespace, by port."""
    found = [row for table in ("tcp", "tcp6") for row in _listening(proc / "net" / table)]
    owners = _owners(proc, {inode for _, _, inode in found})
    sockets = [ListeningSocket(address, port, owners.get(inode)) for address, port, inode in found]
    return tuple(sorted(sockets, key=lambda one: (one.port, one.address)))


def _listening(table: Path) -> Iterator[tuple[str, int, int]]:
    try:
        lines = table.read_text(encoding="ascii").splitlines()[1:]
    except FileNotFoundError:  # a kernel without IPv6
        return
    for line in lines:
        # columns: sl local_address rem_address st tx:rx tr:when retrnsmt uid timeout inode (proc(5))
        columns = line.split()
        if len(columns) > 9 and columns[3] == _LISTEN:
            address, port = columns[1].split(":")
            yield _address(address), int(port, 16), int(columns[9])


def _address(text: str) -> str:
    """The kernel prints each 32-bit word of the address as a number in the byte order of the machine."""
    words = (text[start : start + 8] for start in range(0, len(text), 8))
    raw = b"".join(int(word, 16).to_bytes(4, sys.byteorder) for word in words)
    return str(ipaddress.ip_address(raw))


def _owners(proc: Path, inodes: set[int]) -> dict[int, int]:
    """The process that holds each socket; of several the lowest, but the service rather than its systemd socket."""
    wanted = {f"socket:[{inode}]": inode for inode in inodes}
    owners: dict[int, int] = {}
    pids = sorted(int(entry.name) for entry in os.scandir(proc) if entry.name.isdigit())
    for pid in sorted(pids, key=lambda number: number == 1):
        if len(owners) == len(wanted):
            break
        for target in _descriptors(f"{proc}/{pid}/fd"):
            if target in wanted:
                owners.setdefault(wanted[target], pid)
    return owners


def _descriptors(directory: str) -> Iterator[str]:
    try:
        with os.scandir(directory) as entries:
            names = [entry.name for entry in entries]
    except OSError:  # another user's process, or one that has ended
        return
    for name in names:
        try:
            # os.readlink and not pathlib: this runs once for every open descriptor of the machine.
            yield os.readlink(f"{directory}/{name}")  # noqa: PTH115
        except OSError:
            continue
