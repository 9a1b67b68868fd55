"""What is in force stays unless it breaks a limit or something else is asked for."""

from __future__ import annotations

from dataclasses import replace

from llmops.actions.keep import keep_applied, keep_served
from llmops.core.plan import Fixed, MeasuredRates, Plan
from llmops.core.problem import Problem
from llmops.core.sizing import size
from llmops.core.throughput import predict_rates, rates_from_measured
from llmops.core.workload import DEFAULTS, WorkloadKind
from llmops.engines.base import Served
from tests.unit.core.example_models import GIB, cpu_host, eight_billion_16_bit, one_card, problem

CHAT = replace(DEFAULTS[WorkloadKind.CHAT], generation_seconds=12.0)


def machine(users: int = 5) -> Problem:
    return problem(one_card(80 * GIB), replace(CHAT, users=users))


def applied() -> Plan:
    return size(machine())


def test_the_same_request_keeps_every_number() -> None:
    kept = keep_applied(applied(), Fixed(), machine())
    assert kept is not None
    assert kept.plan.shape == applied().shape
    assert not kept.is_users_own
    assert kept.plan.warnings == ()


def test_a_busy_minute_changes_nothing() -> None:
    busy = machine()
    memory = replace(busy.hardware.memory, available_bytes=40 * GIB)
    kept = keep_applied(applied(), Fixed(), replace(busy, hardware=replace(busy.hardware, memory=memory)))
    assert kept is not None
    assert kept.plan.shape == applied().shape


def test_other_users_are_another_request() -> None:
    assert keep_applied(applied(), Fixed(), machine(users=20)) is None


def test_a_value_fixed_otherwise_is_another_request() -> None:
    assert keep_applied(applied(), Fixed(slots=applied().slots + 1), machine()) is None
    assert keep_applied(applied(), Fixed(slots=applied().slots), machine()) is not None
    assert keep_applied(applied(), Fixed(kv_unified=True), machine()) is None
    assert keep_applied(replace(applied(), kv_unified=True), Fixed(kv_unified=False), machine()) is None
    assert keep_applied(applied(), Fixed(repack=False), machine()) is None
    assert keep_applied(applied(), Fixed(repack=True), machine()) is not None


def test_memory_that_no_longer_suffices_is_a_reason_to_change() -> None:
    shrunk = problem(one_card(17_000_000_000), CHAT)
    assert keep_applied(applied(), Fixed(), shrunk) is None


def test_slower_than_predicted_is_said_but_changes_nothing() -> None:
    host = cpu_host(64 * GIB)
    load = DEFAULTS[WorkloadKind.CHAT]
    first = size(problem(host, load, measured=MeasuredRates(((1, 60.0), (2, 55.0)), 2_000.0)))
    slower = problem(host, load)
    measured = rates_from_measured(
        MeasuredRates(((1, 12.0), (2, 10.0)), 300.0),
        predict_rates(host, eight_billion_16_bit(), load, on_gpu=False),
    )
    kept = keep_applied(first, Fixed(), replace(slower, rates=measured))
    assert kept is not None
    assert kept.plan.slots == first.slots
    assert kept.plan.wait_probability > first.wait_probability
    assert any("--replan" in line for line in kept.plan.warnings)


def users_own(**changes: object) -> Served:
    values = Fixed(slots=8, context_tokens=8_192, batch_tokens=2_048, ubatch_tokens=512, prompt_cache_bytes=0)
    return Served(replace(values, **changes), context_was_chosen=True)  # type: ignore[arg-type]


def test_a_users_own_good_configuration_is_left_alone() -> None:
    kept = keep_served(users_own(), Fixed(), machine())
    assert kept is not None
    assert kept.is_users_own
    assert kept.plan.slots == 8


def test_one_slot_for_five_users_is_not_good() -> None:
    assert keep_served(users_own(slots=1), Fixed(), machine()) is None


def test_a_shared_pool_is_not_good() -> None:
    assert keep_served(users_own(kv_unified=True), Fixed(), machine()) is None


def test_less_context_than_a_request_needs_is_not_good() -> None:
    assert keep_served(users_own(context_tokens=1_024), Fixed(), machine()) is None
