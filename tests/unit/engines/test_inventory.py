"""The inventory: what it may say, and where it is wrong."""

from __future__ import annotations

import pytest

from llmops.core.errors import UnreadableInput
from llmops.engines.inventory import EXAMPLE, Inventory, Machine, read_inventory


def test_the_example_is_an_inventory() -> None:
    machines = (Machine("10.0.0.1", "eth1"), Machine("10.0.0.2", "eth1"))
    assert read_inventory(EXAMPLE, "f") == Inventory(machines, 8000, 29501, 6379)


def test_the_machine_of_the_front_may_be_one_of_the_hosts() -> None:
    assert (
        read_inventory("front: 10.0.0.1\nhosts: [{address: 10.0.0.1}, {address: 10.0.0.2}]\n", "f").front == "10.0.0.1"
    )
    assert read_inventory(EXAMPLE, "f").front is None


def test_ports_and_the_order_of_machines_are_as_written() -> None:
    text = "port: 9000\nmaster-port: 7\nray-port: 8\nhosts:\n  - address: fd00::2\n  - address: 'fd00::1'\n"
    found = read_inventory(text, "f")
    assert (found.port, found.master_port, found.ray_port) == (9000, 7, 8)
    assert found.addresses == ("fd00::2", "fd00::1")


TWO = "hosts:\n- address: 10.0.0.1\n- "


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "f:1:1: expected keys and values"),
        ("port: 8000\n", "f:1:1: no hosts"),
        ("hosts: 3\n", "f:1:1: hosts: expected a list"),
        ("hosts: []\n", "f:1:1: hosts: expected a list"),
        ("hosts: [\n", "f:2:1: not valid YAML"),
        ("hosts:\n- 10.0.0.1\n", "f:2:3: expected keys and values"),
        ("hosts:\n- interface: eth0\n", "f:2:3: a machine without an address"),
        ("hosts:\n- adress: 10.0.0.1\n", "f:2:3: unknown key 'adress'"),
        ("hosts:\n- address: gpu-1\n", "f:2:3: 'gpu-1' is not an IP address"),
        ("hosts:\n- address: 10\n", "f:2:3: 10 is not an IP address"),
        ("hosts:\n- address: fe80::1%eth0\n", "f:2:3: 'fe80::1%eth0' is not an IP address"),
        ("hosts:\n- address: 127.0.0.1\n", "f:2:3: other machines cannot reach 127.0.0.1"),
        ("hosts:\n- address: 0.0.0.0\n", "f:2:3: other machines cannot reach 0.0.0.0"),
        ("hosts:\n- address: '::ffff:127.0.0.1'\n", "f:2:3: other machines cannot reach 127.0.0.1"),
        (f"{TWO}address: 10.0.0.1\n", "f:3:3: 10.0.0.1 is named twice"),
        (f"{TWO}address: '::ffff:10.0.0.1'\n", "f:3:3: 10.0.0.1 is named twice"),
        (f"{TWO}address: fd00::1\n", "f:3:3: IPv4 and IPv6 addresses are mixed"),
        (f"{TWO}address: 10.0.0.2\n  interface: eth0,eth1\n", "f:4:3: 'eth0,eth1' is not the name"),
        (f"{TWO}address: 10.0.0.2\n  interface: 3\n", "f:4:3: 3 is not the name"),
        ("front: [10.0.0.9]\nhosts: [{address: 10.0.0.1}]\n", "f:1:1: .* is not an IP address"),
        ("front: 0.0.0.0\nhosts: [{address: 10.0.0.1}]\n", "f:1:1: other machines cannot reach"),
        ("front: fd00::9\nhosts: [{address: 10.0.0.1}]\n", "f:1:1: front: IPv4 and IPv6"),
        ("master_port: 1\n", "f:1:1: unknown key 'master_port'"),
        ("port: 0\nhosts: []\n", "f:1:1: port: 0 is too small"),
        ("port: 70000\nhosts: []\n", "f:1:1: port: 70000 is too large"),
        ("port: [1]\nhosts: []\n", "f:1:1: port: expected a whole number"),
        ("port: 29501\nhosts: [{address: 10.0.0.1}]\n", r"f:1:1: port: 29501 is master-port \(as nothing else"),
        ("port: 5\nray-port: 5\nhosts: [{address: 10.0.0.1}]\n", "f:2:1: ray-port: 5 is port already"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(text: str, said: str) -> None:
    with pytest.raises(UnreadableInput, match=said) as refused:
        read_inventory(text, "f")
    assert refused.value.hint
