"""What a refusal advises is tried: every change that it names makes the plan fit."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from llmops.core.errors import DoesNotFit
from llmops.core.hardware import Gpu, Hardware
from llmops.core.model import ModelSpec
from llmops.core.overrides import GIVEN
from llmops.core.plan import Fixed, Plan
from llmops.core.problem import Problem
from llmops.core.sizing import size
from llmops.core.units import MIB, format_bytes, parse_bytes
from llmops.core.version import Version
from llmops.core.workload import DEFAULTS, Workload, WorkloadKind
from llmops.engines import engine_named
from llmops.engines.llama_server.memory import memory_model
from tests.unit.core.example_models import GIB, cpu_host, eight_billion_16_bit, one_card, problem

CHAT = DEFAULTS[WorkloadKind.CHAT]
AGENT = DEFAULTS[WorkloadKind.AGENT]


def two_cards(first: int, second: int) -> Hardware:
    one = one_card(first)
    return replace(one, gpus=(one.gpus[0], replace(one.gpus[0], index=1, total_bytes=second, free_bytes=second)))


def busy(hardware: Hardware, free_bytes: int) -> Hardware:
    """The same machine with other programs on its cards, or in its memory where it has none."""
    if hardware.gpus:
        return replace(hardware, gpus=(replace(hardware.gpus[0], free_bytes=free_bytes),))
    return replace(hardware, memory=replace(hardware.memory, available_bytes=free_bytes))


REFUSED = [
    problem(cpu_host(8 * GIB)),
    problem(cpu_host(16 * GIB)),
    problem(cpu_host(18 * GIB), fixed=Fixed(context_tokens=32_768)),
    problem(cpu_host(18 * GIB), AGENT),
    problem(cpu_host(24 * GIB), fixed=Fixed(slots=64)),
    problem(one_card(12 * GIB)),
    problem(one_card(20 * GIB), AGENT, fixed=Fixed(slots=2)),
    problem(one_card(), fixed=Fixed(slots=64, cache_type_k="f16", cache_type_v="f16")),
    problem(two_cards(10 * GIB, 8 * GIB)),
    problem(busy(cpu_host(32 * GIB), 16 * GIB)),
    problem(busy(one_card(), 12 * GIB)),
    problem(two_cards(16 * GIB, 6 * GIB), AGENT),
    problem(one_card(), fixed=Fixed(prompt_cache_bytes=200 * GIB)),
]


def refusal(asked: Problem) -> str:
    with pytest.raises(DoesNotFit) as refused:
        size(asked)
    return refused.value.hint or ""


def on(hardware: Hardware, asked: Problem, model: ModelSpec | None = None) -> Problem:
    model = model or asked.model
    return replace(asked, hardware=hardware, model=model, memory=memory_model(hardware, model, None))


def with_more(hardware: Hardware, amounts: dict[str, int], *, added: bool) -> Hardware:
    """More is free on these devices, or more is installed."""

    def more(gpu: Gpu) -> Gpu:
        extra = amounts.get(f"gpu{gpu.index}", 0)
        total = (gpu.total_bytes or 0) + (extra if added else 0)
        return replace(gpu, free_bytes=(gpu.free_bytes or 0) + extra, total_bytes=total)

    memory, extra = hardware.memory, amounts.get("host", 0)
    total = (memory.total_bytes or 0) + (extra if added else 0)
    memory = replace(memory, available_bytes=(memory.available_bytes or 0) + extra, total_bytes=total)
    return replace(hardware, memory=memory, gpus=tuple(more(gpu) for gpu in hardware.gpus))


def shrunk(model: ModelSpec, weights_bytes: int) -> ModelSpec:
    """The same model in a smaller quantisation: every tensor by the same share."""
    share = weights_bytes / model.weights_bytes
    tensors = tuple(
        replace(one, stored_bytes=int(one.stored_bytes * share), matrix_bytes=int(one.matrix_bytes * share))
        for one in model.tensors
    )
    return replace(model, weights_bytes=sum(one.stored_bytes for one in tensors), tensors=tensors)


@pytest.mark.parametrize("asked", REFUSED)
def test_every_change_that_is_named_makes_it_fit(asked: Problem) -> None:
    hint, tried = refusal(asked), 0
    for slots in re.findall(r"--slots (\d+) fits", hint):
        assert fits(replace(asked, fixed=replace(asked.fixed, slots=int(slots))))
        tried += 1
    for context in re.findall(r"--context (\d+) fits", hint):
        assert fits(replace(asked, fixed=replace(asked.fixed, context_tokens=int(context))))
        tried += 1
    if "--no-gpu fits" in hint:
        assert fits(replace(on(replace(asked.hardware, gpus=()), asked), on_gpu=False))
        tried += 1
    if "leave --cache-ram" in hint:
        assert fits(replace(asked, fixed=replace(asked.fixed, prompt_cache_bytes=None, context_checkpoints=None)))
        tried += 1
    for under in re.findall(r"model file under ([\d.]+ \w+)", hint):
        assert fits(on(asked.hardware, asked, shrunk(asked.model, parse_bytes(under))))
        tried += 1
    assert tried == hint.count("; or "), "all but the memory itself, which is tried below"


@pytest.mark.parametrize("asked", REFUSED)
def test_the_memory_that_is_named_suffices_and_less_does_not(asked: Problem) -> None:
    part = next(
        part for part in refusal(asked).split("; or ") if re.search(r"free|add|more", part) and "leave" not in part
    )
    cards = {device: parse_bytes(size) for size, device in re.findall(r"([\d.]+ \wiB)(?: more)? on (gpu\d)", part)}
    free = [(parse_bytes(amount), False) for amount in re.findall(r"free ([\d.]+ \wiB) \(or", part)]
    add = [(parse_bytes(amount), True) for amount in re.findall(r"add ([\d.]+ \wiB)", part)]
    assert cards or add
    for host, added in [*free, *(add or [(0, "more on gpu" in part)])]:
        amounts = {**cards, "host": host}
        assert fits(on(with_more(asked.hardware, amounts, added=added), asked))
        # What is added is up to 5 % too much: that is how the reserve of the host may grow.
        less = {device: int(amount * 0.93) for device, amount in amounts.items()}
        assert not fits(on(with_more(asked.hardware, less, added=added), asked))


def test_memory_in_use_is_freed_and_memory_that_is_not_there_is_added() -> None:
    assert re.search(
        r"free [\d.]+ GiB \(or add [\d.]+ GiB\) on host", refusal(problem(busy(cpu_host(32 * GIB), 16 * GIB)))
    )
    assert re.search(r"^add [\d.]+ GiB on host", refusal(problem(cpu_host(8 * GIB))))
    assert re.search(r"free [\d.]+ GiB on gpu0", refusal(problem(busy(one_card(), 12 * GIB))))


def test_two_cards_need_more_alike_so_that_the_layers_stay_where_they_are() -> None:
    hint = refusal(problem(two_cards(10 * GIB, 8 * GIB)))
    assert re.search(r"[\d.]+ \wiB more on gpu0 and [\d.]+ \wiB more on gpu1", hint)


def test_a_card_that_is_too_small_is_never_helped_out_silently() -> None:
    assert "--no-gpu fits" in refusal(problem(one_card(12 * GIB)))
    small_host = replace(one_card(12 * GIB), memory=cpu_host(8 * GIB).memory)
    assert "--no-gpu" not in refusal(problem(small_host))


def test_a_card_without_room_for_the_engine_itself_is_to_be_hidden() -> None:
    crowded = two_cards(24 * GIB, 1 * GIB)
    hint = refusal(problem(crowded))
    assert "hide gpu1 from the engine" in hint
    assert "more on gpu0" not in hint
    assert fits(on(replace(crowded, gpus=crowded.gpus[:1]), problem(crowded)))


def test_no_model_file_of_nothing_is_advised() -> None:
    hint = refusal(problem(cpu_host(1 * GIB)))
    assert "model file" not in hint
    assert format_bytes(0) not in hint


def test_what_the_user_fixes_for_saved_prompts_counts() -> None:
    with pytest.raises(DoesNotFit):
        size(problem(cpu_host(24 * GIB), fixed=Fixed(prompt_cache_bytes=20 * GIB)))


def fits(asked: Problem) -> bool:
    return isinstance(plan_or_none(asked), Plan)


def plan_or_none(asked: Problem) -> Plan | None:
    try:
        return size(asked)
    except DoesNotFit:
        return None


def test_the_examples_are_about_the_whole_load() -> None:
    loads: set[Workload] = {asked.workload for asked in REFUSED}
    assert loads == {CHAT, AGENT}
    assert {asked.model.reference for asked in REFUSED} == {eight_billion_16_bit().reference}


class TestAPoolThatIsGiven:
    """vLLM's --kv-memory: what is short is cache, whatever the device has."""

    MODEL = replace(eight_billion_16_bit(), data_type="bfloat16", format="safetensors")
    ONE_REQUEST = Fixed(slots=1, context_tokens=8_192)

    def asked(self, pool_mebibytes: int) -> Problem:
        hardware = replace(cpu_host(64 * GIB, cores=16, bandwidth=10**11), gpu_detail=GIVEN)
        fixed, engine = replace(self.ONE_REQUEST, kv_memory_bytes=pool_mebibytes * MIB), engine_named("vllm")
        version = Version.parse("0.32.0")
        return replace(
            problem(hardware, fixed=fixed),
            engine="vllm",
            model=self.MODEL,
            memory=engine.memory_model(hardware, self.MODEL, version),
            choices=engine.choices(hardware, self.MODEL, version, fixed),
        )

    @pytest.mark.parametrize("pool_mebibytes", [64, 1_000])
    def test_too_little_for_one_request_says_what_it_needs_and_the_longest_that_fits(self, pool_mebibytes: int) -> None:
        with pytest.raises(DoesNotFit) as refused:
            size(self.asked(pool_mebibytes))
        # 65 blocks of 128 tokens and 144 KiB for each token.
        assert f"needs 1.14 GiB of cache on host, and {format_bytes(pool_mebibytes * MIB)} of it are given" in str(
            refused.value
        )
        hint = refused.value.hint or ""
        assert "tokens fit" in hint or re.search(r"--context \d+ fits", hint)
        enough = int(re.search(r"--kv-memory (\d+)MiB fits", hint)[1])  # type: ignore[index]
        assert size(self.asked(enough)).slots == 1
        with pytest.raises(DoesNotFit):
            size(self.asked(enough - 1))
