"""The kernel's small text formats."""

from __future__ import annotations

import pytest

from llmops.probe.sources import keyed_numbers, parse_cpu_list


@pytest.mark.parametrize(
    ("text", "cpus"),
    [
        ("0-3,8,10-11\n", {0, 1, 2, 3, 8, 10, 11}),
        ("0", {0}),
        ("", None),
        ("\n", None),
        (None, None),
        ("a-b", None),
        ("0-", {0}),
        ("0,,2", None),
    ],
)
def test_lists_of_processors(text: str | None, cpus: set[int] | None) -> None:
    assert parse_cpu_list(text) == cpus


def test_numbers_with_names() -> None:
    text = "MemTotal:   12 kB\ninactive_file 34\nbroken\nword word\nMemTotal: 99 kB\n"
    assert keyed_numbers(text) == {"MemTotal": 12, "inactive_file": 34}
    assert keyed_numbers(None) == {}
