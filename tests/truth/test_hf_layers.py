"""Layers of a config.json against two others: what people found in the engines' logs, and the same model as GGUF."""

from __future__ import annotations

from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from llmops.core.model import AttentionLayer
from llmops.models.gguf_facts import Facts
from llmops.models.gguf_families import caches_of
from llmops.models.hf_config import ConfigFacts
from llmops.models.hf_families import layers_of
from llmops.models.hf_layers import Layers
from tests.truth.hf_configs import CONFIG_VALUES, SAME_MODEL, names, values_of
from tests.truth.shapes.published import PUBLISHED

FIGURES = Path(__file__).parent / "figures.yaml"


def layers(name: str) -> Layers:
    return layers_of(ConfigFacts(f"/models/{name}/config.json", values_of(name)))


@cache
def numbers() -> dict[str, list[dict[str, Any]]]:
    """The arch_numbers of the figures by the directory of their config.json."""
    found: dict[str, list[dict[str, Any]]] = {}
    for rows in YAML(typ="safe").load(FIGURES)["memory"].values():
        for row in rows:
            if row.get("arch_numbers") and row.get("arch"):
                kept = found.setdefault(row["arch"].replace("/", "_"), [])
                if row["arch_numbers"] not in kept:
                    kept.append(row["arch_numbers"])
    return found


def test_every_config_of_the_figures_is_read() -> None:
    assert len(names()) == 58
    for name in names():
        found = layers(name)
        assert found.count > 0
        assert all(0 <= (layer.layer or 0) < found.count for layer in found.attention_layers), name
        numbered = [layer.layer for layer in found.attention_layers] + [layer.layer for layer in found.state_layers]
        assert None not in numbered
        assert len(set(numbered)) == len(numbered), name


@pytest.mark.parametrize("name", sorted(set(numbers()) & set(names())))
def test_cache_of_a_token_is_the_one_found_in_the_logs(name: str) -> None:
    found = layers(name)
    for given in numbers()[name]:
        if name == "llama-3.1-8b+eagle":  # the figure counts the layer of the draft model beside it
            given = given | {"layers": given["layers"] - 1}  # noqa: PLW2901
        assert summary(found, given["kind"]) == expected(given), (name, given)


def summary(found: Layers, kind: str) -> Counter[object]:
    """Layers by all that the figures say of them; llama.cpp, whose logs say full, ignores the windows of Phi-3."""
    rows: Counter[object] = Counter()
    for layer in found.attention_layers:
        window = None if kind == "full" else layer.window_tokens
        rows[layer.kv_heads, layer.key_length, layer.value_length, window] += 1
    rows.update(state.recurrent_elements for state in found.state_layers if kind != "mla")
    return rows


def expected(given: dict[str, Any]) -> Counter[object]:
    if given["kind"] == "mla":
        return Counter({(1, given["lora"] + given["rope"], 0, None): given["layers"]})
    if given["kind"] == "full":
        return Counter({(given["kv"], given["hd"], given["hd"], None): given["layers"]})
    if given["kind"] == "gdn":
        state = given["vheads"] * given["kd"] * given["vd"]
        return Counter({(given["kv"], given["hd"], given["hd"], None): given["nf"], state: given["nm"]})
    full = (given["kv_f"], given["hd_f"], given["hd_f"], None)
    windowed = (given["kv_s"], given["hd_s"], given["hd_s"], given["window"])
    return Counter({full: given["nf"], windowed: given["ns"]})


@pytest.mark.parametrize("name", [*CONFIG_VALUES, *SAME_MODEL])
def test_the_same_model_as_gguf_has_the_same_caches(name: str) -> None:
    metadata = {
        key: tuple(value) if isinstance(value, list) else value for key, value in PUBLISHED[name]().metadata.items()
    }
    other = caches_of(Facts(f"/models/{name}.gguf", metadata))  # type: ignore[arg-type]
    found = layers(name)
    assert found.attention_layers == other.attention
    assert found.state_layers == other.state


def test_only_the_window_of_phi_3_differs_from_its_gguf() -> None:
    found = layers("phi-3-mini")
    metadata = {
        key: tuple(value) if isinstance(value, list) else value
        for key, value in PUBLISHED["phi-3-mini-4k"]().metadata.items()
    }
    other = caches_of(Facts("/models/phi.gguf", metadata)).attention  # type: ignore[arg-type]
    assert {layer.window_tokens for layer in found.attention_layers} == {2047}
    assert [without_window(layer) for layer in found.attention_layers] == [without_window(layer) for layer in other]
    assert found.notes


def without_window(layer: AttentionLayer) -> tuple[object, ...]:
    return layer.layer, layer.kv_heads, layer.key_length, layer.value_length
