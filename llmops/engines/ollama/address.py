"""Where an Ollama listens: OLLAMA_HOST as the server reads it (envconfig/config.go, Host and ConnectableHost)."""

from __future__ import annotations

import re
from dataclasses import dataclass

from llmops.engines.addresses import from_here

DEFAULT_ADDRESS, DEFAULT_PORT = "127.0.0.1", 11434
_PORTS = {"http": 80, "https": 443}  # what a scheme without a port means
_MOST_PORT = 65_535


@dataclass(frozen=True)
class Address:
    """Address and port in the person's own words; `url` reaches them from this machine."""

    scheme: str
    host: str
    port: int

    @property
    def url(self) -> str:
        """The URL to ask: an address that stands for all becomes loopback."""
        return f"{self.scheme}://{from_here(self.host, self.port)}"


def read_address(value: str | None) -> Address:
    """The address of a value of OLLAMA_HOST; the usual one where it is empty or its port cannot be."""
    text = (value or "").strip().strip("\"'").strip()
    scheme, separator, rest = text.partition("://")
    if not separator:
        scheme, rest = "http", text
    rest = rest.partition("/")[0]
    host, port_text = _divided(rest)
    default = _PORTS.get(scheme, DEFAULT_PORT) if separator else DEFAULT_PORT
    port = int(port_text) if re.fullmatch(r"\d{1,5}", port_text) else default
    if port > _MOST_PORT or (port_text and not port_text.isdigit()):
        port = default
    return Address(scheme, host or DEFAULT_ADDRESS, port)


def _divided(text: str) -> tuple[str, str]:
    """Address and port; an IPv6 address without brackets has no port."""
    if text.startswith("["):
        host, _, rest = text[1:].partition("]")
        return host, rest.removeprefix(":")
    if text.count(":") > 1:
        return text, ""
    host, _, port = text.partition(":")
    return host, port
