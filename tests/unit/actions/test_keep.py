"""What is in force stays unless it breaks a limit or something else is asked for."""

from __future__ import annotations

from dataclasses import replace

from llmops.actions.keep import chosen_context_tokens, keep_applied, keep_served
from llmops.core.plan import Fixed, MeasuredRates, Plan
from llmops.core.problem import Problem
from llmops.core.sizing import size
from llmops.core.throughput import predict_rates, rates_from_measured
from llmops.core.workload import DEFAULTS, WorkloadKind
from llmops.engines.found import Served
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


def test_a_limit_that_a_new_plan_breaks_too_is_no_reason_for_one() -> None:
    """Slots that are given stay, whatever else a new plan would change."""
    load = replace(DEFAULTS[WorkloadKind.CHAT], users=20)
    given = replace(problem(cpu_host(64 * GIB), load), fixed=Fixed(slots=2))
    first = size(given)
    other = replace(first, batch_tokens=first.batch_tokens * 4, ubatch_tokens=first.ubatch_tokens)
    kept = keep_applied(other, Fixed(slots=2), given)
    assert kept is not None
    assert kept.plan.wait_probability > kept.plan.policy.wait_probability
    assert not any("of requests wait; the limit is" in line for line in kept.plan.warnings)


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


def test_more_threads_than_usable_processors_are_not_good() -> None:
    limited = machine()
    cpu = replace(limited.hardware.cpu, usable_threads=2, quota_cores=2.0)
    limited = replace(limited, hardware=replace(limited.hardware, cpu=cpu))
    assert keep_served(users_own(), Fixed(), limited) is None, "16 threads by default, 2 processors by quota"
    assert keep_served(replace(users_own(), threads=2), Fixed(), limited) is not None
    assert keep_served(replace(users_own(), threads=64), Fixed(), machine()) is None
    assert keep_applied(applied(), Fixed(), limited) is None


def test_layers_left_on_the_processor_are_not_good() -> None:
    layers = machine().model.layers
    assert keep_served(replace(users_own(), gpu_layers=layers // 2), Fixed(), machine()) is None
    assert keep_served(replace(users_own(), gpu_layers=0), Fixed(), machine()) is None
    assert keep_served(replace(users_own(), gpu_layers=99), Fixed(), machine()) is not None


def test_words_that_work_against_every_plan_are_not_good() -> None:
    assert keep_served(replace(users_own(), works_against=("-nocb: prompts wait",)), Fixed(), machine()) is None


def test_slots_that_starve_each_other_are_not_good() -> None:
    slow = problem(cpu_host(64 * GIB, bandwidth=60_000_000_000), replace(CHAT, users=16, generation_seconds=80.0))
    assert keep_served(users_own(slots=16), Fixed(), slow) is None


def test_a_model_file_that_moved_keeps_its_numbers_and_gets_its_new_path() -> None:
    there = machine()
    moved = replace(there.model, reference="/srv/new/model.gguf", source_paths=("/srv/new/model.gguf",))
    kept = keep_applied(applied(), Fixed(), replace(there, model=moved))
    assert kept is not None
    assert kept.plan.shape == applied().shape
    assert kept.plan.model.source_paths == ("/srv/new/model.gguf",)
    other = replace(there.model, quantization="Q8_0", weights_bytes=there.model.weights_bytes // 2)
    assert keep_applied(applied(), Fixed(), replace(there, model=other)) is None


def test_an_upgraded_engine_keeps_its_numbers() -> None:
    kept = keep_applied(applied(), Fixed(), replace(machine(), engine_version="b99999"))
    assert kept is not None
    assert kept.plan.engine_version == "b99999"
    assert replace(kept.plan, engine_version=None, reasons=()) == replace(applied(), reasons=())


def test_what_was_said_of_a_plan_is_said_again() -> None:
    tight = problem(one_card(), replace(CHAT, users=40, generation_seconds=20.0))
    first = size(tight)
    assert first.binding_constraint == "memory"
    assert first.warnings
    kept = keep_applied(first, Fixed(), tight)
    assert kept is not None
    assert any("slots because of memory" in line for line in kept.plan.warnings)
    assert not any("--replan" in line for line in kept.plan.warnings), "a new plan would have the same numbers"


def test_a_driver_that_cannot_be_asked_for_a_moment_is_no_reason_to_leave_the_cards() -> None:
    seen = machine()
    blind = replace(seen.hardware, gpus=(), gpu_outcome="version_mismatch", gpu_detail="driver and library differ")
    without = problem(blind, seen.workload)
    kept = keep_applied(applied(), Fixed(), without)
    assert kept is not None
    assert kept.plan.gpu_layers == applied().gpu_layers
    asked = replace(without, hardware=replace(blind, gpu_detail="given"))
    assert keep_applied(applied(), Fixed(), asked) is None, "--no-gpu asks for another plan"


def test_a_machine_that_the_user_describes_is_planned_for_unless_it_is_this_one() -> None:
    assert keep_applied(applied(), Fixed(), machine(), described=True) is not None
    larger = problem(one_card(160 * GIB), replace(CHAT, users=5))
    assert keep_applied(applied(), Fixed(), larger, described=True) is None
    assert keep_applied(applied(), Fixed(), larger) is not None, "more memory alone breaks no limit"


def test_only_a_context_that_a_person_chose_is_kept_for_a_new_plan() -> None:
    own = replace(users_own(context_tokens=16_384), request_context_tokens=16_384)
    assert chosen_context_tokens(own, None) == 16_384
    assert chosen_context_tokens(replace(own, context_was_chosen=False), None) is None
    assert chosen_context_tokens(None, None) is None
    ours = replace(users_own(), request_context_tokens=applied().context_tokens_per_slot)
    assert chosen_context_tokens(ours, applied()) is None, "llmops computed it from the last load"
    raised = replace(applied(), context_tokens_per_slot=16_384)
    assert chosen_context_tokens(own, raised) == 16_384, "llmops took it over from the person"
    pool = replace(users_own(context_tokens=4_096, kv_unified=True), request_context_tokens=16_384)
    assert chosen_context_tokens(pool, None) == 16_384


def test_what_is_fixed_of_vllm_and_as_applied_is_the_same_request() -> None:
    plan = replace(applied(), kv_memory_bytes=4 * GIB, tensor_parallel=2, prefix_caching=False)
    same = Fixed(kv_memory_bytes=4 * GIB, tensor_parallel=2, prefix_caching=False)
    assert keep_applied(plan, same, machine()) is not None
    for other in (Fixed(kv_memory_bytes=8 * GIB), Fixed(tensor_parallel=4), Fixed(prefix_caching=True)):
        assert keep_applied(plan, other, machine()) is None
