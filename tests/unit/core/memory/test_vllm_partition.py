"""Layers shared out among unequal cards: all of them once, and the fewest blocks as many as can be."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llmops.core.hardware import Hardware
from llmops.core.memory.vllm_budget import budgets_of_cards
from llmops.core.memory.vllm_partition import best_partition
from llmops.core.memory.vllm_settings import VllmSettings
from llmops.core.model import ModelSpec, TensorGroup
from llmops.core.units import GIB
from llmops.core.version import Version
from tests.unit.core.memory.vllm_models import card, full, machine, model

LAYERS = 12
SERVED = model(
    full(LAYERS, heads=8, length=128),
    weights_bytes=13 * 10**9,
    tensors=(
        TensorGroup("repeating", "BF16", 1, 0, 12 * 10**9, 12 * 10**9),
        TensorGroup("input", "BF16", 1, 0, 10**9, 10**9),
    ),
)
BASE = VllmSettings(version=Version((0, 33, 0)), max_model_len=2_048, max_num_seqs=4)


def of_sizes(*sizes: int) -> Hardware:
    return machine(*(replace(card(gib * GIB), index=index) for index, gib in enumerate(sizes)))


def tokens(hardware: Hardware, counts: tuple[int, ...], served: ModelSpec = SERVED) -> int:
    asked = replace(BASE, pipeline_parallel=len(counts), layer_partition=counts)
    return min(row.cache_tokens or 0 for row in budgets_of_cards(hardware, served, asked))


@pytest.mark.parametrize("sizes", [(24, 12), (12, 24), (16, 16, 40), (40, 16, 24), (20, 20, 20, 60)])
def test_no_other_partition_holds_more(sizes: tuple[int, ...]) -> None:
    hardware = of_sizes(*sizes)
    found = best_partition(hardware, SERVED, replace(BASE, pipeline_parallel=len(sizes)))
    assert sum(found) == LAYERS
    every = [one for one in product(range(1, LAYERS), repeat=len(sizes)) if sum(one) == LAYERS]
    assert tokens(hardware, found) == max(tokens(hardware, one) for one in every)


def test_the_card_with_the_embeddings_gets_no_more_layers_than_its_equal() -> None:
    first, second = best_partition(of_sizes(12, 12), SERVED, replace(BASE, pipeline_parallel=2)) or (6, 6)
    assert first <= second


@settings(max_examples=25, deadline=None)
@given(sizes=st.lists(st.integers(8, 80), min_size=2, max_size=5))
def test_it_is_never_worse_than_the_engines_own(sizes: list[int]) -> None:
    hardware, asked = of_sizes(*sizes), replace(BASE, pipeline_parallel=len(sizes))
    found = best_partition(hardware, SERVED, asked)
    if found:
        assert sum(found) == LAYERS
        assert min(found) >= 1
        even = min(row.cache_tokens or 0 for row in budgets_of_cards(hardware, SERVED, asked))
        assert tokens(hardware, found) >= even
