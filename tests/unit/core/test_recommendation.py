"""Which engine suits a load: more slots first, vLLM only where it pays, and why not where it does not."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llmops.core.hardware import Gpu, Hardware
from llmops.core.model import ModelSpec
from llmops.core.recommendation import Circumstances, Step, recommend, vllm_room_bytes
from llmops.core.vllm_cards import (
    BFLOAT16,
    EVERY_FP8_CACHE,
    FP8_CACHE,
    FP8_COMPUTE,
    QUANTIZATIONS,
    RUNS,
    card_limits,
    old_driver,
    why_not_these_cards,
)
from tests.unit.core.example_models import GIB, cpu_host, eight_billion_16_bit


def card(gib: int = 24, capability: tuple[int, int] | None = (8, 9), **changes: object) -> Gpu:
    found = Gpu(0, None, "Card", gib * GIB, gib * GIB, capability, 1_000_000_000_000)
    return replace(found, **changes)  # type: ignore[arg-type]


def machine(*cards: Gpu, ram_gib: int = 64, driver: str | None = None) -> Hardware:
    return replace(cpu_host(ram_gib * GIB, cores=16), gpus=cards, driver_version=driver)


def model(**changes: object) -> ModelSpec:
    return replace(eight_billion_16_bit(), **changes)  # type: ignore[arg-type]


def circumstances(**changes: object) -> Circumstances:
    """Eight requests of 2,048 tokens in flight on a 48 GB card, served by llama-server as planned."""
    usual: dict[str, object] = {
        "engine": "llama-server",
        "hardware": machine(card(48)),
        "model": model(),
        "in_flight": 8.0,
        "slots": 8,
        "context_tokens": 2_048,
    }
    return Circumstances(**{**usual, **changes})  # type: ignore[arg-type]


def test_more_slots_come_first() -> None:
    found = recommend(circumstances(engine="ollama", served_slots=1))
    assert (found.engine, found.step) == ("ollama", Step.RAISE_SLOTS)
    assert found.message.startswith("raise OLLAMA_NUM_PARALLEL from 1 to 8 first")
    assert any("one file" in reason for reason in found.reasons)
    assert recommend(circumstances(served_slots=4)).message.startswith("raise --parallel from 4 to 8")


@pytest.mark.parametrize("served", [None, 8, 16])
def test_vllm_is_named_only_where_the_slots_are_there_and_it_pays(served: int | None) -> None:
    found = recommend(circumstances(served_slots=served))
    assert (found.engine, found.step) == ("vllm", Step.CONSIDER_VLLM)
    assert "8 slots of llama-server are not enough" in found.message
    assert found.reasons[0] == "8.0 requests are really in flight, more than about 4"


def test_a_gguf_file_must_be_had_as_a_checkpoint() -> None:
    assert "not as GGUF" in recommend(circumstances(model=model(format="gguf"))).message
    assert "GGUF" not in recommend(circumstances(model=model(format="safetensors"))).message


def test_a_model_that_vllm_does_not_know_is_not_recommended_for_it() -> None:
    found = recommend(circumstances(not_served="no release has it"))
    assert (found.engine, found.step, found.reasons[0]) == ("llama-server", Step.KEEP, "no release has it")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"in_flight": 4.0}, "4.0 requests are really in flight: up to about 4"),
        ({"hardware": machine()}, "no supported graphics card"),
        ({"hardware": machine(ram_gib=8)}, "a machine of 8.00 GiB without a card"),
        ({"hardware": machine(ram_gib=4)}, "about 2 GiB of it"),
        ({"hardware": machine(card(48, (7, 0)))}, "compute capability 7.0, and vLLM needs 7.5"),
        ({"hardware": machine(card(48, (7, 5))), "model": model(quantization_method="mxfp4")}, "MXFP4 needs 8.0"),
        ({"hardware": machine(card(48, None, vendor="intel"))}, "neither from NVIDIA nor from AMD"),
    ],
)
def test_where_it_does_not_pay_the_engine_stays_and_a_wish_for_vllm_is_answered(
    changes: dict[str, object], words: str
) -> None:
    kept = recommend(circumstances(**changes))
    assert (kept.engine, kept.step) == ("llama-server", Step.KEEP)
    assert any(words in reason for reason in kept.reasons), kept.reasons
    asked = recommend(circumstances(**changes, engine="vllm"))
    assert (asked.engine, asked.step, asked.reasons) == ("llama-server", Step.NOT_VLLM, kept.reasons)
    assert "does not pay" in asked.message


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"hardware": machine(card(16))}, "the cards have no room: about"),
        ({"hardware": machine(card(48, free_bytes=10 * GIB))}, "vLLM may take 10.00 GiB"),
        ({"context_tokens": 65_536}, "8 requests of 65,536 tokens"),
    ],
)
def test_without_room_for_those_in_flight_the_engine_stays(changes: dict[str, object], words: str) -> None:
    (reason,) = recommend(circumstances(**changes)).reasons
    assert words in reason
    (few,) = recommend(circumstances(**changes, in_flight=2.0)).reasons
    assert few.startswith("2.0 requests are really in flight"), "room for many is no question then"


def test_a_plan_for_vllm_knows_itself_how_many_it_holds() -> None:
    held = recommend(circumstances(engine="vllm", hardware=machine(card(16)), slots=4))
    assert (held.step, held.reasons) == (
        Step.NOT_VLLM,
        ("its cache holds 4 requests of 2,048 tokens at once, and 8 are in flight",),
    )
    assert recommend(circumstances(engine="vllm", hardware=machine(card(16)), slots=5)).step is Step.KEEP


def test_asked_for_and_right() -> None:
    found = recommend(circumstances(engine="vllm", hardware=machine(card(48), driver="570.133.07")))
    assert (found.engine, found.step) == ("vllm", Step.KEEP)
    assert any("driver 570.133.07 is older than 580" in reason for reason in found.reasons)


def test_cards_that_nobody_described_are_not_held_against_it() -> None:
    found = recommend(circumstances(engine="vllm", hardware=machine(), on_a_card=True))
    assert (found.step, found.asks_for_something) == (Step.KEEP, False)
    assert found.reasons[0].startswith("8.0 requests are really in flight")
    assert recommend(circumstances(engine="vllm", hardware=machine())).asks_for_something


def test_room_is_that_of_the_smallest_card_and_nothing_where_a_size_is_unknown() -> None:
    assert vllm_room_bytes(machine(card(24), card(12))) == 2 * round(12 * GIB * 0.92)
    assert vllm_room_bytes(machine(card(24, free_bytes=None))) == round(24 * GIB * 0.92)
    assert vllm_room_bytes(machine(card(24), card(24, total_bytes=None, free_bytes=None))) is None
    assert vllm_room_bytes(machine()) is None


@settings(deadline=None)
@given(st.floats(0.0, 500.0), st.integers(1, 200), st.integers(0, 200), st.sampled_from(["ollama", "llama-server"]))
def test_without_a_card_vllm_is_never_recommended(in_flight: float, slots: int, served: int, engine: str) -> None:
    small = circumstances(
        engine=engine, hardware=machine(ram_gib=8), in_flight=in_flight, slots=slots, served_slots=served
    )
    found = recommend(small)
    assert found.engine == engine
    assert found.step in {Step.KEEP, Step.RAISE_SLOTS}
    assert found.reasons


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (card(capability=(7, 5)), None),
        (card(capability=(6, 1)), "6.1, and vLLM needs 7.5"),
        (card(capability=None), None),
        (card(capability=None, vendor="amd", architecture="gfx942"), None),
        (card(capability=None, vendor="amd", architecture=None), None),
        (card(capability=None, vendor="amd", architecture="gfx906"), "gfx906"),
    ],
)
def test_which_cards_it_runs_on(found: Gpu, words: str | None) -> None:
    said = why_not_these_cards((card(), found))
    assert said is None if words is None else words in str(said)


@pytest.mark.parametrize(
    ("method", "capability", "legal"),
    [
        ("awq", (7, 5), True),
        ("fp8", (7, 5), True),
        ("modelopt", (7, 5), False),
        ("modelopt", (8, 0), True),
        ("mxfp4", (7, 5), False),
        ("mxfp4", (8, 0), True),
        ("experts_int8", (7, 5), False),
        ("something new", (7, 5), True),
        (None, (7, 5), True),
    ],
)
def test_which_checkpoints_it_takes_on_which_cards(
    method: str | None, capability: tuple[int, int], *, legal: bool
) -> None:
    assert (why_not_these_cards((card(capability=capability),), method) is None) is legal


def test_what_older_cards_do_in_part() -> None:
    (half,) = card_limits((card(capability=(7, 5)), card(capability=(7, 5))))
    assert "--dtype half" in half
    assert [line for line in card_limits((card(capability=(8, 6)),), "fp8") if "only saves memory" in line]
    assert card_limits((card(capability=(8, 9)), card(capability=None)), "fp8") == ()


@pytest.mark.parametrize(("version", "old"), [("579.9", True), ("580.65.06", False), (None, False), ("weird", False)])
def test_drivers(version: str | None, *, old: bool) -> None:
    assert (old_driver(version) is not None) is old


def test_every_rule_has_a_source_and_a_way_out() -> None:
    for rule in (RUNS, BFLOAT16, FP8_CACHE, EVERY_FP8_CACHE, FP8_COMPUTE, *QUANTIZATIONS.values()):
        assert rule.source.startswith("vllm 0.")
        assert rule.instead
