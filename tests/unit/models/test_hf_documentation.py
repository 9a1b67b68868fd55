"""docs/reference/models.md names the families of config.json that have a rule, and whose weights are not known."""

from __future__ import annotations

import re
from pathlib import Path

from llmops.models.hf_families import RULES
from llmops.models.hf_families_special import encoder
from llmops.models.hf_traits import TRAITS

PAGE = Path(__file__).resolve().parents[3] / "docs" / "reference" / "models.md"
SECTION = PAGE.read_text(encoding="utf-8").split("## config.json")[1].split("\n## ")[0]
LISTS = [re.findall(r"`([^`]+)`", part) for part in SECTION.split("\n\n") if part.startswith("`")]
ENCODERS = [family for family, rule in RULES.items() if rule is encoder]


def test_the_families_on_the_page_are_the_families_of_the_code() -> None:
    listed = [family for names in LISTS for family in names]
    assert sorted(listed) == sorted(RULES)
    assert all(names == sorted(names) for names in LISTS)
    assert LISTS[-1] == sorted(ENCODERS)


def test_states_and_latents_are_listed_as_such() -> None:
    states = {family for family, rule in RULES.items() if getattr(rule, "__name__", "") == "rule"}
    assert set(LISTS[2]) == states


def test_the_page_says_whose_weights_are_not_known() -> None:
    named = SECTION.split("is not known for")[1]
    assert set(re.findall(r"`([^`]+)`", named)) == set(RULES) - set(TRAITS) - set(ENCODERS)
