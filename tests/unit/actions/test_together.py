"""Several models of one engine: the worst of them, and how many are in memory at once."""

from __future__ import annotations

from dataclasses import replace

import pytest

from llmops.actions.keep import keep_applied
from llmops.actions.together import load_more, memory_of, with_reason
from llmops.core.documents import plan_document, plan_from_document
from llmops.core.hardware import Hardware
from llmops.core.memory.budget import PARTS
from llmops.core.model import ModelSpec
from llmops.core.plan import Fixed, Plan, Policy
from llmops.core.problem import Problem
from llmops.core.sizing import size
from llmops.core.throughput import predict_rates
from llmops.engines import engine_named
from llmops.engines.base import Models
from tests.unit.core.example_models import CHAT, GIB, cpu_host, eight_billion_16_bit

ENGINE = engine_named("ollama")
LARGE = eight_billion_16_bit()
SMALL = replace(
    LARGE,
    reference="small",
    tensors=tuple(replace(one, stored_bytes=one.stored_bytes // 4) for one in LARGE.tensors),
    weights_bytes=LARGE.weights_bytes // 4,
    active_weights_bytes=LARGE.active_weights_bytes // 4,
)


def problem(hardware: Hardware, models: Models) -> Problem:
    model = models.chat[0]
    return Problem(
        engine="ollama",
        engine_version=None,
        hardware=hardware,
        model=model,
        workload=CHAT,
        policy=Policy(),
        fixed=Fixed(slots=2, context_tokens=8192),
        rates=predict_rates(hardware, model, CHAT, on_gpu=False),
        memory=memory_of(ENGINE, hardware, models, None, 1),
        on_gpu=False,
        shaped=lambda shape: ENGINE.shaped(shape, model, None),
    )


def planned(memory: int, *chat: ModelSpec, companions: tuple[tuple[str, int], ...] = ()) -> Plan:
    hardware, models = cpu_host(memory, cores=16), Models(chat, companions)
    wanted = problem(hardware, models)
    return load_more(wanted, size(wanted), models, lambda count: memory_of(ENGINE, hardware, models, None, count))


@pytest.mark.parametrize(("gibibytes", "count"), [(24, 1), (32, 2), (96, 3)])
def test_as_many_as_fit(gibibytes: int, count: int) -> None:
    plan = planned(gibibytes * GIB, LARGE, SMALL, SMALL, SMALL)
    assert plan.loaded_models == count
    assert all(budget.free_bytes >= 0 for budget in plan.budgets)
    assert any(reason.quantity == "loaded_models" and reason.value == str(count) for reason in plan.reasons)


def test_a_plan_that_is_kept_says_it_too() -> None:
    hardware, models = cpu_host(96 * GIB, cores=16), Models((LARGE, SMALL))
    plan = planned(96 * GIB, LARGE, SMALL)
    wanted = problem(hardware, models)
    together = replace(wanted, memory=memory_of(ENGINE, hardware, models, None, 2), loaded_models=2)
    kept = keep_applied(plan, wanted.fixed, together)
    assert kept is not None
    said = with_reason(kept.plan, models)
    assert [reason.value for reason in said.reasons if reason.quantity == "loaded_models"] == ["2"]


def test_a_model_for_embeddings_counts() -> None:
    assert planned(64 * GIB, LARGE, companions=(("embed", GIB),)).loaded_models == 2
    alone = planned(64 * GIB, LARGE)
    assert alone.loaded_models == 1
    assert not [reason for reason in alone.reasons if reason.quantity == "loaded_models"]


def test_the_largest_count_whatever_their_order() -> None:
    hardware = cpu_host(64 * GIB)
    shape = planned(64 * GIB, LARGE).shape
    (worst,) = memory_of(ENGINE, hardware, Models((SMALL, LARGE)), None, 1)(shape)
    (large,) = ENGINE.memory_model(hardware, LARGE, None)(shape)
    (both,) = memory_of(ENGINE, hardware, Models((SMALL, LARGE)), None, 2)(shape)
    (small,) = ENGINE.memory_model(hardware, SMALL, None)(shape)
    assert worst.used_bytes == large.used_bytes
    assert both.used_bytes == large.used_bytes + small.used_bytes - small.reserve_bytes
    assert both.free_bytes == both.available_bytes - sum(getattr(both, part) for part in PARTS)


def test_the_number_survives_saving() -> None:
    plan = planned(96 * GIB, LARGE, SMALL)
    assert plan_from_document(plan_document(plan), "here").loaded_models == plan.loaded_models == 2
    assert "loaded_models" not in plan_document(planned(96 * GIB, LARGE))["plan"]
