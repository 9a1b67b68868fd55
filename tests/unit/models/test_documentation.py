"""docs/reference/models.md names the families that have a rule, group by group, and no others."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

import pytest

from llmops.core.memory.ggml_state import ROLLS_BACK
from llmops.models.gguf_families import ENCODERS, FULL_ATTENTION, LATENT, STATE, WINDOWED

PAGE = Path(__file__).resolve().parents[3] / "docs" / "reference" / "models.md"
FAMILIES = PAGE.read_text().split("## Families")[1].split("Any other architecture")[0]
LISTS = [re.findall(r"`([^`]+)`", part) for part in FAMILIES.split("\n\n") if part.startswith("`")]


@pytest.mark.parametrize(
    ("listed", "known"), list(zip(LISTS, (FULL_ATTENTION, WINDOWED, LATENT, STATE, ENCODERS), strict=True))
)
def test_the_families_on_the_page_are_the_families_of_the_code(listed: list[str], known: Iterable[str]) -> None:
    assert listed == sorted(known)


def test_the_page_names_the_families_that_keep_rows_for_guesses() -> None:
    last = FAMILIES.split("the states of")[1]
    assert set(re.findall(r"`([^`]+)`", last)) == ROLLS_BACK
