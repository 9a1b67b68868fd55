"""vLLM over several cards: by their links, copies, whole experts, uneven stages, and the words for all of them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llmops.core.errors import Misconfigured, UsageError
from llmops.core.hardware import CardLink, Hardware
from llmops.core.model import AttentionLayer, ModelSpec
from llmops.core.overrides import override_hardware
from llmops.core.plan import Fixed, Plan, Reason
from llmops.core.problem import Problem, Split
from llmops.core.sizing import size, size_explicit
from llmops.core.throughput import predict_rates
from llmops.core.version import Version
from llmops.engines.found import InForce
from llmops.engines.vllm.divisible import refused_split
from llmops.engines.vllm.files import config_file
from llmops.engines.vllm.launch import launch
from llmops.engines.vllm.observe import VllmInForce
from tests.unit.core.example_models import GIB
from tests.unit.engines.test_vllm import CHAT, VLLM, cards, installed, model, problem, words

# Eight slots are wanted: more than a card of 24 GB holds, no more than two do.
MANY = replace(CHAT, users=22, generation_seconds=18.0)
EXPERTS = {"experts": 128, "experts_used": 8, "expert_feed_forward_length": 1_536}


def linked(hardware: Hardware, kind: str, rate: int | None = None) -> Hardware:
    found = override_hardware(hardware, links=kind)
    return replace(found, links=tuple(replace(link, bytes_per_second=rate) for link in found.links))


def splits(hardware: Hardware, fixed: Fixed | None = None, spec: ModelSpec | None = None) -> tuple[Split, ...]:
    return VLLM.choices(hardware, spec or model(), Version((0, 33, 0)), fixed or Fixed()).splits


def reason(plan: Plan, quantity: str) -> Reason:
    return next(one for one in plan.reasons if one.quantity == quantity)


def with_layers(spec: ModelSpec) -> ModelSpec:
    """Layers that know their number, so that stages can be told apart."""
    layers = tuple(replace(layer, layer=number) for number, layer in enumerate(spec.attention_layers))
    return replace(spec, attention_layers=layers)


def uneven(hardware: Hardware, fixed: Fixed | None = None) -> Problem:
    spec, version, wanted = with_layers(model()), Version((0, 33, 0)), fixed or Fixed()
    found = problem(hardware, wanted)
    memory, choices = VLLM.memory_model(hardware, spec, version), VLLM.choices(hardware, spec, version, wanted)
    return replace(found, model=spec, memory=memory, choices=choices)


# Which divisions are tried, and in which order


def test_cards_with_fast_links_share_each_layer_before_they_hold_copies() -> None:
    fast, slow = linked(cards(24, 24), "nvlink"), linked(cards(24, 24), "pcie")
    assert splits(fast)[:3] == (Split(), Split(2), Split(1, 1, 2))
    assert splits(slow)[:3] == splits(cards(24, 24))[:3] == (Split(), Split(1, 1, 2), Split(2))


def test_one_slow_link_among_cards_counts_for_all_of_them() -> None:
    three = cards(24, 24, 24, 24)
    links = tuple(
        CardLink(first, second, "nvlink" if (first, second) == (0, 1) else "pcie")
        for first in range(4)
        for second in range(first + 1, 4)
    )
    order = [split for split in splits(replace(three, links=links)) if split.pipeline_parallel == 1]
    assert order.index(Split(2)) < order.index(Split(1, 1, 2))
    assert order.index(Split(1, 1, 4)) < order.index(Split(4))


def test_more_users_than_one_card_has_room_for_get_a_copy_on_each() -> None:
    alone = size(problem(cards(24), workload=MANY))
    both = size(problem(linked(cards(24, 24), "pcie"), workload=MANY))
    assert (alone.slots, alone.cache_type_k) == (8, "fp8"), "one card holds them only with half the cache"
    assert (both.data_parallel, both.tensor_parallel, both.slots, both.cache_type_k) == (2, 1, 8, "bf16")
    assert dict(reason(both, "data_parallel").inputs)["slots of each"] == "4"
    together = size(problem(linked(cards(24, 24), "nvlink"), workload=MANY))
    assert (together.data_parallel, together.tensor_parallel, together.cache_type_k) == (1, 2, "bf16")


def test_few_users_leave_the_other_cards_alone() -> None:
    plan = size(problem(linked(cards(24, 24, 24, 24), "pcie")))
    assert plan.shape.cards == 1


@pytest.mark.parametrize("kind", ["nvlink", "pcie"])
@pytest.mark.parametrize("each", [16, 24, 48])
def test_more_cards_of_a_kind_never_hold_fewer_requests(kind: str, each: int) -> None:
    busy, slots = replace(CHAT, users=400, generation_seconds=30.0), []
    for count in range(2, 9):
        asked = problem(linked(cards(*[each] * count), kind))
        slots.append(size(replace(asked, workload=busy)).slots)
    assert slots == sorted(slots)


def test_a_model_with_experts_is_copied_only_where_that_is_asked_for() -> None:
    spec = model(**EXPERTS)
    assert all(split.data_parallel == 1 for split in splits(cards(80, 80), spec=spec))
    assert splits(cards(80, 80), Fixed(data_parallel=2), spec) == (Split(1, 1, 2),)
    both = Fixed(data_parallel=2, expert_parallel=True)
    assert splits(cards(80, 80), both, spec) == (Split(1, 1, 2, expert_parallel=True),)


def test_what_is_fixed_is_kept() -> None:
    four = cards(24, 24, 24, 24)
    assert splits(four, Fixed(tensor_parallel=2)) == (Split(2),)
    assert splits(four, Fixed(tensor_parallel=2, data_parallel=2)) == (Split(2, 1, 2),)
    assert splits(four, Fixed(data_parallel=2))[:2] == (Split(1, 1, 2), Split(2, 1, 2))
    assert splits(four, Fixed(pipeline_parallel=2))[:2] == (Split(1, 2), Split(2, 2))


# What the server would refuse


def test_experts_that_cannot_be_cut_stay_whole_unless_that_is_excluded() -> None:
    spec = model(quantization_method="fp8", quantization_block=(128, 128), **EXPERTS)
    old = Version((0, 28, 0))
    eight = VLLM.choices(cards(*[80] * 8), spec, old, Fixed(tensor_parallel=8)).splits
    assert eight == (Split(8, expert_parallel=True),)
    with pytest.raises(UsageError, match="192 of 1536 inner values of an expert") as refused:
        VLLM.choices(cards(*[80] * 8), spec, old, Fixed(tensor_parallel=8, expert_parallel=False))
    assert refused.value.hint == "--tensor-parallel can be 1, 2, 4"
    assert VLLM.choices(cards(*[80] * 8), spec, Version((0, 30, 0)), Fixed(tensor_parallel=8)).splits == (Split(8),)


@pytest.mark.parametrize(
    ("changes", "fixed", "said"),
    [
        ({}, Fixed(expert_parallel=True), "--expert-parallel needs experts"),
        ({"feed_forward_length": 12_290}, Fixed(tensor_parallel=4), "12290 inner values"),
        ({**EXPERTS, "expert_feed_forward_length": 1_538}, Fixed(tensor_parallel=4, expert_parallel=False), "of 1538"),
        ({**EXPERTS, "experts": 2, "architecture": "qwen3_moe"}, Fixed(tensor_parallel=4), "more than the 2 experts"),
        (
            {"quantization_method": "fp8", "quantization_block": (128, 128), "feed_forward_length": 14_400},
            Fixed(tensor_parallel=4),
            "3600 inner values on each of --tensor-parallel 4 are no whole blocks of 128",
        ),
        (
            {"quantization_method": "awq", "quantization_block": (0, 128), "feed_forward_length": 13_696},
            Fixed(tensor_parallel=2),
            "6848 inner values",
        ),
        ({}, Fixed(data_parallel=3, tensor_parallel=2), "times --data-parallel 3 is more than the 4 cards"),
        ({}, Fixed(data_parallel=2, slots=5), "--slots 5 cannot be shared out evenly"),
        ({}, Fixed(data_parallel=2, nodes=2), "planned for on one machine"),
        ({"classes": ("Zamba2ForCausalLM",)}, Fixed(pipeline_parallel=2), "cannot divide the layers of Zamba2"),
    ],
)
def test_divisions_that_are_refused(changes: dict[str, object], fixed: Fixed, said: str) -> None:
    with pytest.raises(UsageError, match=said) as refused:
        VLLM.choices(cards(24, 24, 24, 24), model(**changes), None, fixed)
    assert refused.value.hint


def test_copies_without_cards_need_their_cache_given() -> None:
    bare = override_hardware(cards(), no_gpu=True)
    with pytest.raises(UsageError, match="the same share of all memory"):
        VLLM.choices(bare, model(), None, Fixed(data_parallel=2))
    VLLM.choices(bare, model(), None, Fixed(data_parallel=2, kv_memory_bytes=GIB))
    experts = VLLM.choices(bare, model(**EXPERTS), None, Fixed(expert_parallel=True, kv_memory_bytes=GIB))
    assert any("fails at the first request" in line for line in experts.warnings)


# Unequal cards


def test_unequal_cards_take_as_many_layers_as_they_have_room_for() -> None:
    plan = size(uneven(cards(16, 8)))
    assert plan.pipeline_parallel == 2
    first, second = plan.layer_partition
    assert first + second == plan.model.layers
    assert first > 2 * second
    tokens = [row.cache_tokens for row in plan.budgets if row.cache_tokens is not None]
    evenly = size_explicit(
        uneven(cards(16, 8), Fixed(pipeline_parallel=2, slots=plan.slots, gpu_memory_utilization=0.9))
    )
    assert min(tokens) > min(row.cache_tokens or 0 for row in evenly.budgets if row.device != "host")
    for row in plan.budgets:
        assert row.used_bytes + row.free_bytes == row.available_bytes
    assert reason(plan, "layer_partition").value == f"{first}, {second}"


def test_equal_cards_leave_their_layers_to_the_engine() -> None:
    assert size(uneven(cards(10, 10, 10))).layer_partition == ()


# The words for it


def test_every_engine_is_told_its_own_part_of_the_slots() -> None:
    plan = size(problem(cards(24, 24), Fixed(data_parallel=2, slots=8)))
    told = dict(zip(words(plan, "0.33.0"), words(plan, "0.33.0")[1:], strict=False))
    assert (told["--data-parallel-size"], told["--max-num-seqs"]) == ("2", "4")
    assert told["--max-num-queued-reqs"] == str(8 + plan.queue_requests)
    alone = dict(zip(words(plan, "0.29.0"), words(plan, "0.29.0")[1:], strict=False))
    assert alone["--max-num-queued-reqs"] == str(-(-(8 + plan.queue_requests) // 2)), "each of two servers counts"


def test_slots_are_shared_out_evenly() -> None:
    plan = size(problem(linked(cards(24, 24), "pcie"), workload=MANY))
    shape = replace(plan.shape, slots=plan.slots - 1)
    assert VLLM.shaped(shape, plan.model, None).slots == plan.slots


def test_whole_experts_are_told_in_every_version() -> None:
    plan = replace(size(problem(cards(24, 24))), tensor_parallel=2, expert_parallel=True)
    for version in ("0.8.5", "0.33.0"):
        assert "--enable-expert-parallel" in words(plan, version)


def test_stages_of_unequal_cards_are_told_by_variables() -> None:
    plan = replace(size(problem(cards(24))), pipeline_parallel=2, layer_partition=(25, 11))
    variables = {one.name: one.value for one in VLLM.settings(plan, installed("0.33.0")) if one.environment}
    assert variables == {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "VLLM_PP_LAYER_PARTITION": "25,11"}
    assert launch(plan, installed("0.33.0"), 9000).environment["VLLM_PP_LAYER_PARTITION"] == "25,11"
    expected = {one.name: one for one in VLLM.expectations(plan, installed("0.33.0"))}
    assert (expected["VLLM_PP_LAYER_PARTITION"].where, expected["VLLM_PP_LAYER_PARTITION"].value) == (
        "environment",
        "25,11",
    )
    text = config_file(plan, installed("0.33.0")).content
    assert "# Set in its environment: VLLM_PP_LAYER_PARTITION=25,11" in text
    assert "VLLM_PP_LAYER_PARTITION" not in str(VLLM.settings(replace(plan, layer_partition=()), installed("0.33.0")))


def test_each_engine_must_print_the_planned_cache() -> None:
    plan = size(problem(cards(24, 24), Fixed(data_parallel=2, slots=8, kv_memory_bytes=6 * GIB)))
    (tokens,) = {row.cache_tokens for row in plan.budgets if row.cache_tokens is not None}
    log = "\n".join(
        f"(EngineCore_DP{engine}) GPU KV cache size: {tokens:,} tokens\n"
        f"(EngineCore_DP{engine}) Maximum concurrency for 8,192 tokens per request: {4.5 + engine}x"
        for engine in range(2)
    )
    printed, concurrency = VLLM.log_checks(plan, log)
    assert (printed.expected, printed.observed, printed.status.value) == (f"{tokens:,}", f"{tokens:,}", "pass")
    assert (concurrency.expected, concurrency.observed, concurrency.status.value) == ("at least 4", "4.50", "pass")


# What it costs


def test_the_exchange_between_cards_is_told_with_its_source() -> None:
    rate = 25_000_000_000
    plan = size(problem(linked(cards(24, 24), "pcie", rate), Fixed(tensor_parallel=2)))
    told = reason(plan, "exchange between cards")
    each = 2 * plan.model.layers * plan.model.embedding_length * 2 * 2 // 2
    assert f"{each / rate * 1e6:.3g} us" in told.value
    assert dict(told.inputs)["slowest"] == "25.0 GB/s"
    assert told.source == "given"
    unknown = reason(size(problem(cards(24, 24), Fixed(tensor_parallel=2))), "exchange between cards")
    assert dict(unknown.inputs)["links"] == "not known"
    assert unknown.source == "the links are not known"


def test_slow_links_slow_prompts_down_and_copies_do_not() -> None:
    def rates(hardware: Hardware, **how: int) -> float:
        found = predict_rates(hardware, model(), CHAT, on_gpu=True, engine="vllm", **how)  # type: ignore[arg-type]
        return found.likely.prefill_tokens_per_second

    fast = rates(linked(cards(24, 24), "nvlink", 300_000_000_000), tensor_parallel=2)
    slow = rates(linked(cards(24, 24), "pcie", 6_000_000_000), tensor_parallel=2)
    assert slow < 0.8 * fast
    one = predict_rates(cards(24), model(), CHAT, on_gpu=True, engine="vllm").likely
    two = predict_rates(cards(24), model(), CHAT, on_gpu=True, engine="vllm", copies=2).likely
    assert two.step_seconds(8) == one.step_seconds(4)
    assert two.step_seconds(1) == one.step_seconds(1)
    assert two.request_seconds(8, CHAT) == pytest.approx(one.request_seconds(4, CHAT))


def test_latent_caches_are_on_every_card_that_shares_a_layer_and_once_in_copies() -> None:
    latent = replace(
        with_layers(model(**EXPERTS)),
        attention_layers=tuple(AttentionLayer(1, 576, 0, is_latent=True, layer=number) for number in range(36)),
    )
    memory = VLLM.memory_model(cards(80, 80), latent, Version((0, 33, 0)))
    shape = size(problem(cards(80, 80), Fixed(slots=8, kv_memory_bytes=4 * GIB))).shape
    shared = memory(replace(shape, tensor_parallel=2, data_parallel=1))
    copies = memory(replace(shape, tensor_parallel=1, data_parallel=2, expert_parallel=True))
    assert shared[1].cache_tokens == copies[1].cache_tokens, "but each copy keeps other requests there"
    assert (copies[1].needed_cache_bytes or 0) < 0.6 * (shared[1].needed_cache_bytes or 0)


def test_copies_are_suggested_where_memory_keeps_a_latent_cache_small() -> None:
    layers = tuple(AttentionLayer(1, 576, 0, is_latent=True, layer=number) for number in range(36))
    plan = size(problem(cards(24, 24), Fixed(tensor_parallel=2)))
    latent = replace(plan, model=model(attention_layers=layers, **EXPERTS), binding_constraint="memory")
    said = VLLM.warnings(latent, installed("0.33.0"))
    assert any("--data-parallel 2 --expert-parallel" in line for line in said)
    for other in (replace(latent, binding_constraint="users"), replace(latent, model=model(**EXPERTS))):
        assert not any("--expert-parallel" in line for line in VLLM.warnings(other, installed("0.33.0")))


@settings(max_examples=80, deadline=None)
@given(
    heads=st.sampled_from([8, 14, 24, 32, 40, 64]),
    pairs=st.sampled_from([1, 2, 4, 8]),
    sizes=st.lists(st.sampled_from([16, 24, 48]), min_size=1, max_size=6),
    experts=st.sampled_from([0, 8, 128]),
    tensor=st.none() | st.integers(1, 8),
    pipeline=st.none() | st.integers(1, 4),
    data=st.none() | st.integers(1, 4),
    whole=st.none() | st.booleans(),
    kind=st.sampled_from([None, "nvlink", "pcie"]),
)
def test_whatever_is_fixed_is_refused_or_kept(
    heads: int,
    pairs: int,
    sizes: list[int],
    experts: int,
    tensor: int | None,
    pipeline: int | None,
    data: int | None,
    whole: bool | None,
    kind: str | None,
) -> None:
    spec = with_layers(
        model(
            attention_heads=heads,
            attention_layers=(AttentionLayer(pairs, 128, 128),) * 36,
            experts=experts,
            expert_feed_forward_length=1_536 if experts else 0,
        )
    )
    hardware = cards(*sizes) if kind is None else linked(cards(*sizes), kind)
    fixed = Fixed(tensor_parallel=tensor, pipeline_parallel=pipeline, data_parallel=data, expert_parallel=whole)
    try:
        found = splits(hardware, fixed, spec)
    except UsageError as refused:
        assert refused.hint
        return
    assert len(set(found)) == len(found) > 0
    for split in found:
        assert split.cards <= len(sizes)
        assert refused_split(spec, split, Version((0, 33, 0))) is None
        assert tensor in (None, split.tensor_parallel)
        assert pipeline in (None, split.pipeline_parallel)
        assert data in (None, split.data_parallel)
        assert whole in (None, split.expert_parallel)
        assert not split.layer_partition or sum(split.layer_partition) == 36


# A person's own unit


def rendered(plan: Plan, *more: str) -> str:
    served = installed("0.33.0", managed_by="unit", unit="vllm.service")
    in_force = InForce(user_arguments=("/opt/vllm/bin/vllm", "serve", plan.model.reference, *more))
    (file,) = VLLM.files(plan, served, in_force)
    return file.content


def test_a_drop_in_sets_the_layers_of_uneven_stages_and_takes_other_divisions_back() -> None:
    plan = size(problem(cards(24)))
    staged = replace(plan, pipeline_parallel=2, layer_partition=(25, 11))
    text = rendered(staged, "-dp", "4", "--enable-expert-parallel", "--served-model-name", "chat")
    assert "Environment=VLLM_PP_LAYER_PARTITION=25,11" in text
    assert "--served-model-name chat" in text
    for word in ("-dp", "--data-parallel-size", "--enable-expert-parallel"):
        assert word not in text
    assert "Environment=" not in rendered(plan)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("-ep", "--enable-eplb"), "--enable-eplb needs whole experts"),
        (("--data-parallel-rank", "1"), "--data-parallel-rank makes this server a part"),
        (("-dp", "4", "--data-parallel-size-local", "2"), "--data-parallel-size-local makes this server a part"),
    ],
)
def test_words_that_stay_and_would_end_the_server_are_refused(words: tuple[str, ...], said: str) -> None:
    with pytest.raises(Misconfigured, match=said) as refused:
        rendered(size(problem(cards(24))), *words)
    assert refused.value.hint


def test_words_that_agree_with_the_plan_stay() -> None:
    two = size(problem(cards(24, 24), Fixed(data_parallel=2, slots=4)))
    assert "--data-parallel-size-local 2" in rendered(two, "-dp", "2", "--data-parallel-size-local", "2")
    whole = replace(two, expert_parallel=True)
    assert "--enable-eplb" in rendered(whole, "--enable-eplb")


def test_a_config_file_is_overruled_where_it_divides_otherwise() -> None:
    plan = size(problem(cards(24)))
    served = installed("0.33.0", managed_by="unit", unit="vllm.service")
    path = "/etc/vllm.yaml"
    in_force = InForce(
        user_arguments=("/opt/vllm/bin/vllm", "serve", plan.model.reference, "--config", path),
        config_files=((path, "data-parallel-size: 2\nenable-expert-parallel: true\n"),),
    )
    (file,) = VLLM.files(plan, served, in_force)
    assert "--data-parallel-size 1" in file.content
    assert "--no-enable-expert-parallel" in file.content


def test_stages_left_to_the_engine_must_not_be_set_by_a_hidden_variable() -> None:
    plan = replace(size(problem(cards(24))), pipeline_parallel=2)
    expected = {
        one.name: one.value for one in VLLM.expectations(plan, installed("0.33.0")) if one.where == "environment"
    }
    assert expected["VLLM_PP_LAYER_PARTITION"] == "unset"
    seen = VllmInForce(environment=(("VLLM_PP_LAYER_PARTITION", "30,6"),))
    checks = {one.name: one for one in VLLM.checks(VLLM.expectations(plan, installed("0.33.0")), installed(), seen)}
    assert (checks["VLLM_PP_LAYER_PARTITION"].status.value, checks["VLLM_PP_LAYER_PARTITION"].observed) == (
        "fail",
        "30,6",
    )


def test_a_class_without_stages_is_never_put_on_cards_after_each_other() -> None:
    found = splits(cards(24, 24, 24), spec=model(classes=("Phi4MMForCausalLM",)))
    assert all(split.pipeline_parallel == 1 for split in found)
    assert any(split.pipeline_parallel == 3 for split in splits(cards(24, 24, 24)))
