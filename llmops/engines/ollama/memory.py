"""What a shape takes when Ollama serves it: llama-server from 0.30 on, runners and estimates of its own before."""

from __future__ import annotations

from dataclasses import replace

from llmops.core.hardware import Hardware
from llmops.core.memory.budget import MemoryBudget
from llmops.core.memory.ggml import budgets, card_free_bytes, cards_used
from llmops.core.memory.ggml_settings import GgmlSettings
from llmops.core.memory.ggml_weights import Placement
from llmops.core.memory.ollama_placement import one_card_since_llama_server, place
from llmops.core.memory.ollama_runner import as_it_runs, estimated_graph_bytes, reserve_bytes
from llmops.core.model import ModelSpec
from llmops.core.plan import MemoryModel, Shape
from llmops.core.version import Version
from llmops.engines.ggml import ggml_settings
from llmops.engines.ollama.facts import (
    ESTIMATES_OWN_ENGINE,
    FLASH_ATTENTION_FAMILIES,
    LAYERS_BY_TURNS,
    OWN_ENGINE_FAMILIES,
    OWN_PROCESSES,
    RUNS_LLAMA_SERVER,
    WRAPPED_BUILD,
)
from llmops.engines.ollama.shape import shaped

# What llama.cpp's runner before 0.30 was made of, at its most wasteful: logits of whole batches, values of compressed
# caches kept twice. Its own engine computes logits of the last tokens only.
_RUNNER_BUILD = Version((7_400,))
_EXACT = frozenset({"f32", "f16", "bf16"})
# Published graphs of its own engine lay up to 23 % above those of llama.cpp for the same batch (gpt-oss, 0.11.10).
_OWN_ENGINE_HIGH = 1.25
_OWN_ENGINE = "Ollama's own engine: published figures lay up to 23 % above llama.cpp's graph"
_ESTIMATED = "Ollama's own estimate is its high end: it decides where layers go"


def memory_model(hardware: Hardware, model: ModelSpec, version: Version | None) -> MemoryModel:
    """A function from a shape to its budgets on this machine; the wrapped llama-server is the one of that version."""

    def memory(shape: Shape) -> tuple[MemoryBudget, ...]:
        settings = ggml_settings(shaped(shape, model, version), hardware.cpu.flags)
        rules = _wrapped if RUNS_LLAMA_SERVER.at(version) else _before
        host, *cards = rules(hardware, model, settings, version)
        return (_with_own_processes(host, version), *cards)

    return memory


def _wrapped(
    hardware: Hardware, model: ModelSpec, settings: GgmlSettings, version: Version | None
) -> tuple[MemoryBudget, ...]:
    """One card where Ollama predicts that it is enough (--split-mode none), else llama-server's own division."""
    free = tuple(card_free_bytes(gpu) for gpu in cards_used(hardware, settings))
    alone = one_card_since_llama_server(model, settings, free) if len(free) > 1 else None
    build = WRAPPED_BUILD.at(version)
    if alone is None:
        return budgets(hardware, model, settings, build)
    placement = Placement((alone,) * model.layers, alone)
    return _only_used(budgets(hardware, model, settings, build, placement), hardware, placement)


def _before(
    hardware: Hardware, model: ModelSpec, settings: GgmlSettings, version: Version | None
) -> tuple[MemoryBudget, ...]:
    """Its estimate places the model; the budget covers both the estimate and what its runners allocate."""
    own_engine = model.architecture in OWN_ENGINE_FAMILIES.at(version)
    settings = replace(settings, flash_attention=_has_flash_attention(model, settings, version))
    free = tuple(card_free_bytes(gpu) for gpu in cards_used(hardware, settings))
    placement = place(model, settings, free, by_turns=LAYERS_BY_TURNS.at(version)) if free else None
    build = None if own_engine else _RUNNER_BUILD
    runs, as_run = as_it_runs(model, settings, own_engine=own_engine)
    found = budgets(hardware, runs, as_run, build, placement)
    if own_engine:
        found = tuple(_with_compute(row, int(row.compute_bytes * _OWN_ENGINE_HIGH), _OWN_ENGINE) for row in found)
    if own_engine and not ESTIMATES_OWN_ENGINE.at(version):
        return _only_used(found, hardware, placement)
    whole, part = estimated_graph_bytes(model, settings)
    several = placement is not None and len({*placement.layers, placement.output}) > 1
    reserve = reserve_bytes(model, settings)
    estimated = tuple(_covering(row, part if several else whole, reserve) for row in found)
    return _only_used(estimated, hardware, placement)


def _has_flash_attention(model: ModelSpec, settings: GgmlSettings, version: Version | None) -> bool:
    """Off by itself for most families; on with a cache of fewer bits, for which llmops asks for it."""
    if not settings.flash_attention:
        return False
    return settings.cache_type_v not in _EXACT or model.architecture in FLASH_ATTENTION_FAMILIES.at(version)


def _covering(budget: MemoryBudget, graph_bytes: int, reserve: int) -> MemoryBudget:
    """A card's budget with the estimate where that is larger than the graph, and what Ollama leaves free of it."""
    if budget.device == "host":
        return budget
    covering = _with_compute(budget, graph_bytes, _ESTIMATED)
    return replace(covering, reserve_bytes=max(budget.reserve_bytes, reserve))


def _with_compute(budget: MemoryBudget, high_bytes: int, reason: str) -> MemoryBudget:
    """A budget whose graph may be as large as that, where it is larger than it was."""
    if high_bytes <= budget.compute_bytes:
        return budget
    ranges = tuple(
        (part, low, high_bytes, reason) if part == "compute_bytes" else (part, low, high, why)
        for part, low, high, why in budget.ranges
    )
    return replace(budget, compute_bytes=high_bytes, ranges=ranges)


def _only_used(
    rows: tuple[MemoryBudget, ...], hardware: Hardware, placement: Placement | None
) -> tuple[MemoryBudget, ...]:
    """Cards that get no layer have nothing on them: Ollama hides them from the runner."""
    if placement is None:
        return rows
    used = {f"gpu{hardware.gpus[card].index}" for card in {*placement.layers, placement.output} if card >= 0}
    return tuple(row if row.device in used or row.device == "host" else _empty(row) for row in rows)


def _empty(row: MemoryBudget) -> MemoryBudget:
    return MemoryBudget(row.device, row.total_bytes, row.available_bytes)


def _with_own_processes(host: MemoryBudget, version: Version | None) -> MemoryBudget:
    """The host's budget with the server itself, and what it has of its own beside the engine."""
    low, high = OWN_PROCESSES.at(version)
    ranges = tuple(
        (part, start + low, end + high, f"{why}; and Ollama's own processes") if part == "runtime_bytes" else row
        for row in host.ranges
        for part, start, end, why in [row]
    )
    return replace(host, runtime_bytes=host.runtime_bytes + high, ranges=ranges)
