"""The plan and the drop-in for every recorded machine: a changed recommendation shows as a changed file.

`LLMOPS_UPDATE_GOLDEN=1 pytest tests/golden` writes them anew; what differs then belongs into the changelog.
"""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.size_answer import make_checkpoint
from llmops.actions.plan import PlanRequest, make_plan
from llmops.core.documents import hardware_from_document, plan_document
from llmops.core.errors import DoesNotFit
from llmops.core.hardware import Hardware
from llmops.core.model import ModelSpec
from llmops.core.plan import Fixed, Plan, Policy
from llmops.core.problem import Problem
from llmops.core.sizing import size
from llmops.core.throughput import predict_rates
from llmops.core.workload import DEFAULTS, Workload, WorkloadKind
from llmops.engines import engine_named
from llmops.engines.found import InForce, Installation
from llmops.host.local import LocalHost
from tests.unit.core.example_models import eight_billion_16_bit

HERE = Path(__file__).parent
MACHINES = sorted(path.name for path in (HERE.parent / "machines").iterdir() if (path / "hardware.json").exists())
UNIT_WORDS = ("/usr/local/bin/llama-server", "--model", "/models/model.gguf", "--alias", "chat")
INSTALLED = Installation(
    "llama-server",
    "unit",
    ("/usr/local/bin/llama-server",),
    None,
    None,
    None,
    unit="llama-server.service",
)


def four_bit() -> ModelSpec:
    """The 8B model in Q4_K_M: 4.85 bits per weight."""
    dense = eight_billion_16_bit()
    scale = 4.85 / 16
    tensors = tuple(
        replace(
            group,
            storage_type="q4_K",
            stored_bytes=int(group.stored_bytes * scale),
            matrix_bytes=int(group.matrix_bytes * scale),
        )
        for group in dense.tensors
    )
    weights = sum(group.stored_bytes for group in tensors)
    return replace(
        dense,
        reference="/models/model.gguf",
        quantization="Q4_K_M",
        tensors=tensors,
        weights_bytes=weights,
        active_weights_bytes=weights - tensors[0].stored_bytes,
        file_bytes=weights + 6_000_000,
        source_paths=("/models/model.gguf",),
    )


MODELS = {
    "8b-16-bit": replace(eight_billion_16_bit(), reference="/models/model.gguf", source_paths=("/models/model.gguf",)),
    "8b-4-bit": four_bit(),
}


@pytest.mark.parametrize("kind", list(WorkloadKind), ids=lambda kind: kind.value)
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("machine", MACHINES)
def test_the_plan_is_the_recorded_one(machine: str, model: str, kind: WorkloadKind) -> None:
    directory = HERE / machine / f"llama-server-{model}"
    found = planned(machine, MODELS[model], DEFAULTS[kind])
    compare(directory / f"{kind.value}.json", json.dumps(found, indent=1) + "\n")


@pytest.mark.parametrize("machine", ["cpu-vps-4-cores-8-gib", "one-24-gb-card", "one-80-gb-card", "two-unequal-cards"])
def test_the_drop_in_is_the_recorded_one(machine: str) -> None:
    plan = plan_for(machine, MODELS["8b-4-bit"], DEFAULTS[WorkloadKind.CHAT])
    assert isinstance(plan, Plan)
    in_force = InForce(user_arguments=UNIT_WORDS, configured_arguments=UNIT_WORDS)
    (file,) = engine_named("llama-server").files(plan, INSTALLED, in_force)
    compare(HERE / machine / "llama-server-8b-4-bit" / "zz-llmops.conf", file.content)


@pytest.mark.parametrize("kind", [WorkloadKind.CHAT, WorkloadKind.AGENT], ids=lambda kind: kind.value)
@pytest.mark.parametrize("machine", ["one-24-gb-card", "one-80-gb-card"])
def test_the_plan_for_vllm_is_the_recorded_one(machine: str, kind: WorkloadKind, tmp_path: Path) -> None:
    directory = make_checkpoint(tmp_path / "checkpoint")
    for name in ("tokenizer.json", "chat_template.jinja"):
        (directory / name).write_text("{}")
    request = PlanRequest(
        workload=DEFAULTS[kind],
        policy=Policy(),
        fixed=Fixed(),
        engine="vllm",
        engine_version="0.33.0",
        models=(str(directory),),
        hardware=hardware_of(machine),
    )
    planned = make_plan(LocalHost(), request, progress=lambda _text: None)
    words = [(row.name, row.value) for row in planned.engine.settings(planned.plan, planned.installation)]
    arguments = ("MODEL", *(word for pair in words[1:] for word in pair if word is not None))
    document = plan_document(planned.plan, arguments=arguments)
    rounded = {key: round(value, 3) if isinstance(value, float) else value for key, value in document["plan"].items()}
    found = {"plan": rounded, "budget": document["budget"], "warnings": document["warnings"]}
    compare(HERE / machine / "vllm-8b-16-bit" / f"{kind.value}.json", json.dumps(found, indent=1) + "\n")


def compare(path: Path, text: str) -> None:
    if os.environ.get("LLMOPS_UPDATE_GOLDEN"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    assert path.read_text() == text, f"{path} differs: a recommendation changed"


def planned(machine: str, model: ModelSpec, workload: Workload) -> dict[str, object]:
    """What matters to a reader of a difference: the numbers, what binds, what is said; floats to three digits."""
    plan = plan_for(machine, model, workload)
    if isinstance(plan, DoesNotFit):
        return {"does_not_fit": plan.message, "hint": plan.hint}
    document = plan_document(plan)
    rounded = {key: round(value, 3) if isinstance(value, float) else value for key, value in document["plan"].items()}
    return {"plan": rounded, "budget": document["budget"], "warnings": document["warnings"]}


def plan_for(machine: str, model: ModelSpec, workload: Workload) -> Plan | DoesNotFit:
    try:
        return size(problem_of(hardware_of(machine), model, workload))
    except DoesNotFit as refusal:
        return refusal


def hardware_of(machine: str) -> Hardware:
    path = HERE.parent / "machines" / machine / "hardware.json"
    return hardware_from_document(json.loads(path.read_text()), str(path))


def problem_of(hardware: Hardware, model: ModelSpec, workload: Workload) -> Problem:
    on_gpu = bool(hardware.gpus)
    return Problem(
        engine="llama-server",
        engine_version=None,
        hardware=hardware,
        model=model,
        workload=workload,
        policy=Policy(),
        fixed=Fixed(),
        rates=predict_rates(hardware, model, workload, on_gpu=on_gpu),
        memory=engine_named("llama-server").memory_model(hardware, model, None),
        on_gpu=on_gpu,
    )
