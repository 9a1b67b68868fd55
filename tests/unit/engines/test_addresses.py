"""Addresses as URLs have them, for others and for who asks from the same machine."""

from __future__ import annotations

import pytest

from llmops.engines.addresses import from_here, with_port


@pytest.mark.parametrize(
    ("address", "for_others", "for_this_machine"),
    [
        ("10.0.0.1", "10.0.0.1:80", "10.0.0.1:80"),
        ("fd00::1", "[fd00::1]:80", "[fd00::1]:80"),
        ("0.0.0.0", "0.0.0.0:80", "127.0.0.1:80"),
        ("::", "[::]:80", "[::1]:80"),
    ],
)
def test_an_address_with_its_port(address: str, for_others: str, for_this_machine: str) -> None:
    assert with_port(address, 80) == for_others
    assert from_here(address, "80") == for_this_machine
