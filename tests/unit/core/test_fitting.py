"""The levers: their order, their limits, and what is spent of the rest."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmops.core.fitting import fit, longest_fitting_context, short_by_bytes, spend_rest
from llmops.core.memory.budget import MemoryBudget
from llmops.core.plan import Shape
from tests.unit.core.example_models import plain_memory

TYPES = ("f16", "q8_0")


def test_what_fits_is_not_touched() -> None:
    start = Shape(4, 8192)
    fitted = fit(start, 4096, TYPES, plain_memory(10**9, 10**8, 1000), 0.95)
    assert fitted is not None
    assert fitted.shape == start
    assert fitted.levers == ()


def test_context_gives_way_first_but_only_as_far_as_needed() -> None:
    fitted = fit(Shape(4, 8192), 4096, TYPES, plain_memory(25_000_000, 0, 1000), 1.0)
    assert fitted is not None
    assert fitted.levers == ("shorter context",)
    assert fitted.shape.context_tokens_per_slot == 6144  # 25e6 / 1000 / 4 = 6250, in steps of 256
    assert fitted.shape.slots == 4
    assert fitted.shape.cache_type_k == "f16"


def test_then_the_8_bit_cache_with_as_much_context_as_it_holds() -> None:
    fitted = fit(Shape(4, 8192), 8192, TYPES, plain_memory(20_000_000, 0, 1000), 1.0)
    assert fitted is not None
    assert fitted.levers == ("q8_0 cache",)
    assert fitted.shape.cache_type_v == "q8_0"


def test_then_fewer_slots_and_the_floor_is_never_crossed() -> None:
    fitted = fit(Shape(8, 16384), 8192, TYPES, plain_memory(20_000_000, 0, 1000), 1.0)
    assert fitted is not None
    assert fitted.levers == ("shorter context", "q8_0 cache", "fewer slots")
    assert fitted.shape.slots == 4
    assert fitted.shape.context_tokens_per_slot == 8192


def test_a_forbidden_cache_type_is_not_used() -> None:
    fitted = fit(Shape(4, 8192), 8192, ("f16",), plain_memory(20_000_000, 0, 1000), 1.0)
    assert fitted is not None
    assert fitted.shape.slots == 2
    assert fitted.shape.cache_type_k == "f16"


def test_nothing_fits() -> None:
    assert fit(Shape(4, 8192), 8192, TYPES, plain_memory(10**6, 10**6, 1000), 0.95) is None


def test_the_margin_is_kept_for_a_full_cache() -> None:
    budgets = plain_memory(10_000, 0, 1)(Shape(1, 9_600))
    assert short_by_bytes(budgets, 1.0) == -400
    assert short_by_bytes(budgets, 0.95) > 0


def test_the_longest_context_is_the_hint_for_what_does_not_fit() -> None:
    memory = plain_memory(5_000_000, 0, 1000)
    longest = longest_fitting_context(Shape(1, 8192), 40_960, memory, 1.0)
    assert longest == 4864
    assert short_by_bytes(memory(Shape(1, longest)), 1.0) <= 0
    assert short_by_bytes(memory(Shape(1, longest + 256)), 1.0) > 0


def test_the_prompt_cache_takes_at_most_half_of_the_rest_and_one_conversation_per_user() -> None:
    memory = plain_memory(8 * 1024**3, 0, 1000)
    rich = spend_rest(Shape(1, 8192), memory, 0.95, conversations_bytes=300 * 1024**2)
    assert rich.prompt_cache_bytes == 512 * 1024**2
    poor = spend_rest(Shape(1, 8192), plain_memory(2 * 10**8, 0, 1000), 0.95, conversations_bytes=10**9)
    assert poor.prompt_cache_bytes == 0


def test_checkpoints_cost_memory_where_the_model_makes_them() -> None:
    memory = plain_memory(10**9, 0, 1000, per_slot_bytes=50_000_000)
    spent = spend_rest(Shape(2, 8192), memory, 0.95, conversations_bytes=10**9)
    assert 0 < spent.context_checkpoints <= 3
    assert short_by_bytes(memory(spent), 0.95) <= 0


@given(
    available=st.integers(1_000_000, 10**9),
    more=st.integers(0, 10**9),
    slots=st.integers(1, 16),
    weights=st.integers(0, 10**8),
)
def test_more_memory_never_gives_a_smaller_plan(available: int, more: int, slots: int, weights: int) -> None:
    start = Shape(slots, 8192)
    small = fit(start, 4096, TYPES, plain_memory(available, weights, 1000), 0.95)
    large = fit(start, 4096, TYPES, plain_memory(available + more, weights, 1000), 0.95)
    if small is None:
        return
    assert large is not None
    assert large.shape.slots >= small.shape.slots
    if large.shape.slots == small.shape.slots and large.shape.cache_type_k == small.shape.cache_type_k:
        assert large.shape.context_tokens_per_slot >= small.shape.context_tokens_per_slot


@pytest.mark.parametrize("safety", [0.5, 0.9, 0.95, 1.0])
def test_every_answer_fits_with_its_margin(safety: float) -> None:
    for available in range(5_000_000, 120_000_000, 7_000_000):
        memory = plain_memory(available, 1_000_000, 1000)
        fitted = fit(Shape(6, 16384), 4096, TYPES, memory, safety)
        assert fitted is None or short_by_bytes(memory(fitted.shape), safety) <= 0


def paged(*, needed: int, request: int, pool: int = 100, free: int = 10) -> MemoryBudget:
    """A card whose engine has taken a pool of pages; `free` is what it leaves."""
    return MemoryBudget(
        "gpu0", 200, pool + free, cache_bytes=pool, cache_tokens=pool, usable_cache_tokens=pool, max_concurrency=1.0,
        needed_cache_bytes=needed, request_cache_bytes=request,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("budget", "safety_factor", "missing"),
    [
        (paged(needed=100, request=100), 0.95, 0),  # one request alone needs no margin
        (paged(needed=100, request=50), 0.95, 3),  # of two the second needs it
        (paged(needed=100, request=50), 1.0, 0),
        (paged(needed=120, request=60), 1.0, 20),  # what the engine leaves free is not in its pool
        (paged(needed=50, request=50, free=-7), 1.0, 7),  # the pool fits and the card does not hold it
        (paged(needed=120, request=60, free=-7), 1.0, 27),
    ],
)
def test_full_slots_must_fit_the_pool_and_the_pool_the_card(
    budget: MemoryBudget, safety_factor: float, missing: int
) -> None:
    assert short_by_bytes((budget,), safety_factor) == missing
