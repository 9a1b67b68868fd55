"""Every number is explained, and from the inputs that are printed its formula gives the number that is printed."""

from __future__ import annotations

import math
import re
from dataclasses import fields, replace

import pytest

from llmops.core.plan import Fixed, MeasuredRates, Plan, Policy, Reason
from llmops.core.problem import Problem
from llmops.core.sizing import size
from llmops.core.workload import DEFAULTS, WorkloadKind
from tests.unit.core.example_models import GIB, cpu_host, one_card, problem

CHAT = DEFAULTS[WorkloadKind.CHAT]
FAST = MeasuredRates(((1, 40.0), (2, 30.0)), 900.0)
PROBLEMS = {
    "card": problem(one_card()),
    "processor": problem(cpu_host(64 * GIB)),
    "measured": problem(cpu_host(64 * GIB), measured=FAST),
    "agents": problem(one_card(80 * GIB), DEFAULTS[WorkloadKind.AGENT]),
    "saturated": problem(cpu_host(64 * GIB), replace(CHAT, users=50, turn_seconds=10.0)),
}
# The numbers of a plan that are parts of one reason.
TOLD_UNDER = {
    "threads": "threads", "batch_threads": "threads", "ubatch_tokens": "batch_tokens", "cache_type_k": "cache_types",
    "cache_type_v": "cache_types", "prompt_cache_bytes": "prompt_cache", "context_checkpoints": "prompt_cache",
    "memory_mapped": "weights in memory", "repack": "weights in memory", "wait_probability": "wait",
    "wait_seconds_mean": "wait", "binding_constraint": "slots", "budgets": "memory of host", "speeds": "speed",
    "passive_waiting": "waiting of threads",
}  # fmt: skip
# vLLM's values, and one for models of experts: without a reason while they are as if they were not there.
OF_OTHER_ENGINES = {
    "cpu_expert_layers",
    "tensor_split",
    "gpu_memory_utilization",
    "kv_memory_bytes",
    "tensor_parallel",
    "pipeline_parallel",
    "data_parallel",
    "expert_parallel",
    "layer_partition",
    "nodes",
    "prefix_caching",
    "enforce_eager",
    "draft_reference",
    "replicas",
}
NO_NUMBERS = {
    # loaded_models is explained by what plans several models together
    "loaded_models",
    "engine",
    "engine_version",
    "model",
    "workload",
    "policy",
    "reasons",
    "warnings",
    "swa_full",
}


def explained(asked: Problem) -> tuple[Plan, dict[str, Reason]]:
    plan = size(asked)
    return plan, {reason.quantity: reason for reason in plan.reasons}


def number(text: str) -> float:
    found = re.match(r"-?[\d.]+(?:e[+-]?\d+)?", text)
    assert found, text
    return float(found.group())


def inputs(reason: Reason) -> dict[str, float]:
    return {name: number(value) for name, value in reason.inputs if re.match(r"-?\d", value)}


@pytest.mark.parametrize("asked", PROBLEMS.values(), ids=PROBLEMS)
def test_every_number_has_its_reason(asked: Problem) -> None:
    plan, reasons = explained(asked)
    for row in fields(Plan):
        of_another_engine = row.name in OF_OTHER_ENGINES and getattr(plan, row.name) == row.default
        if row.name not in NO_NUMBERS and not of_another_engine:
            assert TOLD_UNDER.get(row.name, row.name) in reasons, row.name
    assert {f"memory of {budget.device}" for budget in plan.budgets} <= set(reasons)
    assert {"speed", "speed of 2", "speed of 5", "speed of 20", "prefill", "knee"} <= set(reasons)
    assert all(reason.formula and reason.source and reason.value for reason in plan.reasons)


@pytest.mark.parametrize("name", PROBLEMS)
def test_the_load_can_be_recomputed(name: str) -> None:
    plan, reasons = explained(PROBLEMS[name])
    given = inputs(reasons["generation_seconds"])
    seconds = given["m"] * given["prompt"] / given["prefill rate"] + given["reply"] * given["step"]
    assert seconds == pytest.approx(number(reasons["generation_seconds"].value), rel=0.002)
    load = inputs(reasons["in_flight"])
    if reasons["in_flight"].formula.startswith("users x"):
        assert load["users"] * load["generation"] / load["between turns"] == pytest.approx(plan.in_flight, rel=0.01)
    else:
        assert plan.in_flight == load["users"]
    queue = inputs(reasons["queue_requests"])
    assert plan.queue_requests == max(1, math.floor(queue["patience"] * queue["slots"] / queue["S"]))


@pytest.mark.parametrize("name", PROBLEMS)
def test_speeds_can_be_recomputed(name: str) -> None:
    plan, reasons = explained(PROBLEMS[name])
    for speed in plan.speeds:
        reason = reasons["speed" if speed.streams == 1 else f"speed of {speed.streams}"]
        given = {key.partition(" (")[0]: value for key, value in inputs(reason).items()}
        rate = speed.decode_tokens_per_second_per_stream.likely
        if speed.basis == "measured":
            assert reason.formula.startswith("measured")
        else:
            assert 1000 / given["step"] == pytest.approx(rate, rel=0.001)
        if "starting kernels" in given:
            reading, computing = given["reading weights"], given["computing"]
            both = max(reading, computing) + given["not overlapping"] * min(reading, computing)
            caches = speed.streams * given["cache of each stream"]
            assert given["starting kernels"] + both + caches == pytest.approx(given["step"], rel=0.001)
        if "share of it reached" in given and speed.streams == 1:
            reached = given["bandwidth"] * 1e9 * given["share of it reached"]
            assert given["active weights"] * GIB / reached * 1000 == pytest.approx(given["reading weights"], rel=0.02)
        first = (speed.streams + 1) / 2 * given["prompt"] / given["prefill"] + 1 / rate
        assert first == pytest.approx(speed.ttft_seconds, rel=0.001)


@pytest.mark.parametrize("name", PROBLEMS)
def test_the_knee_says_how_much_streams_get_together_and_how_much_there_is(name: str) -> None:
    reason = explained(PROBLEMS[name])[1]["knee"]
    streams, total, most = (float(part) for part in re.findall(r"\d[\d.]*(?:e\+\d+)?", reason.value))
    rates = PROBLEMS[name].rates.likely
    assert total == pytest.approx(rates.total_tokens_per_second(streams), rel=0.001)
    assert total < most <= 1.001 * inputs(reason)["limit"]


def test_tens_of_thousands_of_tokens_are_written_without_powers_of_ten() -> None:
    fast = MeasuredRates(((1, 9_000.0), (2, 8_000.0)), 90_000.0)
    _, reasons = explained(problem(cpu_host(64 * GIB), measured=fast))
    text = reasons["knee"].value + "".join(value for _, value in reasons["knee"].inputs)
    assert re.search(r"\d{5}", text)
    assert "e+" not in text


def test_prefill_can_be_recomputed() -> None:
    plan, reasons = explained(PROBLEMS["card"])
    given = inputs(reasons["prefill"])
    assert given["operations"] / (2 * given["parameters"]) == pytest.approx(
        plan.speeds[0].prefill_tokens_per_second, rel=1e-3
    )


def test_the_bandwidth_that_is_named_is_the_one_that_was_used() -> None:
    _, on_card = explained(PROBLEMS["card"])
    assert ("bandwidth", "936.0 GB/s") in on_card["speed"].inputs
    _, on_host = explained(PROBLEMS["processor"])
    assert ("bandwidth", "20.0 GB/s") in on_host["speed"].inputs
    _, unknown = explained(problem(cpu_host(64 * GIB, bandwidth=None)))
    assert ("bandwidth", "assumed") in unknown["speed"].inputs
    _, measured = explained(PROBLEMS["measured"])
    assert not [name for name, _ in measured["speed of 5"].inputs if name == "bandwidth"]


def test_bytes_per_token_can_be_recomputed() -> None:
    plan, reasons = explained(PROBLEMS["card"])
    layers = dict(reasons["cache_bytes_per_token"].inputs)["layers"]
    count, heads, keys, values = (int(digits) for digits in re.findall(r"\d+", layers))
    assert count * heads * (keys + values) * 2 == plan.model.cache_bytes_per_token == 147_456


def test_the_batch_is_explained_as_it_was_chosen() -> None:
    def formula(asked: Problem) -> str:
        return explained(asked)[1]["batch_tokens"].formula

    _, reasons = explained(PROBLEMS["measured"])
    given = inputs(reasons["batch_tokens"])
    assert number(reasons["batch_tokens"].value) == 2 ** math.floor(math.log2(given["prefill"] * given["gap"])) == 1024
    assert "large batch" in formula(problem(one_card(), policy=Policy(protect="ttft")))
    assert "a larger one would bring first tokens sooner" in formula(PROBLEMS["measured"])
    assert "not computed" in formula(problem(one_card(), fixed=Fixed(batch_tokens=300)))


def test_what_the_user_gave_is_not_called_computed() -> None:
    asked = problem(
        one_card(80 * GIB), fixed=Fixed(slots=3, queue_requests=7, cache_type_k="f16", prompt_cache_bytes=0)
    )
    _, reasons = explained(asked)
    for quantity in ("slots", "queue_requests", "cache_types", "prompt_cache"):
        assert "not computed" in reasons[quantity].formula, quantity
    seconds = explained(problem(one_card(), replace(CHAT, generation_seconds=12.0)))[1]["generation_seconds"]
    assert (seconds.formula, seconds.source) == ("given", "the user")


def test_budgets_are_the_sum_of_the_parts_that_are_printed() -> None:
    plan, reasons = explained(PROBLEMS["card"])
    units = {"MiB": 1 / 1024, "GiB": 1.0, "KiB": 1 / 1024**2}
    for budget in plan.budgets:
        reason = reasons[f"memory of {budget.device}"]
        parts = [float(value.split()[0]) * units[value.split()[1]] for _, value in reason.inputs]
        assert sum(parts) == pytest.approx(budget.used_bytes / GIB, abs=0.03)
        assert "compute" in reason.source, "why compute is a range"
