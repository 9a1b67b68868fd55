"""Caches and states that llama.cpp and Ollama printed on other people's machines, against the rules of llama.cpp.

The models are read from their config.json. A row lies within 1 %, or what it does not say of its engine is named here.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from llmops.core.memory.ggml_cache import layer_cache_bytes, layer_cells, total_cache_bytes
from llmops.core.memory.ggml_settings import GgmlSettings, streams
from llmops.core.memory.ggml_state import STATE_ELEMENT_BYTES, state_rows, total_state_bytes
from llmops.core.model import CACHE_TYPE_BLOCKS, ModelSpec
from llmops.core.version import Version
from llmops.host.local import LocalHost
from llmops.models import read_model

HERE = Path(__file__).resolve().parent
MIB, GIB = 1024**2, 1024**3
TOLERANCE = 0.01
UNITS = {"MiB": MIB, "GiB": GIB}

# What a row does not say of its engine and its figures show.
UNSTATED: dict[str, tuple[Mapping[str, Any], str]] = {
    "l37": ({"swa_full": True}, "a fork that keeps the whole context in the windowed layers"),
}
# A compressed cache whose values are kept a second time, as wide as the compression without its rotary part.
VALUES_TWICE = {
    "l36": "an engine before the V-less cache (llama.cpp pull request 19067)",
    "l62": "a fork in its mode mla=1, which keeps the transposed values",
}
ROTARY_LENGTH = 64
# Rows of engines that are not llama.cpp in their caches: Ollama's own runner up to 0.24.
OWN_RULES = {
    "o08": "Ollama's own engine: its windowed layers keep other counts of cells",
    "o23": "Ollama's own engine: its windowed layers keep 4,096 tokens and a batch, not the window",
}


@dataclass(frozen=True)
class Row:
    """One published start, with its sizes in bytes and how far off their last printed digit may be."""

    id: str
    model: ModelSpec
    settings: GgmlSettings
    build: Version | None
    reported: Mapping[str, Any]


@functools.cache
def documents() -> Mapping[str, Any]:
    memory: Mapping[str, Any] = YAML(typ="safe").load((HERE / "figures.yaml").read_text(encoding="utf-8"))["memory"]
    return memory


@functools.cache
def model_of(arch: str) -> ModelSpec:
    """As a GGUF file says it: the loader sets no windows for Phi-3."""
    model = read_model(LocalHost(), str(HERE / "configs" / arch.replace("/", "_")))
    if model.architecture != "phi3":
        return model
    return replace(model, attention_layers=tuple(replace(one, window_tokens=None) for one in model.attention_layers))


def row_of(raw: Mapping[str, Any], slots_key: str, context_key: str) -> Row:
    config = raw["config"]
    slots, build = config.get(slots_key, 1), re.match(r"b(\d+)\b", str(raw["version"]))
    settings = GgmlSettings(
        slots=slots,
        context_tokens_per_slot=-(-config[context_key] // slots),
        kv_unified=bool(config.get("kv_unified", slots_key == "parallel")),
        cache_type_k=config.get("cache_type_k", "f16"),
        cache_type_v=config.get("cache_type_v", "f16"),
        ubatch_tokens=config.get("n_ubatch", 512),
        batch_tokens=max(2048, config.get("n_ubatch", 512)),
    )
    unstated = UNSTATED.get(raw["id"], ({}, ""))[0]
    return Row(
        raw["id"],
        model_of(raw["arch"]),
        replace(settings, **unstated),
        Version((int(build[1]),)) if build else None,
        raw["reported"],
    )


LLAMA_CPP = [row_of(raw, "n_seq_max", "n_ctx") for raw in documents()["llamacpp"]]
OLLAMA = [row_of(raw, "parallel", "ctx_size") for raw in documents()["ollama"] if "kv" in raw["reported"]]


def predicted(row: Row) -> dict[str, float]:
    """The figures that a llama.cpp row may print, ours; MiB, cells, layers."""
    model, settings = row.model, row.settings
    layers = model.attention_layers
    sizes = layer_cache_bytes(model, settings, row.build)
    windowed = [size for size, layer in zip(sizes, layers, strict=True) if layer.window_tokens is not None]
    keys = sum(
        streams(settings) * layer_cells(layer, settings) * in_type(layer.kv_heads * layer.key_length, settings)
        for layer in layers
    )
    values = keys * (1 - ROTARY_LENGTH / layers[0].key_length) if row.id in VALUES_TWICE else sum(sizes) - keys
    row_elements = STATE_ELEMENT_BYTES * state_rows(model, settings)
    convolutions = sum(layer.convolution_elements for layer in model.state_layers)
    states = total_state_bytes(model, settings)
    found = {
        "kv_mib": keys + values,
        "k_mib": keys,
        "v_mib": values,
        "ckv_mib": keys,
        "kvt_mib": values,
        "kv_full_mib": sum(sizes) - sum(windowed),
        "kv_swa_mib": sum(windowed),
        "rs_mib": states,
        "rs_r_mib": row_elements * convolutions,
        "rs_s_mib": states - row_elements * convolutions,
        "context_mib": keys + values + states,
    }
    cells = {layer.window_tokens is not None: layer_cells(layer, settings) for layer in layers}
    counts = {"layers": float(len(layers)), "cells": cells.get(False, 0), "swa_cells": cells.get(True, 0)}
    return {name: size / MIB for name, size in found.items()} | counts


def in_type(elements: int, settings: GgmlSettings) -> float:
    size, block = CACHE_TYPE_BLOCKS[settings.cache_type_k]
    return elements * size / block


def compared(row: Row) -> dict[str, tuple[float, float]]:
    """Printed and predicted figures of a row by name; parts on several devices and whole MiB are sums."""
    ours = predicted(row)
    return {name: (float(row.reported[name]), ours[name]) for name in ours if name in row.reported}


@pytest.mark.parametrize("row", LLAMA_CPP, ids=lambda row: row.id)
def test_llama_cpp(row: Row) -> None:
    """Every figure within 1 %, and half of what was rounded away."""
    figures = compared(row)
    assert figures
    for name, (printed, ours) in figures.items():
        rounded = 0.5 if printed == int(printed) and name.endswith("_mib") else 0.006
        assert ours == pytest.approx(printed, rel=TOLERANCE, abs=rounded), name


@pytest.mark.parametrize("row", [row for row in OLLAMA if row.id not in OWN_RULES], ids=lambda row: row.id)
def test_ollama(row: Row) -> None:
    """Ollama prints one decimal, some of the time."""
    number, unit = str(row.reported["kv"]).split()
    rounded = 0.5 * 10 ** -len(number.partition(".")[2]) * UNITS[unit]
    ours = total_cache_bytes(row.model, row.settings, row.build)
    assert ours == pytest.approx(float(number) * UNITS[unit], rel=TOLERANCE, abs=rounded)


@pytest.mark.parametrize("row", [row for row in OLLAMA if row.id in OWN_RULES], ids=lambda row: row.id)
def test_rows_with_rules_of_their_own_do_differ(row: Row) -> None:
    number, unit = str(row.reported["kv"]).split()
    ours = total_cache_bytes(row.model, row.settings, row.build)
    assert abs(ours / (float(number) * UNITS[unit]) - 1) > TOLERANCE


def test_values_that_are_kept_twice_are_covered_by_the_rule_of_older_builds() -> None:
    for row in (row for row in LLAMA_CPP if row.id in VALUES_TWICE):
        assert total_cache_bytes(row.model, row.settings, Version((7000,))) >= row.reported["kv_mib"] * MIB


def test_almost_every_row_needs_no_explanation() -> None:
    explained = len(UNSTATED) + len(VALUES_TWICE) + len(OWN_RULES)
    assert explained == 5
    assert len(LLAMA_CPP) + len(OLLAMA) == 61
