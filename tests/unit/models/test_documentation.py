"""docs/reference/models.md names the families that have a rule, and no others."""

from __future__ import annotations

import re
from pathlib import Path

from llmops.models.gguf_families import FULL_ATTENTION, RULES

PAGE = Path(__file__).resolve().parents[3] / "docs" / "reference" / "models.md"


def test_the_families_on_the_page_are_the_families_of_the_code() -> None:
    families = PAGE.read_text().split("## Families")[1].split("Any other architecture")[0]
    full, windowed = families.split("Sliding windows, where the file has them:")
    listed = re.findall(r"`([^`]+)`", full)
    assert listed[0] == "general.architecture"
    assert sorted(listed[1:]) == sorted(FULL_ATTENTION)
    assert set(re.findall(r"`([^`]+)`", windowed)) == set(RULES) - set(FULL_ATTENTION)
