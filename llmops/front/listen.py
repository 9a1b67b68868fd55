"""Addresses with a port: what a person may ask the front to listen on, and who holds a port already."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable
from dataclasses import dataclass
from urllib.parse import urlsplit

from llmops.core.errors import Misconfigured, UsageError
from llmops.host import ListeningSocket

_EXAMPLE = "write ADDRESS:PORT, such as 127.0.0.1:8000, [::1]:8000, or 0.0.0.0:8000 for every network of this machine"
_LAST_PRIVILEGED_PORT = 1023
_PORT = re.compile(r"[0-9]{1,5}")


@dataclass(frozen=True)
class Address:
    """A numeric IP address and a TCP port; raise ValueError for a name."""

    host: str
    port: int

    def __post_init__(self) -> None:
        ipaddress.ip_address(self.host)  # a name would be looked up by whoever uses it, and may mean another machine

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def is_loopback(self) -> bool:
        """True where only this machine can connect."""
        return ipaddress.ip_address(self.host).is_loopback

    @property
    def is_everywhere(self) -> bool:
        """True for 0.0.0.0 and ::, which stand for every address of the machine."""
        return ipaddress.ip_address(self.host).is_unspecified

    @property
    def is_privileged(self) -> bool:
        """True for a port that only root may open."""
        return self.port <= _LAST_PRIVILEGED_PORT

    @property
    def url(self) -> str:
        """Where this machine itself reaches it."""
        if not self.is_everywhere:
            return f"http://{self}"
        return f"http://{Address('::1' if ':' in self.host else '127.0.0.1', self.port)}"


def parse_listen(text: str) -> Address:
    """ADDRESS:PORT as typed; raise UsageError for anything that leaves open who may connect."""
    host, colon, port = text.strip().rpartition(":")
    if not colon or not host or _PORT.fullmatch(port) is None or not 1 <= int(port) <= 65535:
        raise UsageError(f"{text!r} is no address and port to listen on", hint=_EXAMPLE)
    bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    if ":" in bare and bare == host:
        raise UsageError(f"{text!r}: an IPv6 address needs brackets", hint=_EXAMPLE)
    try:
        address = _numeric(bare)
    except ValueError:
        raise UsageError(f"{bare!r} is no IP address", hint=_EXAMPLE) from None
    if "%" in address:
        raise UsageError(f"{bare!r}: an address with a zone cannot be listened on", hint=_EXAMPLE)
    return Address(address, int(port))


def address_of_url(url: str) -> Address:
    """Where an engine listens; raise Misconfigured for one that a front on the same machine cannot stand before."""
    try:
        parts = urlsplit(url)
        if parts.scheme != "http" or parts.hostname is None:
            raise Misconfigured(
                f"the engine serves {url}, and the front speaks plain HTTP to it",
                hint="let the engine serve plain HTTP on loopback, and let a proxy in front of the front speak TLS",
            )
        address, port = _numeric(parts.hostname), parts.port
    except ValueError:
        address, port = "", None
    if not address or "%" in address:
        raise Misconfigured(f"the engine at {url} has no numeric address", hint="let it listen on 127.0.0.1")
    return Address(address, port or 80)


def _numeric(text: str) -> str:
    """An address as it is usually written; an IPv4 address in the clothes of an IPv6 one is an IPv4 address."""
    address = ipaddress.ip_address("127.0.0.1" if text == "localhost" else text)
    return str(getattr(address, "ipv4_mapped", None) or address)


def port_taken_by(wanted: Address, sockets: Iterable[ListeningSocket]) -> ListeningSocket | None:
    """The socket that already listens where `wanted` would; None where the place is free."""
    for socket in sockets:
        if socket.port == wanted.port and _overlap(wanted, Address(socket.address, socket.port)):
            return socket
    return None


def _overlap(one: Address, other: Address) -> bool:
    return one.host == other.host or one.is_everywhere or other.is_everywhere
