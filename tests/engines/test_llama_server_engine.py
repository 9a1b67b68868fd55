"""The llama-server engine on the real binary and the embedded server: detection, trial, verification, failures."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from llmops.actions.plan import PlanRequest, make_plan
from llmops.actions.trial import TrialResult, trial
from llmops.actions.verify import verify
from llmops.core.errors import EngineNotAnswering
from llmops.core.plan import Fixed, Plan, Policy
from llmops.core.verification import Check, CheckStatus
from llmops.core.workload import DEFAULTS, WorkloadKind
from llmops.engines import engine_named
from llmops.engines.base import setting_words
from llmops.engines.found import Installation
from llmops.engines.llama_server.programs import ask
from llmops.engines.llama_server.settings import compose
from llmops.host.local import LocalHost
from llmops.models import read_model
from tests.engines.conftest import RunningServer

pytestmark = pytest.mark.engines

ENGINE = engine_named("llama-server")
HOST = LocalHost()


def silent(_line: str) -> None:
    """No progress is shown in tests."""


@pytest.fixture(scope="module")
def installation(server_command: tuple[str, ...]) -> Installation:
    """The server as it describes itself."""
    said = ask(HOST, server_command)
    assert said.problem is None
    managed_by = "binary" if len(server_command) == 1 else "embedded"
    return Installation(
        "llama-server", managed_by, server_command, said.version, said.version_text, said.flags, said.accelerators,
        valued_flags=said.valued_flags,
    )  # fmt: skip


@pytest.fixture(scope="module")
def plan(model_path: str) -> Plan:
    """Two slots of 2,048 tokens for the small model, on one thread, without a second copy of the weights."""
    request = PlanRequest(
        DEFAULTS[WorkloadKind.CHAT],
        Policy(),
        Fixed(slots=2, context_tokens=2048, repack=False, prompt_cache_bytes=0, context_checkpoints=0),
        engine="llama-server",
        models=(model_path,),
        replan=True,
    )
    made = make_plan(HOST, request, progress=silent).plan
    # One thread: these tests ask what is true, not how fast it is, and the machine may have other work.
    return replace(made, threads=1, batch_threads=1, speeds=())


@pytest.fixture(scope="module")
def said() -> list[str]:
    """What the trial said of itself on the way."""
    return []


@pytest.fixture(scope="module")
def tried(installation: Installation, plan: Plan, said: list[str]) -> TrialResult:
    """One trial that several tests look at."""
    said.clear()
    return trial(HOST, ENGINE, installation, plan, progress=said.append)


def by_name(checks: tuple[Check, ...]) -> dict[str, Check]:
    return {check.name: check for check in checks}


def test_the_server_knows_what_every_plan_needs(installation: Installation) -> None:
    ENGINE.require_usable(installation)
    assert installation.flags is not None
    assert installation.valued_flags is not None
    assert {"--parallel", "--ctx-size", "--flash-attn", "--cache-ram"} <= installation.valued_flags
    assert {"--metrics", "--no-kv-unified", "--no-repack"} <= installation.flags - installation.valued_flags
    assert installation.accelerators is not None


def test_a_trial_of_the_plan_passes_every_check(tried: TrialResult) -> None:
    assert tried.report.failed == ()
    checks = by_name(tried.report.checks)
    assert checks["two_requests"].status is CheckStatus.PASS
    assert checks["total_slots"].observed == "2"
    assert checks["every_slot_context"].observed == "2048"
    assert checks["listener"].status is CheckStatus.PASS


def test_a_trial_measures_rates_unless_the_machine_is_busy(tried: TrialResult, said: list[str]) -> None:
    busy = any("not remembered" in line for line in said)
    assert (tried.rates is None) is busy
    if tried.rates is not None:
        assert tried.rates.prefill_tokens_per_second > 1
        assert [streams for streams, _ in tried.rates.decode_tokens_per_second] == [1, 2]


def test_a_trial_measures_memory(tried: TrialResult, plan: Plan) -> None:
    assert tried.resident_bytes is not None
    assert plan.model.weights_bytes < tried.resident_bytes < 4 * plan.model.weights_bytes


def test_nothing_is_left_of_a_trial(tried: TrialResult) -> None:
    port = tried.argv[tried.argv.index("--port") + 1]
    assert not [process for process in HOST.processes() if port in process.argv and "--parallel" in process.argv]
    assert not [listener for listener in HOST.listening_sockets() if str(listener.port) == port]


def test_the_cache_is_what_was_planned(llama_server: tuple[str, ...], plan: Plan) -> None:
    said = ask(HOST, llama_server)
    binary = Installation(
        "llama-server", "binary", llama_server, None, None, said.flags, (), valued_flags=said.valued_flags
    )
    checks = by_name(trial(HOST, ENGINE, binary, plan, progress=silent).report.checks)
    assert checks["cache_memory"].status is CheckStatus.PASS
    assert checks["cache_memory"].observed == checks["cache_memory"].expected.removeprefix("at most ")


def test_one_slot_serves_one_after_the_other(installation: Installation, plan: Plan) -> None:
    result = trial(HOST, ENGINE, installation, replace(plan, slots=1), progress=silent)
    check = by_name(result.report.checks)["two_requests"]
    assert (check.status, check.observed) == (CheckStatus.PASS, "serial")


def test_another_configuration_in_force_fails(
    server_command: tuple[str, ...], installation: Installation, plan: Plan, running_server: RunningServer
) -> None:
    planned = setting_words(compose(replace(plan, slots=1), installation).settings)
    with running_server(server_command, "--model", plan.model.source_paths[0], *planned) as url:
        port = url.rpartition(":")[2]
        (process,) = (one for one in HOST.processes() if port in one.argv and "--parallel" in one.argv)
        running = replace(installation, managed_by="process", pid=process.pid)
        failed = by_name(verify(HOST, ENGINE, running, plan, progress=silent).report.failed)
    assert {"--parallel", "--ctx-size", "total_slots", "two_requests"} <= set(failed)
    assert failed["--parallel"].observed == "1"


def test_a_damaged_model_is_one_error(installation: Installation, plan: Plan, tmp_path: Path) -> None:
    damaged = tmp_path / "damaged.gguf"
    with Path(plan.model.source_paths[0]).open("rb") as whole:
        damaged.write_bytes(whole.read(1_000_000))
    broken = replace(plan, model=replace(plan.model, reference=str(damaged), source_paths=(str(damaged),)))
    with pytest.raises(EngineNotAnswering, match="ended before it had served") as raised:
        trial(HOST, ENGINE, installation, broken, progress=silent)
    assert "\n" not in raised.value.message
    assert str(damaged) in str(raised.value.hint)


def test_a_program_on_path_is_found(llama_server: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{Path(llama_server[0]).parent}:/usr/bin:/bin")
    found = [one for one in ENGINE.detect(HOST) if one.command == llama_server]
    assert found
    assert found[0].flags is not None


def test_a_program_without_its_libraries_is_misconfigured(llama_server: tuple[str, ...], tmp_path: Path) -> None:
    alone = tmp_path / "llama-server"
    alone.write_bytes(Path(llama_server[0]).read_bytes())
    alone.chmod(0o755)
    said = ask(HOST, (str(alone),))
    assert said.flags is None
    assert said.problem is not None
    assert "shared librar" in said.problem


def test_the_model_can_be_read_by_its_own_header(model_path: str, plan: Plan) -> None:
    assert read_model(HOST, model_path).weights_bytes == plan.model.weights_bytes
