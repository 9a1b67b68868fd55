"""Whole plans: the article's worked examples, what binds, what is said, and properties over many machines."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llmops.core.errors import DoesNotFit, UsageError
from llmops.core.hardware import Hardware
from llmops.core.model import AttentionLayer
from llmops.core.plan import Fixed, MeasuredRates, Plan, Policy
from llmops.core.problem import require_possible
from llmops.core.sizing import fits, size, size_explicit
from llmops.core.workload import DEFAULTS, Workload, WorkloadKind, in_flight_requests
from tests.unit.core.example_models import GIB, cpu_host, eight_billion_16_bit, one_card, problem

CHAT = DEFAULTS[WorkloadKind.CHAT]


class TestTheWorkedExamples:
    def test_bytes_per_token(self) -> None:
        model = eight_billion_16_bit()
        assert model.cache_bytes_per_token == 2 * 36 * 8 * 128 * 2 == 147_456

    def test_eight_thousand_tokens_and_five_of_them(self) -> None:
        host = problem(cpu_host(64 * GIB), fixed=Fixed(slots=1, context_tokens=8_192))
        assert size_explicit(host).budgets[0].cache_bytes == 8_192 * 147_456  # 1.2 GB
        five = problem(cpu_host(64 * GIB), fixed=Fixed(slots=5, context_tokens=8_192))
        assert size_explicit(five).budgets[0].cache_bytes == 6_039_797_760  # about 6 GB

    def test_twenty_chat_users_are_not_twenty_requests(self) -> None:
        assert in_flight_requests(20, 12.0, 90.0) == pytest.approx(2.67, abs=0.005)
        users = replace(CHAT, users=20, generation_seconds=12.0)
        plan = size(problem(one_card(80 * GIB), users))
        assert plan.in_flight == pytest.approx(2.67, abs=0.005)
        assert plan.slots == 6
        assert plan.wait_probability == pytest.approx(0.035, abs=0.001)

    def test_twenty_agents_are(self) -> None:
        agents = replace(DEFAULTS[WorkloadKind.AGENT], users=20, context_floor_tokens=8_192, prompt_tokens=4_000)
        plan = size(problem(one_card(80 * GIB), agents))
        assert plan.in_flight == 20.0

    def test_a_24_gb_card_holds_an_8b_model_in_16_bit_and_about_6_gb_of_cache(self) -> None:
        five = size_explicit(problem(one_card(), fixed=Fixed(slots=5, context_tokens=8_192)))
        card = next(budget for budget in five.budgets if budget.device != "host")
        assert sum(budget.weights_bytes for budget in five.budgets) == pytest.approx(16.4e9, rel=0.01)
        room_for_cache = card.available_bytes - (card.used_bytes - card.cache_bytes)
        assert room_for_cache == pytest.approx(6.6e9, rel=0.1), "about 6 GB"
        assert card.cache_bytes == 6_039_797_760
        assert fits(five.budgets, 1.0), "five 8K conversations before the safety factor"
        wanted = replace(CHAT, users=40, generation_seconds=20.0)
        policy = Policy(cache_types_allowed=("f16",))
        plan = size(problem(one_card(), wanted, policy=policy))
        assert plan.slots >= 4
        assert plan.context_tokens_per_slot == 8_192
        assert plan.binding_constraint == "memory"


class TestWhatIsGivenUp:
    def test_8_bit_cache_before_fewer_slots(self) -> None:
        plan = size(problem(one_card(), replace(CHAT, users=40, generation_seconds=20.0)))
        assert plan.cache_type_k == plan.cache_type_v == "q8_0"
        assert any("8 bits" in warning for warning in plan.warnings)

    def test_the_context_served_until_now_is_kept_where_it_fits(self) -> None:
        roomy = size(problem(one_card(80 * GIB), preferred_context_tokens=32_768))
        assert roomy.context_tokens_per_slot == 32_768
        tight = size(problem(one_card(), replace(CHAT, generation_seconds=10.0), preferred_context_tokens=32_768))
        assert 8_192 <= tight.context_tokens_per_slot < 32_768
        assert any("instead of" in warning for warning in tight.warnings)

    def test_the_floor_is_never_crossed(self) -> None:
        with pytest.raises(DoesNotFit) as refusal:
            size(problem(cpu_host(18 * GIB), fixed=Fixed(context_tokens=32_768)))
        assert refusal.value.exit_code == 4
        assert "--context" in (refusal.value.hint or "")

    def test_a_model_larger_than_the_memory_names_the_size_that_would_fit(self) -> None:
        with pytest.raises(DoesNotFit) as refusal:
            size(problem(cpu_host(8 * GIB)))
        assert "model file under" in (refusal.value.hint or "")

    def test_slots_that_the_user_fixed_are_not_reduced_silently(self) -> None:
        with pytest.raises(DoesNotFit):
            size(problem(one_card(), fixed=Fixed(slots=64, cache_type_k="f16", cache_type_v="f16")))


class TestSpeed:
    def test_a_machine_too_slow_for_one_user_is_said_to_be(self) -> None:
        slow = cpu_host(64 * GIB, cores=2, bandwidth=10_000_000_000)
        plan = size(problem(slow))
        assert plan.slots == 1
        assert plan.binding_constraint == "speed"
        assert any("not usable" in warning for warning in plan.warnings)

    def test_slots_that_nobody_fills_make_no_machine_slow(self) -> None:
        shown = problem(cpu_host(512 * GIB, cores=32, bandwidth=300_000_000_000), fixed=Fixed(slots=200))
        assert shown.rates.likely.step_seconds(200) > 1 / 5 > shown.rates.likely.step_seconds(5)
        assert not any("not usable" in warning for warning in size(shown).warnings)

    def test_measured_rates_replace_predictions(self) -> None:
        measured = MeasuredRates(((1, 40.0), (2, 30.0)), 900.0)
        plan = size(problem(cpu_host(64 * GIB), measured=measured))
        by_streams = {speed.streams: speed for speed in plan.speeds}
        alone = by_streams[1].decode_tokens_per_second_per_stream
        assert (alone.low, alone.likely, alone.high) == (40.0, 40.0, 40.0)
        assert by_streams[1].basis == by_streams[2].basis == "measured"
        assert by_streams[5].basis == "predicted"
        assert by_streams[5].decode_tokens_per_second_per_stream.likely == pytest.approx(1 / (1 / 40 + 4 / 120))

    def test_batch_follows_the_longest_gap(self) -> None:
        measured = MeasuredRates(((1, 40.0),), 300.0)
        gap = size(problem(cpu_host(64 * GIB), measured=measured))
        assert gap.batch_tokens == 512  # 300 tokens/s x 2 s
        first_token = size(problem(cpu_host(64 * GIB), measured=measured, policy=Policy(protect="ttft")))
        assert first_token.batch_tokens == 2_048


class TestOneOrTwoSlots:
    SELDOM = replace(CHAT, users=2, generation_seconds=1.0, turn_seconds=600.0)

    def test_a_second_slot_where_it_costs_nothing(self) -> None:
        plan = size(problem(one_card(), self.SELDOM))
        assert (plan.slots, plan.cache_type_k, plan.binding_constraint) == (2, "f16", "users")

    def test_nothing_is_given_up_for_a_second_slot_that_nobody_waits_for(self) -> None:
        tight = problem(
            cpu_host(20 * GIB, cores=64, bandwidth=400_000_000_000), self.SELDOM, preferred_context_tokens=16_384
        )
        plan = size(tight)
        assert (plan.slots, plan.context_tokens_per_slot, plan.cache_type_k) == (1, 16_384, "f16")
        assert plan.binding_constraint == "users"
        assert plan.wait_probability < plan.policy.wait_probability

    def test_one_user_gets_one(self) -> None:
        assert size(problem(one_card(), replace(CHAT, users=1))).slots == 1


class TestLayersOnCards:
    def test_all_of_them_and_the_output(self) -> None:
        asked = problem(one_card())
        assert size(asked).gpu_layers == asked.model.layers + 1

    def test_layers_that_only_guess_are_counted_by_the_engine_too(self) -> None:
        asked = problem(one_card())
        drafted = replace(asked, model=replace(asked.model, draft_layers=2))
        assert size(drafted).gpu_layers == asked.model.layers + 3


class TestAskedForTheImpossible:
    def test_more_slots_than_the_engine_has(self) -> None:
        with pytest.raises(UsageError, match="at most 256"):
            require_possible(problem(one_card(), fixed=Fixed(slots=257)))
        require_possible(problem(one_card(), fixed=Fixed(slots=256)))

    def test_a_cache_type_whose_blocks_cut_a_head(self) -> None:
        asked = problem(one_card(), fixed=Fixed(cache_type_k="q8_0"))
        require_possible(asked)
        odd = replace(asked.model, attention_layers=(AttentionLayer(8, 80, 80),) * 32)
        with pytest.raises(UsageError, match=r"heads of .* have 80"):
            require_possible(replace(asked, model=odd))
        require_possible(replace(asked, model=odd, fixed=Fixed(cache_type_k="f16", cache_type_v="bf16")))
        assert replace(asked, model=odd, fixed=Fixed()).fallback_cache_types == ("f16",)


class TestWarnings:
    def test_cache_types_that_cards_have_no_kernels_for(self) -> None:
        def said(fixed: Fixed) -> bool:
            return any("no quick attention" in line for line in size(problem(one_card(), fixed=fixed)).warnings)

        assert said(Fixed(cache_type_k="q8_0"))
        assert said(Fixed(cache_type_k="q5_1", cache_type_v="q5_1"))
        assert not said(Fixed(cache_type_k="q8_0", cache_type_v="q8_0"))
        on_processor = size(problem(cpu_host(64 * GIB), fixed=Fixed(cache_type_k="q8_0")))
        assert not any("attention" in line for line in on_processor.warnings)

    def test_fewer_slots_than_wanted_because_the_user_said_so(self) -> None:
        plan = size(problem(one_card(80 * GIB), replace(CHAT, users=20, generation_seconds=12.0), fixed=Fixed(slots=3)))
        assert any(line.startswith("3 of 6 wanted slots as given: ") for line in plan.warnings)

    def test_what_was_assumed_about_the_model(self) -> None:
        asked = problem(one_card())
        noted = replace(asked, model=replace(asked.model, notes=("its weights are computed",)))
        for plan in (size(noted), size_explicit(noted)):
            assert plan.warnings[-1] == "the model: its weights are computed"


class TestProperties:
    @settings(max_examples=60, deadline=None)
    @given(
        memory_gib=st.integers(18, 200),
        more_gib=st.integers(0, 100),
        users=st.integers(1, 60),
        generation=st.floats(1.0, 80.0),
    )
    def test_more_memory_never_gives_fewer_slots(
        self, memory_gib: int, more_gib: int, users: int, generation: float
    ) -> None:
        load = replace(CHAT, users=users, generation_seconds=generation)
        small = _plan_or_none(cpu_host(memory_gib * GIB), load)
        large = _plan_or_none(cpu_host((memory_gib + more_gib) * GIB), load)
        if small is not None:
            assert large is not None
            assert large.slots >= small.slots

    @settings(max_examples=40, deadline=None)
    @given(memory_gib=st.integers(18, 128), users=st.integers(1, 30))
    def test_budgets_sum_and_fit_with_their_margin(self, memory_gib: int, users: int) -> None:
        plan = _plan_or_none(cpu_host(memory_gib * GIB), replace(CHAT, users=users, generation_seconds=15.0))
        if plan is None:
            return
        assert fits(plan.budgets, plan.policy.safety_factor)
        for budget in plan.budgets:
            assert budget.used_bytes + budget.free_bytes == budget.available_bytes

    def test_every_number_has_its_reason(self) -> None:
        plan = size(problem(one_card()))
        explained = {reason.quantity for reason in plan.reasons}
        assert {"in_flight", "slots", "wait", "context_tokens_per_slot", "cache_bytes_per_token"} <= explained
        assert {"queue_requests", "threads", "batch_tokens", "prompt_cache", "speed"} <= explained
        assert all(reason.formula and reason.source and reason.value for reason in plan.reasons)


def _plan_or_none(hardware: Hardware, workload: Workload) -> Plan | None:
    try:
        return size(problem(hardware, workload))
    except DoesNotFit:
        return None
