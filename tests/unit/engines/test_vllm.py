"""vLLM in a plan's terms: its defaults, its words by version, what it refuses, and what is said of it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from llmops.core.errors import Unsupported, UsageError
from llmops.core.hardware import Gpu, Hardware
from llmops.core.model import AttentionLayer, EncoderShape, ModelSpec, StateLayer
from llmops.core.overrides import GIVEN
from llmops.core.plan import Fixed, Plan, Policy, Shape
from llmops.core.problem import Choices, Problem, Split
from llmops.core.sizing import size
from llmops.core.throughput import predict_rates
from llmops.core.version import Version
from llmops.core.workload import DEFAULTS, WorkloadKind
from llmops.engines import engine_named
from llmops.engines.found import Installation
from llmops.engines.vllm.arguments import (
    CACHE_MEMORY_FLAG,
    CACHE_TYPE_WORDS,
    NODES_FLAG,
    QUEUE_FLAG,
    QUEUE_SHARED,
)
from tests.unit.core.example_models import GIB, cpu_host, eight_billion_16_bit

VLLM = engine_named("vllm")
CHAT = DEFAULTS[WorkloadKind.CHAT]


def model(**changes: object) -> ModelSpec:
    found = replace(eight_billion_16_bit(), format="safetensors", data_type="bfloat16", quantization="bf16")
    return replace(found, **changes)  # type: ignore[arg-type]


def cards(*sizes: int, name: str = "Card", capability: tuple[int, int] | None = (8, 9)) -> Hardware:
    found = tuple(
        Gpu(index, None, name, gib * GIB, gib * GIB, capability, 1_000_000_000_000) for index, gib in enumerate(sizes)
    )
    return replace(cpu_host(256 * GIB, cores=16), gpus=found)


def installed(version: str | None = None, **changes: object) -> Installation:
    found = Installation("vllm", "binary", ("vllm",), Version.parse(version) if version else None, version, None)
    return replace(found, **changes)  # type: ignore[arg-type]


def defaults(hardware: Hardware, version: str | None = None, **fixed: object) -> Fixed:
    return VLLM.with_defaults(Fixed(**fixed), model(), installed(version), hardware)  # type: ignore[arg-type]


def problem(hardware: Hardware, fixed: Fixed | None = None, version: str = "0.33.0", **changes: object) -> Problem:
    known, spec, wanted = Version.parse(version), model(), fixed or Fixed()
    found = Problem(
        engine="vllm",
        engine_version=version,
        hardware=hardware,
        model=spec,
        workload=CHAT,
        policy=Policy(),
        fixed=wanted,
        rates=predict_rates(hardware, spec, CHAT, on_gpu=bool(hardware.gpus), engine="vllm"),
        memory=VLLM.memory_model(hardware, spec, known),
        on_gpu=bool(hardware.gpus),
        most_slots=VLLM.most_slots,
        choices=VLLM.choices(hardware, spec, known, wanted),
    )
    return replace(found, **changes)  # type: ignore[arg-type]


def words(plan: Plan, version: str) -> list[str]:
    settings = VLLM.settings(plan, installed(version))
    return [word for row in settings for word in (row.name, row.value) if word is not None]


# What the engine chooses by itself


@pytest.mark.parametrize(
    ("hardware", "version", "tokens", "sequences"),
    [
        (cards(24), "0.33.0", 2048, 256),
        (cards(69), "0.33.0", 2048, 256),
        (cards(70), "0.33.0", 8192, 1024),
        (cards(160), "0.27.1", 8192, 1024),
        (cards(160), "0.28.0", 16384, 1024),
        (cards(80, name="NVIDIA A100-SXM4-80GB"), "0.33.0", 2048, 256),
        (cards(119, name="GB10", capability=(12, 1)), "0.32.0", 8192, 1024),
        (cards(119, name="GB10", capability=(12, 1)), "0.33.0", 2048, 256),
        (cards(80, 24), "0.33.0", 2048, 256),
        (cpu_host(64 * GIB), "0.33.0", 2048, 128),
    ],
)
def test_batches_by_card_and_version(hardware: Hardware, version: str, tokens: int, sequences: int) -> None:
    found = defaults(hardware, version)
    assert (found.batch_tokens, found.slots) == (tokens, sequences)


@pytest.mark.parametrize(("version", "share"), [("0.19.1", 0.9), ("0.20.0", 0.92), (None, 0.92)])
def test_the_share_of_a_card_by_version(version: str | None, share: float) -> None:
    assert defaults(cards(24), version).gpu_memory_utilization == share
    assert defaults(cards(24), version, gpu_memory_utilization=0.5).gpu_memory_utilization == 0.5
    assert defaults(cards(24), version, kv_memory_bytes=GIB).gpu_memory_utilization is None


def test_few_short_requests_bound_the_batch_and_it_bounds_them() -> None:
    assert defaults(cards(24), slots=1, context_tokens=1024).batch_tokens == 1024
    assert defaults(cards(80), batch_tokens=512).slots == 512


def test_the_type_of_the_cache_is_the_models_or_what_the_checkpoint_asks_for() -> None:
    asked = {"quantization_method": "modelopt", "cache_data_type": "fp8"}
    for spec, version, cache_type in (
        (model(), "0.33.0", "bf16"),
        (model(data_type="float16"), "0.33.0", "f16"),
        (model(**asked), "0.33.0", "fp8"),
        (model(**asked), "0.13.0", "bf16"),
    ):
        assert VLLM.with_defaults(Fixed(), spec, installed(version), cards(24)).cache_type_k == cache_type


# Its words


def test_the_plan_in_words() -> None:
    plan = size(problem(cards(24)))
    assert words(plan, "0.33.0") == [
        plan.model.reference, "--host", "127.0.0.1", "--port", "8000", "--max-model-len", "8192",
        "--max-num-seqs", str(plan.slots),
        "--max-num-batched-tokens", str(plan.batch_tokens), "--gpu-memory-utilization", "0.92",
        "--max-num-queued-reqs", str(plan.slots + plan.queue_requests), "--shutdown-timeout", "30",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "flag", "last_without", "first_with", "said"),
    [
        ({}, "--max-num-queued-reqs", "0.28.0", "0.29.0", "before 0.29.0"),
        ({"kv_memory_bytes": GIB}, "--kv-cache-memory-bytes", "0.10.1", "0.10.2", "before 0.10.2"),
        ({"nodes": 2}, "--nnodes", "0.11.0", "0.11.1", "came with 0.11.1"),
    ],
)
def test_a_flag_is_used_since_it_exists(
    changes: dict[str, object], flag: str, last_without: str, first_with: str, said: str
) -> None:
    plan = replace(size(problem(cards(24))), **changes)  # type: ignore[arg-type]
    assert flag not in words(plan, last_without)
    assert any(said in line for line in VLLM.warnings(plan, installed(last_without)))
    assert flag in words(plan, first_with)
    assert not any(said in line for line in VLLM.warnings(plan, installed(first_with)))


@pytest.mark.parametrize(
    ("spec", "cache_type", "version", "found"),
    [
        (model(), "bf16", "0.33.0", []),
        (model(), "fp8", "0.8.5", ["--kv-cache-dtype", "fp8"]),
        (model(), "f16", "0.33.0", ["--dtype", "half"]),
        (model(data_type="float16"), "f16", "0.33.0", []),
        (model(data_type="float16"), "bf16", "0.11.0", ["--kv-cache-dtype", "bfloat16"]),
        (model(data_type="float16"), "bf16", "0.10.2", []),
    ],
)
def test_the_type_of_the_cache_in_words(spec: ModelSpec, cache_type: str, version: str, found: list[str]) -> None:
    plan = replace(size(problem(cards(24))), model=spec, cache_type_k=cache_type, cache_type_v=cache_type)
    said = words(plan, version)
    assert [word for word in said if word in {"--kv-cache-dtype", "--dtype", "fp8", "half", "bfloat16"}] == found
    unsayable = cache_type == "bf16" and version == "0.10.2"
    assert any("cannot be told a cache in" in line for line in VLLM.warnings(plan, installed(version))) is unsayable


def test_switches_and_divisions_in_words() -> None:
    plan = replace(
        size(problem(cards(24))), prefix_caching=False, enforce_eager=True, tensor_parallel=2, pipeline_parallel=3
    )
    said = words(plan, "0.33.0")
    assert {"--no-enable-prefix-caching", "--enforce-eager"} <= set(said)
    assert said[said.index("--tensor-parallel-size") + 1] == "2"
    assert said[said.index("--pipeline-parallel-size") + 1] == "3"
    assert "--enable-prefix-caching" in words(replace(plan, prefix_caching=True), "0.33.0")


@pytest.mark.parametrize("table", [CACHE_MEMORY_FLAG, QUEUE_FLAG, QUEUE_SHARED, NODES_FLAG, CACHE_TYPE_WORDS])
def test_tables_are_sorted_and_have_sources(table: object) -> None:
    rows = table.rows  # type: ignore[attr-defined]
    assert [row.version for row in rows] == sorted(row.version for row in rows)
    assert all(row.source for row in rows)


def test_a_version_beyond_the_tables_is_said() -> None:
    plan = size(problem(cards(24)))
    assert any("newer than all" in line for line in VLLM.warnings(plan, installed("0.40.0")))
    assert not any("newer than all" in line for line in VLLM.warnings(plan, installed("0.33.0")))


# What a search may choose, and what it refuses


def test_the_fewest_cards_that_hold_it_are_used() -> None:
    assert size(problem(cards(24, 24, 24, 24))).tensor_parallel == 1
    assert size(problem(cards(16, 16, 16, 16))).tensor_parallel == 2
    fixed = size(problem(cards(24, 24, 24, 24), Fixed(tensor_parallel=4)))
    assert (fixed.tensor_parallel, len([row for row in fixed.budgets if row.device != "host"])) == (4, 4)


def test_cards_that_the_heads_cannot_be_divided_among_take_layers() -> None:
    plan = size(problem(cards(10, 10, 10)))
    assert (plan.tensor_parallel, plan.pipeline_parallel) == (1, 3)


def alone(choices: Choices) -> list[Split]:
    """The divisions of one copy of the model."""
    return [split for split in choices.splits if split.data_parallel == 1]


def test_divisions_that_the_heads_allow() -> None:
    spec = model(attention_heads=40, attention_layers=(AttentionLayer(8, 128, 128),) * 36)
    splits = alone(VLLM.choices(cards(*[80] * 8), spec, None, Fixed()))
    assert [split.tensor_parallel for split in splits if split.pipeline_parallel == 1] == [1, 2, 4, 8]
    assert VLLM.choices(cards(80), spec, None, Fixed(nodes=2)).splits == (Split(1, 2), Split(2))
    latent = model(
        attention_heads=40,
        feed_forward_length=10_240,
        attention_layers=(AttentionLayer(1, 576, 0, is_latent=True),) * 36,
    )
    splits = alone(VLLM.choices(cards(*[80] * 8), latent, None, Fixed()))
    assert [split.tensor_parallel for split in splits if split.pipeline_parallel == 1] == [1, 2, 4, 5, 8]


def test_several_machines_give_all_their_cards() -> None:
    spec = model(attention_heads=64, attention_layers=(AttentionLayer(8, 128, 128),) * 36)
    four = cards(*[80] * 4)
    splits = VLLM.choices(four, spec, None, Fixed(nodes=2)).splits
    assert splits == (Split(4, 2), Split(2, 4), Split(1, 8), Split(8, 1))
    assert VLLM.choices(four, spec, None, Fixed(nodes=2, tensor_parallel=2)).splits == (Split(2, 4),)
    assert VLLM.choices(four, spec, None, Fixed(nodes=2, pipeline_parallel=1)).splits == (Split(8, 1),)
    assert VLLM.choices(cards(*[80] * 3), spec, None, Fixed(nodes=2)).splits == (Split(1, 6),)


def with_places() -> ModelSpec:
    spec = model()
    layers = tuple(replace(layer, layer=number) for number, layer in enumerate(spec.attention_layers))
    return replace(spec, attention_layers=layers)


def test_the_cards_of_every_machine_are_counted() -> None:
    shape = Shape(2, 8192, cache_type_k="bf16", gpu_layers=37, tensor_parallel=2, gpu_memory_utilization=0.9)
    two = replace(shape, pipeline_parallel=2, nodes=2)
    rows = VLLM.memory_model(cards(24, 24), with_places(), None)(two)
    alone = VLLM.memory_model(cards(24, 24), with_places(), None)(shape)
    assert [row.device for row in rows] == ["host", "gpu0", "gpu1", "gpu2", "gpu3"]
    assert rows[0].runtime_bytes == alone[0].runtime_bytes  # of one machine, not of both
    assert {row.needed_cache_bytes for row in rows[1:]} == {(alone[1].needed_cache_bytes or 0) // 2}
    assert (rows[3].usable_cache_tokens or 0) > 1.9 * (alone[1].usable_cache_tokens or 0)


def test_hosts_whose_cards_have_their_memory_are_one_row_for_the_fullest() -> None:
    shared = replace(cards(24), gpus=(replace(cards(24).gpus[0], unified=True),))
    shape = Shape(2, 8192, cache_type_k="bf16", gpu_layers=37, kv_memory_bytes=3 * GIB)
    memory = VLLM.memory_model(shared, with_places(), None)
    (row,), (alone,) = memory(replace(shape, pipeline_parallel=2, nodes=2)), memory(shape)
    assert row.device == "host"
    assert 0.4 * alone.weights_bytes < row.weights_bytes < 0.7 * alone.weights_bytes
    assert row.cache_bytes == 3 * GIB
    assert row.needed_cache_bytes == (alone.needed_cache_bytes or 0) // 2


@pytest.mark.parametrize(
    ("fixed", "said"),
    [
        (Fixed(nodes=2, tensor_parallel=1, pipeline_parallel=1), "2 machines with 2 cards each are 4 cards"),
        (Fixed(nodes=3, tensor_parallel=4), "would not use all of them evenly"),
        (Fixed(tensor_parallel=3), "32 attention heads"),
        (Fixed(pipeline_parallel=40), "36 layers"),
        (Fixed(tensor_parallel=4), "more than the 2 cards"),
        (Fixed(batch_tokens=64, slots=128), "less than --slots 128"),
        (Fixed(context_tokens=1_000_000), "was trained on"),
    ],
)
def test_what_it_would_refuse_at_its_start(fixed: Fixed, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        VLLM.choices(cards(24, 24), model(), None, fixed)


def test_heads_that_are_neither_divided_nor_repeated() -> None:
    spec = model(attention_heads=24, attention_layers=(AttentionLayer(8, 128, 128),) * 36)
    with pytest.raises(UsageError, match="8 key and value heads"):
        VLLM.choices(cards(*[24] * 12), spec, None, Fixed(tensor_parallel=12))
    with pytest.raises(UsageError, match="8 key and value heads"):
        VLLM.choices(cards(*[24] * 3), spec, None, Fixed(tensor_parallel=3))


@pytest.mark.parametrize(
    ("capability", "fixed", "said"),
    [
        ((7, 0), Fixed(), "vLLM needs 7.5"),
        ((7, 5), Fixed(cache_type_k="fp8"), "fp8 needs 8.0"),
        ((7, 5), Fixed(cache_type_k="bf16"), "bfloat16 needs 8.0"),
    ],
)
def test_cards_that_cannot(capability: tuple[int, int], fixed: Fixed, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        VLLM.choices(cards(16, capability=capability), model(), None, fixed)


@pytest.mark.parametrize(
    ("capability", "types"),
    [((8, 9), ("bf16", "fp8")), ((8, 0), ("bf16",)), ((7, 5), ("f16",)), (None, ("bf16",))],
)
def test_eight_bits_are_offered_where_every_attention_takes_them(
    capability: tuple[int, int] | None, types: tuple[str, ...]
) -> None:
    assert VLLM.choices(cards(24, capability=capability), model(), None, Fixed()).cache_types == types


def test_the_share_is_lowered_to_what_is_free() -> None:
    hardware = cards(24)
    busy = replace(hardware, gpus=(replace(hardware.gpus[0], free_bytes=20 * GIB),))
    chosen = VLLM.choices(busy, model(), None, Fixed())
    assert chosen.gpu_memory_utilization == 0.81
    assert any("0.81 of the memory instead of 0.92" in line for line in chosen.warnings)
    assert VLLM.choices(hardware, model(), None, Fixed()).gpu_memory_utilization == 0.92
    assert VLLM.choices(hardware, model(), None, Fixed()).warnings == ()


def test_without_cards_the_share_leaves_room_for_its_other_processes() -> None:
    chosen = VLLM.choices(cpu_host(8 * GIB, cores=4), model(), Version.parse("0.32.0"), Fixed())
    assert chosen.gpu_memory_utilization is not None
    assert 0.7 < chosen.gpu_memory_utilization < 0.8
    assert any("its other processes and the host need the rest" in line for line in chosen.warnings)


def test_older_servers_without_cards_are_told_no_share() -> None:
    old = Version.parse("0.18.0")
    assert VLLM.choices(cpu_host(64 * GIB, cores=4), model(), old, Fixed()).gpu_memory_utilization is None
    assert defaults(cpu_host(64 * GIB, cores=4), "0.18.0").gpu_memory_utilization is None
    hardware = replace(cpu_host(64 * GIB, cores=4), gpu_detail=GIVEN)
    said = VLLM.choices(hardware, model(), old, Fixed(kv_memory_bytes=8 * GIB)).warnings
    assert any("VLLM_CPU_KVCACHE_SPACE=8" in line for line in said)


@pytest.mark.parametrize("architecture", ["gemma2", "gemma3", "glm4"])
def test_families_that_refuse_float16_do_not_start_on_cards_without_bfloat16(architecture: str) -> None:
    with pytest.raises(UsageError, match="cannot compute in float16, nor these cards in bfloat16"):
        VLLM.choices(cards(16, capability=(7, 5)), model(architecture=architecture), None, Fixed())


# Steps that are large enough to start

HYBRID = model(
    state_layers=(StateLayer("gated_delta", 24_576, 524_288),) * 3, attention_layers=(AttentionLayer(4, 256, 256),)
)
PICTURES = model(encoder=EncoderShape(1152, 4304, 9, 2496, whole_tokens=2496))


@pytest.mark.parametrize(
    ("version", "prefixes", "least"),
    [("0.16.0", True, 1), ("0.20.0", None, 1), ("0.20.0", True, 272), ("0.26.0", None, 272), ("0.27.0", None, 1)],
)
def test_a_step_holds_a_block_of_a_model_with_states(version: str, prefixes: bool | None, least: int) -> None:
    wanted = Fixed(prefix_caching=prefixes, cache_type_k="bf16")
    chosen = VLLM.choices(cards(24, capability=(8, 0)), HYBRID, Version.parse(version), wanted)
    assert chosen.least_batch_tokens == least
    if least > 1:
        with pytest.raises(UsageError, match=f"a block of .* is {least} tokens") as caught:
            VLLM.choices(cards(24), HYBRID, Version.parse(version), replace(wanted, batch_tokens=256))
        assert caught.value.hint == f"--max-num-batched-tokens {least}, or --no-enable-prefix-caching"


@pytest.mark.parametrize(("version", "vendor", "least"), [
    ("0.12.0", "nvidia", 1), ("0.20.0", "nvidia", 2496), ("0.20.0", "amd", 1), ("0.30.0", "amd", 2496),
])  # fmt: skip
def test_a_step_holds_a_whole_input_that_looks_both_ways(version: str, vendor: str, least: int) -> None:
    hardware = cards(80)
    hardware = replace(hardware, gpus=(replace(hardware.gpus[0], vendor=vendor),))
    chosen = VLLM.choices(hardware, PICTURES, Version.parse(version), Fixed())
    assert chosen.least_batch_tokens == least
    small = VLLM.choices(hardware, PICTURES, Version.parse(version), Fixed(batch_tokens=2048))
    assert any("--max-num-batched-tokens 2496 keeps them" in line for line in small.warnings) is (least > 1)


def test_a_plan_takes_the_least_that_starts() -> None:
    spec = replace(PICTURES, attention_layers=(AttentionLayer(8, 128, 128),) * 36)
    known = Version.parse("0.33.0")
    hardware = cards(48)
    found = problem(hardware)
    found = replace(found, model=spec, choices=VLLM.choices(hardware, spec, known, Fixed()))
    plan = size(found)
    assert plan.batch_tokens == 2496
    assert any("no less than the server needs to start" in reason.formula for reason in plan.reasons)


# The plan


@pytest.mark.parametrize("gib", [24, 32, 48, 80])
def test_full_slots_fit_the_pool_with_their_margin(gib: int) -> None:
    plan = size(problem(cards(gib), workload=replace(CHAT, users=400)))
    card = plan.budgets[1]
    assert card.needed_cache_bytes is not None
    assert card.request_cache_bytes is not None
    assert card.usable_cache_tokens is not None
    others = card.needed_cache_bytes - card.request_cache_bytes
    assert card.request_cache_bytes + others / 0.95 <= card.cache_bytes
    assert plan.slots * plan.context_tokens_per_slot <= card.usable_cache_tokens
    assert card.free_bytes >= 0


def test_more_memory_never_gives_fewer_slots() -> None:
    many = replace(CHAT, users=2000)
    slots = [size(problem(cards(gib), workload=many)).slots for gib in range(20, 84, 4)]
    assert slots == sorted(slots)
    assert slots[0] < slots[-1]


def test_a_model_that_does_not_fit_names_what_would() -> None:
    from llmops.core.errors import DoesNotFit

    with pytest.raises(DoesNotFit) as refusal:
        size(problem(cards(16)))
    assert refusal.value.hint is not None
    assert "take a checkpoint under" in refusal.value.hint
    asked = problem(cards(12))
    asked = replace(
        asked,
        memory_with_cards=lambda count: VLLM.memory_model(cards(*[12] * count), model(), Version.parse("0.33.0")),
    )
    with pytest.raises(DoesNotFit) as refusal:
        size(asked)
    assert refusal.value.hint is not None
    assert "2 such cards with --tensor-parallel 2 fit" in refusal.value.hint


def test_a_context_that_does_not_fit_names_the_longest_that_does() -> None:
    from llmops.core.errors import DoesNotFit

    with pytest.raises(DoesNotFit, match="1 slot of 40960 tokens") as refusal:
        size(problem(cards(20), Fixed(context_tokens=40_960)))
    assert refusal.value.hint is not None
    longest = int(refusal.value.hint.split("--context ")[1].split()[0])
    assert size(problem(cards(20), Fixed(context_tokens=longest))).context_tokens_per_slot == longest
    with pytest.raises(DoesNotFit):
        size(problem(cards(20), Fixed(context_tokens=longest + 256)))


def test_every_number_has_its_reason() -> None:
    plan = size(problem(cards(24)))
    told = {reason.quantity for reason in plan.reasons}
    assert {
        "slots", "context_tokens_per_slot", "batch_tokens", "queue_requests", "gpu_memory_utilization",
        "tensor_parallel", "cache pool of gpu0", "prefix_caching", "enforce_eager", "cache_types", "memory of gpu0",
    } <= told  # fmt: skip
    assert "threads" not in told
    given = size(problem(cards(24), Fixed(kv_memory_bytes=2 * GIB)))
    assert "kv_memory_bytes" in {reason.quantity for reason in given.reasons}


def test_on_the_processor_blocks_are_larger() -> None:
    host = replace(cpu_host(64 * GIB, cores=16, bandwidth=100_000_000_000), gpu_detail=GIVEN)
    plan = size(problem(host, Fixed(kv_memory_bytes=4 * GIB)))
    (row,) = plan.budgets
    assert row.cache_tokens == 4 * GIB // (147_456 * 128) * 128
    assert plan.gpu_layers is None


# What it does not do


def test_a_plan_without_weights_is_not_made_live() -> None:
    VLLM.require_configurable()
    VLLM.require_configurable(model())
    with pytest.raises(Unsupported, match="holds no weights"):
        VLLM.require_configurable(model(weights_basis="config"))
