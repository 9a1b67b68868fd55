"""What Ollama up to 0.24 logged of its own estimates, against the same rules of ours.

The models are read from their config.json; weights are those that a row prints. A row of its own engine from 0.11.11 on
prints what was really allocated.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from llmops.core.memory.ggml_cache import total_cache_bytes
from llmops.core.memory.ggml_settings import GgmlSettings
from llmops.core.memory.ollama_runner import (
    MINIMUM_MEMORY_BYTES,
    as_it_runs,
    estimated_cache_bytes,
    estimated_graph_bytes,
    first_layer_bytes,
)
from llmops.core.model import ModelSpec, TensorGroup
from tests.truth.test_published_ggml_cache import documents, model_of

HERE = Path(__file__).parent
UNITS = {"B": 1, "MiB": 1024**2, "GiB": 1024**3}
# Rows that print what its own engine allocated, not what was estimated.
ALLOCATED = {"o19", "o23", "o24", "o26"}
# Versions that ran llama-server: compared with the rules of llama.cpp elsewhere.
WRAPPED = ("0.3x", "0.2x")
ROWS = [
    row
    for row in documents()["ollama"]
    if "kv" in row["reported"] and not row["version"].startswith(WRAPPED) and "ctx_size" in row["config"]
]
ESTIMATES = [row for row in ROWS if row["id"] not in ALLOCATED]
# What a GGUF file calls an architecture that config.json calls otherwise.
ARCHITECTURES = {"gemma3_text": "gemma3", "gpt_oss": "gptoss", "qwen3_moe": "qwen3moe"}
# Before the versions that llmops knows (0.5.13) logits were no part of the graph.
WITHOUT_LOGITS = {"o02"}
# Total weights that contain the cache and not the output layer, as versions before 0.6 printed them.
OLD = ("0.1", "0.2.", "0.3.", "0.4", "0.5")


def size(text: str) -> tuple[float, float]:
    """Bytes, and half of the last printed digit."""
    number, unit = text.split()
    decimals = len(number.partition(".")[2])
    return float(number) * UNITS[unit], 0.5 * 10**-decimals * UNITS[unit]


def asked(row: Mapping[str, Any]) -> tuple[ModelSpec, GgmlSettings]:
    """Model with the weights that the row prints, and settings of its total context."""
    config, reported = row["config"], row["reported"]
    slots = config.get("parallel", 1)
    settings = GgmlSettings(
        slots,
        config["ctx_size"] // slots,
        batch_tokens=512,
        ubatch_tokens=512,
        flash_attention=bool(config.get("flash_attn", False)),
    )
    model = model_of(row["arch"])
    model = replace(model, architecture=ARCHITECTURES.get(model.architecture, model.architecture))
    if row["arch"] == "mistral-small-24b":
        model = replace(model, architecture="mistral3")  # with an encoder: another family to Ollama
    if "weights_repeating" not in reported:
        return model, settings
    parts = (("repeating", "weights_repeating"), ("output", "weights_nonrepeating"))
    sizes = {role: size(reported[name])[0] for role, name in parts}
    if row["version"].startswith(OLD):
        sizes["repeating"] = size(reported["weights_total"])[0] - size(reported["kv"])[0]
    groups = tuple(TensorGroup(role, "q4_K", 1, 1, round(each), 1) for role, each in sizes.items())
    return replace(model, tensors=groups, tied_output=False, layer_weights=()), settings


@pytest.mark.parametrize("row", ESTIMATES, ids=lambda row: row["id"])
def test_estimated_cache(row: Mapping[str, Any]) -> None:
    printed, rounded = size(row["reported"]["kv"])
    assert estimated_cache_bytes(*asked(row)) == pytest.approx(printed, rel=0.01, abs=rounded)


@pytest.mark.parametrize("row", [row for row in ROWS if row["id"] in ALLOCATED], ids=lambda row: row["id"])
def test_allocated_cache_of_its_own_engine(row: Mapping[str, Any]) -> None:
    printed, rounded = size(row["reported"]["kv"])
    runs = as_it_runs(*asked(row), own_engine=True)
    assert total_cache_bytes(*runs) == pytest.approx(printed, rel=0.01, abs=rounded)


@pytest.mark.parametrize("row", ESTIMATES, ids=lambda row: row["id"])
def test_what_a_runner_allocates_is_never_under_its_estimate(row: Mapping[str, Any]) -> None:
    model, settings = asked(row)
    for own_engine in (False, True):
        runs = as_it_runs(model, settings, own_engine=own_engine)
        assert total_cache_bytes(*runs) >= estimated_cache_bytes(model, settings)


@pytest.mark.parametrize(
    "row",
    [row for row in ESTIMATES if "graph_full" in row["reported"] and row["id"] not in WITHOUT_LOGITS],
    ids=lambda row: row["id"],
)
def test_estimated_graph(row: Mapping[str, Any]) -> None:
    """Of several cards the graph of a part counts for each; of one card that of the whole model."""
    whole, part = estimated_graph_bytes(*asked(row))
    printed, rounded = size(row["reported"]["graph_full"])
    assert (part if row["n_gpu"] > 1 else whole) == pytest.approx(printed, rel=0.01, abs=rounded)


@pytest.mark.parametrize(
    "row",
    [row for row in ESTIMATES if "weights_repeating" in row["reported"] and row["id"] not in WITHOUT_LOGITS],
    ids=lambda row: row["id"],
)
def test_required_memory(row: Mapping[str, Any]) -> None:
    """All parts within what the row's own digits leave open."""
    model, settings = asked(row)
    reported = row["reported"]
    projector = sum(size(reported[name])[0] for name in ("projector_weights", "projector_graph") if name in reported)
    if row["config"]["layers"].startswith("0/") and row["n_gpu"]:
        projector = size(reported["projector_weights"])[0]  # nothing fits a card: no graph is counted at all
    printed, rounded = size(reported["required_full"])
    parts = sum(group.stored_bytes for group in model.tensors) + estimated_cache_bytes(model, settings) + projector
    assert parts + beside(row, model, settings) == pytest.approx(printed, rel=0.015, abs=2 * rounded)


def beside(row: Mapping[str, Any], model: ModelSpec, settings: GgmlSettings) -> int:
    """Graph, minimum and the buffer of a layer on every device that gets layers."""
    placed, layers = (int(count) for count in row["config"]["layers"].split("/"))
    whole, part = estimated_graph_bytes(model, settings)
    buffer = first_layer_bytes(model, settings)
    if not row["n_gpu"]:
        return whole + buffer
    cards = row["n_gpu"] if placed else 0
    graph = whole if cards == 1 and placed == layers else part
    return cards * (graph + MINIMUM_MEMORY_BYTES + buffer)


MORE = YAML(typ="safe").load(HERE / "figures_ggml_more.yaml")["ollama"]


@pytest.mark.parametrize("row", MORE, ids=lambda row: row["id"])
def test_figures_that_were_collected_later(row: Mapping[str, Any]) -> None:
    """What is estimated, and what its own engine allocates of the cache."""
    model = replace(model_of(row["model"]), architecture=row["architecture"])
    settings = GgmlSettings(
        1, row["context"], batch_tokens=512, ubatch_tokens=512, flash_attention=row["flash"], opens_cards=False
    )
    runs, (whole, part) = as_it_runs(model, settings, own_engine=True), estimated_graph_bytes(model, settings)
    reported, mib = row["reported"], UNITS["MiB"]
    assert total_cache_bytes(*runs) == estimated_cache_bytes(model, settings)
    assert total_cache_bytes(*runs) / mib == pytest.approx(reported["kv_mib"], abs=row["rounded_mib"])
    assert whole / mib == pytest.approx(reported.get("graph_mib", whole / mib), abs=row["rounded_mib"])
    assert part / mib == pytest.approx(reported.get("graph_partial_mib", part / mib), abs=row["rounded_mib"])
