"""The pool of a vLLM that runs narrows that of plans for the same server with other limits."""

from __future__ import annotations

from dataclasses import replace

import pytest

from llmops.core.hardware import Hardware
from llmops.core.memory.budget import MemoryBudget
from llmops.core.memory.vllm_budget import SEEN_REASON, card_facts
from llmops.core.memory.vllm_cache import cache_layout
from llmops.core.plan import Fixed, Shape
from llmops.core.sizing import size
from llmops.core.units import MIB
from llmops.core.version import Version
from llmops.engines.found import Served, ServedPool
from llmops.engines.vllm.memory import vllm_settings
from llmops.engines.vllm.observe import observe
from tests.unit.core.example_models import GIB
from tests.unit.engines.test_vllm import cards, model, problem
from tests.unit.engines.vllm_host import MODEL, VLLM, VllmHost, installed

VERSION = "0.33.0"
KNOWN = Version.parse(VERSION)
NOW = Fixed(
    slots=16, context_tokens=8_192, batch_tokens=2_048, gpu_memory_utilization=0.92, tensor_parallel=1, data_parallel=1
)
NOW_LIMITS = {"slots": 16, "context_tokens_per_slot": 8_192, "batch_tokens": 2_048}
SMALLER = {"slots": 4, "context_tokens_per_slot": 8_192, "batch_tokens": 1_024}


def shape_of(hardware: Hardware, **changes: object) -> Shape:
    return replace(size(problem(hardware)).shape, **{**SMALLER, **changes})  # type: ignore[arg-type]


def row(hardware: Hardware, shape: Shape, served: Served | None = None) -> MemoryBudget:
    return VLLM.memory_model(hardware, model(), KNOWN, None, served)(shape)[1]


def running(hardware: Hardware, shape: Shape, share: float = 0.5, **changes: object) -> Served:
    """A server whose pool lies at this share of the predicted range, in whole blocks of 16 tokens."""
    low, high = next((low, high) for part, low, high, _ in row(hardware, shape).ranges if part == "cache_bytes")
    layout = cache_layout(model(), vllm_settings(shape, hardware, model(), KNOWN), card_facts(hardware.gpus[0]))
    blocks = int(low + share * (high - low)) // layout.stage_block_bytes[0]
    return Served(replace(NOW, **changes), context_was_chosen=True, pool=ServedPool(blocks, blocks * 16))  # type: ignore[arg-type]


def pool_range(budget: MemoryBudget) -> tuple[int, int, str]:
    return next((low, high, why) for part, low, high, why in budget.ranges if part == "cache_bytes")


@pytest.mark.parametrize("share", [0.2, 0.5, 0.9, 1.0])
def test_what_the_server_made_raises_the_low_end_and_bounds_the_rest(share: float) -> None:
    hardware = cards(24)
    shape = shape_of(hardware, **NOW_LIMITS)
    served = running(hardware, shape, share)
    before, after = row(hardware, shape), row(hardware, shape, served)
    low, high, why = pool_range(after)
    made = served.pool.blocks * 16 * 147_456 if served.pool is not None else 0
    # Another start may take more for its step, and a little for the graphs.
    step = next(high - low for part, low, high, _ in before.ranges if part == "compute_bytes")
    assert low == after.cache_bytes == max(made - step - 160 * MIB, before.cache_bytes)
    assert high >= made - 16 * 147_456
    assert (why == SEEN_REASON) is (low > before.cache_bytes)
    parts = ("weights_bytes", "compute_bytes", "runtime_bytes")
    assert all(getattr(after, part) <= getattr(before, part) for part in parts)
    assert after.free_bytes >= before.free_bytes


def test_a_pool_below_the_range_is_believed_too() -> None:
    hardware = cards(24)
    shape = shape_of(hardware)
    served = running(hardware, shape, -0.5)
    before, after = row(hardware, shape), row(hardware, shape, served)
    assert served.pool is not None and before.cache_tokens is not None and after.cache_tokens is not None
    assert after.cache_tokens < served.pool.tokens < before.cache_tokens
    assert pool_range(after)[2] == SEEN_REASON


@pytest.mark.parametrize(
    "more", [{"slots": 64}, {"context_tokens_per_slot": 16_384}, {"batch_tokens": 8_192}, {"slots": 2}]
)
def test_larger_limits_take_from_the_pool_what_they_may_take_at_most(more: dict[str, int]) -> None:
    hardware = cards(24)
    now, shape = shape_of(hardware, **NOW_LIMITS), shape_of(hardware, **{**NOW_LIMITS, **more})
    served = running(hardware, now, 0.9)
    before, same, after = row(hardware, shape), row(hardware, now, served), row(hardware, shape, served)
    assert before.cache_bytes <= after.cache_bytes
    assert after.cache_bytes <= same.cache_bytes or more == {"slots": 2}


@pytest.mark.parametrize(
    "changes",
    [
        {"gpu_memory_utilization": 0.8},
        {"enforce_eager": True},
        {"prefix_caching": False},
        {"kv_memory_bytes": 4 * GIB},
        {"cache_type_k": "fp8", "cache_type_v": "fp8"},
    ],
)
def test_another_server_keeps_its_range(changes: dict[str, object]) -> None:
    hardware = cards(24)
    shape = shape_of(hardware, **changes)
    assert row(hardware, shape, running(hardware, shape_of(hardware))) == row(hardware, shape)


def test_cards_that_share_layers_are_another_server() -> None:
    hardware = cards(24, 24)
    shape = shape_of(hardware, tensor_parallel=2)
    one = running(cards(24), shape_of(cards(24)))
    assert row(hardware, shape, one) == row(hardware, shape)
    two = replace(one, values=replace(one.values, tensor_parallel=2))
    assert pool_range(row(hardware, shape, two))[2] == SEEN_REASON


def test_a_pool_that_cannot_be_or_whose_tokens_are_not_its_blocks_is_not_believed() -> None:
    hardware = cards(24)
    shape = shape_of(hardware)
    served = running(hardware, shape)
    assert served.pool is not None
    for pool in (ServedPool(served.pool.blocks, 5), ServedPool(100_000, 1_600_000)):
        assert row(hardware, shape, replace(served, pool=pool)) == row(hardware, shape)


def test_a_plan_gets_more_from_what_was_seen() -> None:
    hardware = cards(24)
    shape = shape_of(hardware, batch_tokens=2_048)
    fixed = Fixed(cache_type_k=shape.cache_type_k, cache_type_v=shape.cache_type_v)
    asked = problem(hardware, fixed, workload=replace(problem(hardware).workload, users=200))
    seen = replace(asked, memory=VLLM.memory_model(hardware, model(), KNOWN, None, running(hardware, shape, 0.9)))
    assert size(seen).slots > size(asked).slots
    assert any(SEEN_REASON in reason.source for reason in size(seen).reasons)


@pytest.mark.parametrize(("version", "tokens", "pool"), [
    ("0.33.0", 38_160, ServedPool(2_385, 38_160)), ("0.33.0", None, None), ("0.32.0", 38_160, None)
])  # fmt: skip
def test_the_pool_is_read_from_the_metrics_of_the_installed_version(
    version: str, tokens: int | None, pool: ServedPool | None
) -> None:
    host = VllmHost()
    host.serves(MODEL, "--max-num-seqs", "4", tokens=tokens)
    installation = installed(version, managed_by="process", pid=7)
    served = VLLM.served(observe(host, installation), installation)
    assert served is not None
    assert served.pool == pool
