"""What is remembered between runs, and files that somebody damaged."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath

import pytest

from llmops import state
from llmops.core.errors import UnreadableInput
from llmops.core.plan import MeasuredRates
from llmops.host import FileStatus
from tests.unit.core.example_models import cpu_host, eight_billion_16_bit
from tests.unit.engines.llama_host import a_plan
from tests.unit.fake_machine import FakeMachine

RATES = MeasuredRates(((1, 20.5), (2, 14.0)), 180.0)
SYSTEM = "/var/lib/llmops/rates.json"


@dataclass
class Machine(FakeMachine):
    variables: dict[str, str] = field(default_factory=lambda: {"HOME": "/home/me"})

    def environment(self) -> dict[str, str]:
        return self.variables


SUBJECT = state.subject(cpu_host(), eight_billion_16_bit(), "llama-server", "b11434")


def test_rates_come_back_for_the_same_machine_model_engine_and_version() -> None:
    host = Machine()
    state.write_rates(host, SUBJECT, RATES)
    assert state.read_rates(host, SUBJECT) == state.Recalled(rates=RATES)
    newer = replace(RATES, prefill_tokens_per_second=200.0)
    state.write_rates(host, SUBJECT, newer)
    assert state.read_rates(host, SUBJECT).rates == newer
    assert json.loads(host.files[SYSTEM].text)["schema"] == 1


def test_another_machine_model_or_version_has_its_own_rates() -> None:
    host = Machine()
    state.write_rates(host, SUBJECT, RATES)
    others = (
        state.subject(cpu_host(cores=8), eight_billion_16_bit(), "llama-server", "b11434"),
        state.subject(cpu_host(), replace(eight_billion_16_bit(), quantization="Q4_K_M"), "llama-server", "b11434"),
        state.subject(cpu_host(), eight_billion_16_bit(), "llama-server", "b9265"),
        state.subject(cpu_host(), eight_billion_16_bit(), "ollama", "b11434"),
    )
    assert [state.read_rates(host, other).rates for other in others] == [None] * 4
    moved = replace(eight_billion_16_bit(), reference="/elsewhere/same.gguf")
    assert state.read_rates(host, state.subject(cpu_host(), moved, "llama-server", "b11434")).rates == RATES


def test_a_user_has_an_own_directory_and_reads_the_systems_too() -> None:
    root = Machine()
    state.write_rates(root, SUBJECT, RATES)
    user = Machine(uid=1000, files=root.files)
    assert state.read_rates(user, SUBJECT).rates == RATES
    own = replace(RATES, prefill_tokens_per_second=1.0)
    state.write_rates(user, SUBJECT, own)
    assert "/home/me/.local/state/llmops/rates.json" in user.files
    assert state.read_rates(user, SUBJECT).rates == own


@pytest.mark.parametrize(
    ("variables", "directory"),
    [
        ({"XDG_STATE_HOME": "/s", "HOME": "/home/me"}, "/s/llmops"),
        ({"XDG_STATE_HOME": "relative", "HOME": "/home/me"}, "/home/me/.local/state/llmops"),
        ({}, "/var/lib/llmops"),
    ],
)
def test_where_a_user_keeps_state(variables: dict[str, str], directory: str) -> None:
    assert state.directories(Machine(uid=1000, variables=variables))[0] == PurePosixPath(directory)


@pytest.mark.parametrize(
    "text",
    [
        "", "{", "[]", "null", '{"schema": 2, "rates": {}}', "[" * 100_000,
        json.dumps({"schema": 1, "rates": {SUBJECT.key: {"decode_tokens_per_second": "fast"}}}),
        json.dumps({"schema": 1, "rates": {SUBJECT.key: {"decode_tokens_per_second": [[1, -3.0]],
                                                         "prefill_tokens_per_second": 1.0}}}),
        json.dumps({"schema": 1, "rates": {SUBJECT.key: {"decode_tokens_per_second": [],
                                                         "prefill_tokens_per_second": 1.0}}}),
    ],
)  # fmt: skip
def test_a_damaged_file_is_ignored_with_a_warning_and_written_anew(text: str) -> None:
    host = Machine()
    host.write_text(SYSTEM, text, mode=0o644)
    found = state.read_rates(host, SUBJECT)
    assert found.rates is None
    assert found.warning is not None
    assert SYSTEM in found.warning
    state.write_rates(host, SUBJECT, RATES)
    assert state.read_rates(host, SUBJECT).rates == RATES


def test_rates_that_no_machine_has_are_not_written() -> None:
    with pytest.raises(UnreadableInput):
        state.write_rates(Machine(), SUBJECT, MeasuredRates(((1, float("inf")),), 1.0))


def test_old_rates_make_room() -> None:
    host = Machine()
    for number in reversed(range(205)):
        state.write_rates(host, replace(SUBJECT, model=(number,)), RATES)
    kept = json.loads(host.files[SYSTEM].text)["rates"]
    assert len(kept) == 200
    assert replace(SUBJECT, model=(0,)).key in kept
    assert replace(SUBJECT, model=(204,)).key not in kept


def test_of_plans_for_several_engines_the_last_one_counts() -> None:
    class Dated(Machine):
        def status(self, path: PurePosixPath | str) -> FileStatus:
            seconds = {"applied-vllm.json": 2.0}.get(PurePosixPath(path).name, 1.0)
            return replace(super().status(path), modified_seconds=seconds)

    machine = Dated()
    assert state.read_last_applied_plan(machine, ("ollama", "vllm")).plan is None
    for engine in ("ollama", "vllm"):
        state.write_applied_plan(machine, replace(a_plan(), engine=engine))
    for order in (("ollama", "vllm"), ("vllm", "ollama")):
        found = state.read_last_applied_plan(machine, order).plan
        assert found is not None
        assert found.engine == "vllm"


def test_the_applied_plan_comes_back_and_can_be_forgotten() -> None:
    host, plan = Machine(), a_plan()
    assert state.read_applied_plan(host, "llama-server") == state.Recalled()
    state.write_applied_plan(host, plan)
    assert state.read_applied_plan(host, "llama-server").plan == plan
    assert state.read_applied_plan(host, "ollama").plan is None
    state.forget_applied_plan(host, "llama-server")
    assert state.read_applied_plan(host, "llama-server").plan is None


@pytest.mark.parametrize("text", ["{}", '{"schema": 1}', '{"schema": 1, "data": {"plan": 3}}'])
def test_a_damaged_plan_is_ignored_with_a_warning(text: str) -> None:
    host = Machine()
    host.write_text("/var/lib/llmops/applied-llama-server.json", text, mode=0o644)
    found = state.read_applied_plan(host, "llama-server")
    assert found.plan is None
    assert found.warning is not None
