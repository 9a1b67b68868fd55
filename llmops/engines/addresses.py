"""Addresses of listeners: what stands for every one of a machine, and how one is written with its port."""

from __future__ import annotations

# Where a machine itself reaches what listens at every address of it.
_OWN_WAY = {"0.0.0.0": "127.0.0.1", "::": "::1", "*": "127.0.0.1", "": "127.0.0.1"}  # noqa: S104 - recognised, never opened
EVERY_ADDRESS = frozenset(_OWN_WAY)


def with_port(address: str, port: str | int) -> str:
    """An address with its port, as URLs have it: IPv6 in brackets."""
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


def from_here(address: str, port: str | int) -> str:
    """The same for who asks from this machine."""
    return with_port(_OWN_WAY.get(address, address), port)
