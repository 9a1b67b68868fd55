"""Addresses to listen on, as people type them, and ports that somebody holds already."""

from __future__ import annotations

import pytest

from llmops.core.errors import Misconfigured, UsageError
from llmops.front import Address, address_of_url, parse_listen, port_taken_by
from llmops.host import ListeningSocket


@pytest.mark.parametrize(
    ("text", "written", "reached", "loopback"),
    [
        ("127.0.0.1:8000", "127.0.0.1:8000", "http://127.0.0.1:8000", True),
        ("localhost:8000", "127.0.0.1:8000", "http://127.0.0.1:8000", True),
        ("0.0.0.0:80", "0.0.0.0:80", "http://127.0.0.1:80", False),
        ("192.168.1.5:8000", "192.168.1.5:8000", "http://192.168.1.5:8000", False),
        ("[::1]:8000", "[::1]:8000", "http://[::1]:8000", True),
        ("[::]:8000", "[::]:8000", "http://[::1]:8000", False),
        # An IPv4 address in the clothes of an IPv6 one would hide that it is every network, or loopback.
        ("[::ffff:0.0.0.0]:8000", "0.0.0.0:8000", "http://127.0.0.1:8000", False),
        ("[::ffff:7f00:1]:8000", "127.0.0.1:8000", "http://127.0.0.1:8000", True),
    ],
)
def test_an_address_says_who_may_connect(text: str, written: str, reached: str, loopback: bool) -> None:
    address = parse_listen(text)
    assert (str(address), address.url, address.is_loopback) == (written, reached, loopback)


@pytest.mark.parametrize(
    "text",
    ["8000", ":8000", "*:8000", "127.0.0.1", "127.0.0.1:", "127.0.0.1:0", "127.0.0.1:65536", "127.0.0.1:8e3",
     "::1:8000", "example.org:8000", "300.0.0.1:80", "[fe80::1%eth0]:8000", "", "127.0.0.1:-1", "127.0.0.1:٨",
     f"127.0.0.1:{'9' * 5000}", "127.0.0.1:8000\nserver x", "127.1:80"],
)  # fmt: skip
def test_what_leaves_open_who_may_connect_is_refused(text: str) -> None:
    with pytest.raises(UsageError) as refused:
        parse_listen(text)
    assert "ADDRESS:PORT" in str(refused.value.hint)


def test_only_root_opens_low_ports() -> None:
    assert parse_listen("0.0.0.0:1023").is_privileged
    assert not parse_listen("0.0.0.0:1024").is_privileged


def test_the_engine_is_found_where_it_answers() -> None:
    assert address_of_url("http://127.0.0.1:8080") == Address("127.0.0.1", 8080)
    assert address_of_url("http://localhost:11434") == Address("127.0.0.1", 11434)
    assert address_of_url("http://[::1]:8080/prefix") == Address("::1", 8080)
    assert address_of_url("http://[::ffff:127.0.0.1]:8080") == Address("127.0.0.1", 8080)
    for url in (
        "https://127.0.0.1:8443", "http://example.org:8080", "http://[bad:80", "http://[::1]:70000",
        "http://[fe80::1%25eth0]:80",
    ):  # fmt: skip
        with pytest.raises(Misconfigured):
            address_of_url(url)


@pytest.mark.parametrize(
    ("held", "taken"),
    [("127.0.0.1", True), ("0.0.0.0", True), ("::", True), ("192.168.1.5", False), ("::1", False)],
)
def test_a_port_is_taken_by_the_same_address_or_by_every_address(held: str, taken: bool) -> None:
    socket = ListeningSocket(held, 8000, 7)
    assert (port_taken_by(Address("127.0.0.1", 8000), [socket]) is socket) == taken
    assert port_taken_by(Address("127.0.0.1", 8001), [socket]) is None
    assert port_taken_by(Address("0.0.0.0", 8000), [socket]) is socket
