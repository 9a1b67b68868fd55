"""Versions as people write them."""

from __future__ import annotations

import pytest

from llmops.core.version import Version


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("0.10.2", (0, 10, 2)),
        ("v0.33.0", (0, 33, 0)),
        ("0.33.0rc1", (0, 33, 0)),
        ("0.32.0+cpu", (0, 32, 0)),
        ("11434", (11434,)),
        ("b9265", (9265,)),
        ("0.6.0-dev (build 11434)", (0, 6, 0)),
        ("0.2x", (0, 29, 999)),
        ("0.2x (2026-10)", (0, 29, 999)),
        ("0.9.x", (0, 9, 999)),
        ("0.9.*", (0, 9, 999)),
    ],
)
def test_a_version_in_full_or_in_part(text: str, parts: tuple[int, ...]) -> None:
    assert Version.parse_newest(text) == Version(parts)


@pytest.mark.parametrize("text", ["", "newest", "-1", "x.2", "0.x.2", "1x2"])
def test_no_version(text: str) -> None:
    assert Version.parse_newest(text) is None


def test_the_newest_that_is_meant_lies_between_its_neighbours() -> None:
    for meant, before, after in (("0.2x", "0.29.1", "0.30.0"), ("0.9.x", "0.9.2", "0.10.0")):
        found, least, most = (Version.parse_newest(text) for text in (meant, before, after))
        assert least is not None
        assert most is not None
        assert found is not None
        assert least < found < most
