"""Layers of a config.json against two others: what people found in the engines' logs, and the same model as GGUF."""

from __future__ import annotations

from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from llmops.core.memory.vllm_layers import is_index_key
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


def test_every_published_config_is_read() -> None:
    assert len(names()) == 78
    for name in names():
        found = layers(name)
        assert found.count > 0
        assert all(0 <= (layer.layer or 0) < found.count for layer in found.attention_layers), name
        attention = found.attention_layers
        keeping = [layer for place, layer in enumerate(attention) if not is_index_key(attention, place)]
        numbered = [layer.layer for layer in keeping] + [layer.layer for layer in found.state_layers]
        assert None not in numbered
        assert len(set(numbered)) == len(numbered), name


# (layers, key-value heads, key length, value length, window) as the models of vLLM 0.33 build their attention, and for
# states (layers, elements of the convolution, elements of the state).
CACHES: dict[str, tuple[list[tuple[int, int, int, int, int | None]], list[tuple[int, int, int]]]] = {
    "deepseek-v3.2": ([(61, 1, 576, 0, None), (61, 1, 128, 0, None)], []),
    "gemma-4-26b-a4b-nvfp4": ([(25, 8, 256, 256, 1024), (5, 2, 512, 512, None)], []),
    "glm-5": ([(78, 1, 576, 0, None), (78, 1, 128, 0, None)], []),
    "glm-5.2": ([(78, 1, 576, 0, None), (21, 1, 128, 0, None)], []),
    "kimi-k2.5": ([(61, 1, 576, 0, None)], []),
    "kimi-k3": ([(24, 1, 576, 0, None)], [(69, 3 * 3 * 96 * 128, 96 * 128 * 128)]),
    "llama-3.1-405b": ([(126, 8, 128, 128, None)], []),
    "mimo-7b": ([(36, 8, 128, 128, None)], []),
    "mimo-v2-flash": ([(9, 4, 192, 128, None), (39, 8, 192, 128, 129)], []),
    "minimax-m2.5": ([(62, 8, 128, 128, None)], []),
    "nemotron-3-nano-30b": ([(6, 2, 128, 128, None)], [(23, 3 * (4096 + 2048), 4096 * 128)]),
    "nemotron-3-super-120b-fp8": ([(8, 2, 128, 128, None)], [(40, 3 * (8192 + 2048), 8192 * 128)]),
    "nemotron-3-ultra-550b": ([(12, 2, 128, 128, None)], [(48, 3 * (16384 + 2048), 16384 * 128)]),
    "nemotron-h-56b": ([(10, 8, 128, 128, None)], [(54, 3 * (16384 + 4096), 16384 * 256)]),
    "qwen3.5-397b-a17b": ([(15, 2, 256, 256, None)], [(45, 3 * (8192 + 4096), 8192 * 128)]),
}


@pytest.mark.parametrize("name", CACHES)
def test_caches_are_those_that_the_engine_builds(name: str) -> None:
    found = layers(name)
    attention, states = CACHES[name]
    counted = Counter(
        (layer.kv_heads, layer.key_length, layer.value_length, layer.window_tokens) for layer in found.attention_layers
    )
    assert counted == Counter({(heads, key, value, window): count for count, heads, key, value, window in attention})
    held = Counter((state.convolution_elements, state.recurrent_elements) for state in found.state_layers)
    assert held == Counter({(convolution, recurrent): count for count, convolution, recurrent in states})


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
