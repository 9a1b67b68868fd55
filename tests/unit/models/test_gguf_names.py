"""Names of llama.cpp for the families of Hugging Face."""

from __future__ import annotations

import pytest

from llmops.models import gguf_families, gguf_names, hf_families
from llmops.models.gguf_names import gguf_name


@pytest.mark.parametrize("model_type", sorted(hf_families.RULES))
def test_every_name_is_one_whose_caches_are_known(model_type: str) -> None:
    name = gguf_name(model_type, has_experts=False)
    assert name is None or name in gguf_families.RULES


def test_no_name_is_of_a_family_that_is_not_read() -> None:
    read = {model_type.removesuffix("_text") for model_type in hf_families.RULES}
    assert {*gguf_names._SAME, *gguf_names._NAMES} <= read


@pytest.mark.parametrize(
    ("model_type", "name"),
    [("qwen3_5_moe_text", "qwen35moe"), ("gemma3_text", "gemma3"), ("mixtral", "llama"), ("opt", None)],
)
def test_names(model_type: str, name: str | None) -> None:
    assert gguf_name(model_type, has_experts=False) == name


def test_nemotron_h_is_called_by_its_experts() -> None:
    assert gguf_name("nemotron_h", has_experts=False) == "nemotron_h"
    assert gguf_name("nemotron_h", has_experts=True) == "nemotron_h_moe"
