"""How many equal servers the users need: the least number at which waiting is as rare as was asked for."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llmops.core.demand import read_demand, slots_fast_enough, waiting_with
from llmops.core.plan import Fixed, Plan
from llmops.core.problem import Problem
from llmops.core.sizing import size
from llmops.core.workload import DEFAULTS, WorkloadKind
from tests.unit.core.example_models import GIB, cpu_host, one_card, problem

CHAT = DEFAULTS[WorkloadKind.CHAT]


def crowded(users: int = 60) -> Problem:
    return problem(one_card(), replace(CHAT, users=users, generation_seconds=20.0))


def wait_at_one_of(asked: Problem, plan: Plan, servers: int) -> float:
    load = replace(asked.workload, users=-(-asked.workload.users // servers))
    demand = read_demand(load, asked.policy, asked.rates, most_slots=asked.most_slots)
    return waiting_with(demand, load, asked.rates, plan.slots).probability


def test_one_server_that_is_enough_needs_no_others() -> None:
    plan = size(problem(one_card(80 * GIB)))
    assert plan.replicas is None
    assert not any("servers like this one" in line for line in plan.warnings)
    assert all(reason.quantity != "replicas" for reason in plan.reasons)


def test_the_number_keeps_the_wait_and_one_less_breaks_it() -> None:
    asked = crowded()
    plan = size(asked)
    assert plan.binding_constraint == "memory"
    assert plan.replicas is not None
    assert plan.replicas > 1
    assert wait_at_one_of(asked, plan, plan.replicas) <= asked.policy.wait_probability
    assert wait_at_one_of(asked, plan, plan.replicas - 1) > asked.policy.wait_probability
    reason = next(reason for reason in plan.reasons if reason.quantity == "replicas")
    assert reason.value == str(plan.replicas)
    assert dict(reason.inputs)["users of each"] == str(-(-60 // plan.replicas))
    assert any(f"or {plan.replicas} servers like this one" in line for line in plan.warnings)


def test_users_who_never_pause_need_a_slot_each() -> None:
    agents = replace(DEFAULTS[WorkloadKind.AGENT], users=20, turn_seconds=None)
    plan = size(problem(one_card(), agents))
    assert plan.slots < 20
    assert plan.replicas == -(-20 // plan.slots)


def test_slots_that_were_given_are_the_users_choice() -> None:
    plan = size(problem(one_card(80 * GIB), replace(CHAT, users=60, generation_seconds=20.0), fixed=Fixed(slots=1)))
    assert plan.wait_probability > 0.5
    assert plan.replicas is None


@settings(max_examples=30, deadline=None)
@given(users=st.integers(1, 400), seconds=st.floats(1.0, 80.0))
def test_there_is_always_a_number_and_it_is_enough(users: int, seconds: float) -> None:
    asked = problem(one_card(), replace(CHAT, users=users, generation_seconds=seconds))
    plan = size(asked)
    if plan.replicas is None:
        assert plan.wait_probability <= asked.policy.wait_probability or plan.binding_constraint == "users"
    else:
        assert 2 <= plan.replicas <= users
        assert wait_at_one_of(asked, plan, plan.replicas) <= asked.policy.wait_probability


def test_no_number_of_servers_helps_where_one_user_is_served_too_slowly() -> None:
    asked = problem(cpu_host(24 * GIB), replace(CHAT, users=20))
    plan = size(asked)
    assert plan.binding_constraint == "speed"
    assert slots_fast_enough(asked.rates, asked.policy, 1) == 0
    assert plan.replicas is None
    assert not any("servers like this one" in line for line in plan.warnings)


def test_users_who_share_a_server_keep_to_their_turns() -> None:
    asked = problem(one_card(), replace(CHAT, users=300, generation_seconds=None))
    plan = size(asked)
    assert plan.replicas is not None
    load = replace(asked.workload, users=-(-300 // plan.replicas))
    assert not read_demand(load, asked.policy, asked.rates, most_slots=asked.most_slots).saturated
    never = replace(asked, workload=replace(asked.workload, turn_seconds=0.001))
    assert size(never).replicas is None


@pytest.mark.parametrize("users", [2, 3, 100])
def test_more_users_never_need_fewer_servers(users: int) -> None:
    few, many = size(crowded(users)).replicas or 1, size(crowded(2 * users)).replicas or 1
    assert few <= many
