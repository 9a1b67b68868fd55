"""Plans on a machine where a server runs already: what is kept, what is not, and what `size` takes as given."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from llmops.actions.plan import PlanRequest, make_plan, size_one
from llmops.core.errors import UsageError
from llmops.core.overrides import override_hardware
from llmops.core.plan import Fixed, Policy
from llmops.core.units import GIB, MIB
from llmops.core.workload import DEFAULTS, WorkloadKind
from llmops.host import ListeningSocket, ProcessInfo, Response
from tests.unit.cli.machine import PROGRAM, Machine, model_file

URL = "http://127.0.0.1:8080"
LOAD = replace(DEFAULTS[WorkloadKind.CHAT], users=2, generation_seconds=5.0, context_floor_tokens=2_048)
GOOD = (
    "--parallel", "4", "--ctx-size", "16384", "--no-kv-unified", "--batch-size", "256", "--cache-ram", "256",
    "--ctx-checkpoints", "0", "--threads", "4",
)  # fmt: skip


@dataclass
class Serving(Machine):
    """A machine on which somebody started a server by hand."""

    words: tuple[str, ...] = GOOD
    served: str = ""
    links: dict[str, str] = field(default_factory=dict)

    def processes(self) -> tuple[ProcessInfo, ...]:
        argv = (PROGRAM, "-m", self.served, *self.words)
        return (ProcessInfo(7, 1, PROGRAM, argv, (), 1000, "/"),)

    def listening_sockets(self) -> tuple[ListeningSocket, ...]:
        return (ListeningSocket("127.0.0.1", 8080, 7),)

    def resolve(self, path: object) -> str:
        return self.links.get(str(path), str(path))

    def get(self, url: str, *, timeout_seconds: float = 5.0) -> Response:
        each = 16_384 // 4
        answers = {
            f"{URL}/health": {"status": "ok"},
            f"{URL}/props": {
                "total_slots": 4,
                "default_generation_settings": {"n_ctx": each},
                "model_path": self.served,
                "build_info": "b11434-abc",
            },
            f"{URL}/slots": [{"n_ctx": each, "is_processing": False}] * 4,
        }
        if url not in answers:
            raise ConnectionRefusedError(url)
        return Response(200, json.dumps(answers[url]))


@pytest.fixture
def machine(tmp_path: Path) -> Serving:
    return Serving(disk=tmp_path, installed=True, served=str(model_file(tmp_path)))


def request(*models: str, fixed: Fixed | None = None, replan: bool = False) -> PlanRequest:
    return PlanRequest(LOAD, Policy(), fixed or Fixed(), engine="llama-server", models=models, replan=replan)


def silent(_: str) -> None:
    pass


def test_a_good_configuration_stays(machine: Serving) -> None:
    planned = make_plan(machine, request(), progress=silent)
    assert planned.changes_nothing
    assert (planned.plan.slots, planned.plan.context_tokens_per_slot) == (4, 4_096)


def test_another_model_is_not_answered_with_the_one_that_runs(machine: Serving, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    other = str(model_file(tmp_path / "other"))
    planned = make_plan(machine, request(other), progress=silent)
    assert planned.kept is None
    assert not planned.changes_nothing
    assert planned.model.reference == other
    assert make_plan(machine, request(machine.served), progress=silent).changes_nothing
    machine.links[machine.served] = other
    assert make_plan(machine, request(other), progress=silent).changes_nothing, "the path that runs is a link to it"


def test_what_works_against_every_plan_is_not_kept(machine: Serving) -> None:
    machine.words = (*GOOD, "--no-cont-batching")
    assert not make_plan(machine, request(), progress=silent).changes_nothing
    machine.words = (*GOOD, "--threads", "64")
    assert not make_plan(machine, request(), progress=silent).changes_nothing


def test_replan_ignores_the_context_in_force_and_says_so(machine: Serving) -> None:
    planned = make_plan(machine, request(replan=True), progress=silent)
    assert planned.kept is None
    assert planned.plan.context_tokens_per_slot == 2_048
    assert any("--context 4096 keeps them" in line for line in planned.plan.warnings)


def test_the_context_that_a_person_chose_is_kept_otherwise(machine: Serving) -> None:
    machine.words = (*GOOD, "--no-cont-batching")
    planned = make_plan(machine, request(), progress=silent)
    assert planned.plan.context_tokens_per_slot == 4_096


def test_a_machine_that_the_user_describes_is_not_answered_with_what_runs_here(machine: Serving) -> None:
    asked = replace(request(), override=lambda found: override_hardware(found, ram_bytes=64 * GIB))
    assert make_plan(machine, asked, progress=silent).kept is None


def test_size_takes_the_defaults_of_the_engine_for_what_is_not_given(machine: Serving) -> None:
    planned = size_one(machine, request(fixed=Fixed(slots=8, context_tokens=1_024)), progress=silent)
    plan = planned.plan
    assert (plan.slots, plan.context_tokens_per_slot, plan.kv_unified) == (8, 1_024, False)
    assert (plan.batch_tokens, plan.ubatch_tokens) == (2_048, 512)
    assert (plan.prompt_cache_bytes, plan.context_checkpoints) == (8 * GIB, 32)
    assert any("saved prompts may grow to 8.00 GiB" in line for line in plan.warnings)


def test_size_takes_what_is_given(machine: Serving) -> None:
    fixed = Fixed(slots=8, context_tokens=1_024, batch_tokens=128, prompt_cache_bytes=64 * MIB, context_checkpoints=0)
    plan = size_one(machine, request(fixed=fixed), progress=silent).plan
    assert (plan.batch_tokens, plan.ubatch_tokens, plan.prompt_cache_bytes) == (128, 128, 64 * MIB)
    assert not any("saved prompts" in line for line in plan.warnings)


def test_what_no_server_can_do_is_refused_before_any_sizing(machine: Serving) -> None:
    for make in (make_plan, size_one):
        with pytest.raises(UsageError, match="at most 256"):
            make(machine, request(fixed=Fixed(slots=1_000)), progress=silent)
