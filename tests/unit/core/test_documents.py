"""What leaves the process can be read back without loss, and what is wrong in it is named."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from llmops.core.documents import hardware_document, hardware_from_document, plan_document, plan_from_document
from llmops.core.errors import UnreadableInput
from llmops.core.hardware import Hardware
from tests.unit.cli.samples import HARDWARE, PLAN


def through_json(document: object) -> Any:
    return json.loads(json.dumps(document, allow_nan=False))


def test_hardware_survives_the_round_trip() -> None:
    assert hardware_from_document(through_json(hardware_document(HARDWARE)), "hardware") == HARDWARE


def test_capability_is_written_as_people_write_it() -> None:
    assert hardware_document(HARDWARE)["gpus"][0]["compute_capability"] == "8.6"


def test_hardware_of_a_few_keys_takes_defaults_for_the_rest() -> None:
    hardware = hardware_from_document({"memory": {"total_bytes": 5}}, "hardware")
    assert (hardware.memory.total_bytes, hardware.gpus, hardware.cpu) == (5, (), Hardware().cpu)


def test_plan_survives_the_round_trip() -> None:
    document = plan_document(PLAN, environment={"NAME": "value"}, arguments=("--parallel", "4"))
    assert plan_from_document(through_json(document), "plan") == PLAN


def test_budget_parts_and_free_sum_to_what_is_available() -> None:
    (row,) = plan_document(PLAN)["budget"]
    parts = [
        value for key, value in row.items() if key.endswith("_bytes") and key not in {"total_bytes", "available_bytes"}
    ]
    assert sum(parts) == row["available_bytes"]
    assert row["ranges"]["compute_bytes"] == [200 * 1024**2, 300 * 1024**2]


def broken(path: tuple[str | int, ...], value: object) -> Any:
    document = through_json(hardware_document(HARDWARE))
    place = document
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    return document


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ([], "expected an object"),
        (
            broken(("memory", "total_bytes"), "8 GB"),
            "hardware.memory.total_bytes: expected a whole number, found '8 GB'",
        ),
        (broken(("memory", "total_bytes"), -1), "not negative"),
        (broken(("memory", "total_bytes"), True), "expected a whole number, found True"),
        (broken(("memory", "totl_bytes"), 1), "hardware.memory: unknown key 'totl_bytes'"),
        (broken(("memory", "total_bytes"), 0), "hardware.memory.total_bytes: expected a number above 0"),
        (broken(("cpu", "usable_threads"), 0), "hardware.cpu.usable_threads: expected a number above 0"),
        (broken(("bandwidth", "read_bytes_per_second"), 0), "bandwidth.read_bytes_per_second: expected a number"),
        (broken(("gpus", 0, "total_bytes"), 0), r"hardware.gpus\[0\].total_bytes: expected a number above 0"),
        (broken(("gpus",), 3), "hardware.gpus: expected a list"),
        (broken(("gpus", 0), 3), r"hardware.gpus\[0\]: expected an object"),
        (broken(("gpus", 0, "compute_capability"), "eight"), "compute_capability: expected a text such as"),
        (broken(("gpus", 0, "compute_capability"), [8]), "a list of 2"),
        (broken(("cpu", "quota_cores"), float("inf")), "finite"),
        ({"gpus": [{"index": 0}]}, r"gpus\[0\]: the key 'uuid' is missing"),
    ],
)
def test_wrong_hardware_is_named(document: object, words: str) -> None:
    with pytest.raises(UnreadableInput, match=words):
        hardware_from_document(document, "hardware")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"plan": None}, "no plan in it"),
        ({"budget": "none"}, "plan.budget: expected a list of objects"),
        ({"budget": [{"device": "host"}]}, "'total_bytes' is missing"),
        (
            {
                "budget": [
                    {"device": "host", "total_bytes": 1, "available_bytes": 1, "ranges": {"x": 1}, "range_reasons": {}}
                ]
            },
            "list of 4",
        ),
        ({"workload": {"kind": "party"}}, "'users' is missing"),
        ({"reasons": [{"quantity": 1}]}, "is missing"),
    ],
)
def test_wrong_plan_is_named(change: dict[str, object], words: str) -> None:
    with pytest.raises(UnreadableInput, match=words):
        plan_from_document({**through_json(plan_document(PLAN)), **change}, "plan")


def test_unknown_workload_kind_is_named() -> None:
    document = through_json(plan_document(PLAN))
    document["workload"]["kind"] = "party"
    with pytest.raises(UnreadableInput, match="one of chat, rag, agent, batch, found 'party'"):
        plan_from_document(document, "plan")


def test_a_plan_that_is_no_object_is_named() -> None:
    with pytest.raises(UnreadableInput, match="expected an object"):
        plan_from_document([], "plan")


@pytest.mark.parametrize(
    ("place", "value", "words"),
    [
        (("plan", "slots"), 0, "plan.slots: expected a number from 1"),
        (("plan", "slots"), 2**40, "plan.slots: expected a number from 1"),
        (("plan", "context_tokens_per_slot"), 0, "plan.context_tokens_per_slot"),
        (("plan", "threads"), 0, "plan.threads"),
        (("plan", "ubatch_tokens"), 0, "plan.ubatch_tokens"),
        (("plan", "data_parallel"), 0, "plan.data_parallel: expected a number from 1"),
        (("plan", "tensor_parallel"), 0, "plan.tensor_parallel"),
        (("plan", "layer_partition"), [3, 4], "plan.layer_partition: expected 1 numbers above 0"),
        (("plan", "cache_type_k"), "f16\nExecStartPre=/bin/true", "plan.cache_type_k"),
        (("plan", "cache_type_v"), "q3", "'q3' is not one of"),
        (("plan", "flash_attention"), "maybe", "'maybe' is not one of on, off, auto"),
        (("model", "source_paths"), ["m.gguf"], "'m.gguf' is not an absolute path"),
    ],
)
def test_a_plan_that_no_engine_can_be_started_with_is_refused(
    place: tuple[str, str], value: object, words: str
) -> None:
    document = through_json(plan_document(PLAN))
    document[place[0]][place[1]] = value
    with pytest.raises(UnreadableInput, match=re.escape(words)):
        plan_from_document(document, "file")
