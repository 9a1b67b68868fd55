"""Verification: what is in force, the two-request test and the swap check, and what their outcomes mean."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from llmops.actions.verify import Verified, current, verify
from llmops.core.errors import EngineNotAnswering
from llmops.core.hardware import Gpu, GpuProcess, GpuReading
from llmops.core.memory.budget import MemoryBudget
from llmops.core.plan import Plan
from llmops.core.verification import Check, CheckStatus
from llmops.host import Response, StreamTimings
from tests.unit.actions.answering import ENGINE, QUIET, Answering, started
from tests.unit.engines.llama_host import SERVER, a_plan, installed

PORT = 23456
URL = f"http://127.0.0.1:{PORT}"


def run(machine: Answering, plan: Plan | None = None) -> tuple[Verified, dict[str, Check]]:
    plan = plan or a_plan()
    installation = started(machine, ENGINE.launch(plan, installed(), PORT).argv)
    found = verify(machine, ENGINE, installation, plan, progress=lambda _line: None)
    return found, {check.name: check for check in found.report.checks}


def test_a_live_plan_passes_and_gives_its_rates() -> None:
    found, checks = run(Answering())
    assert found.report.failed == ()
    assert found.report.passed
    assert checks["two_requests"].observed == "overlapped"
    assert found.rates is not None
    assert found.rates.decode_tokens_per_second[0] == (1, 20.0)
    assert found.rates.decode_tokens_per_second[1][0] == 2
    assert found.rates.prefill_tokens_per_second == pytest.approx(400.0)


def test_a_recording_is_looked_at_and_asked_for_no_reply() -> None:
    machine, plan = Answering(), a_plan()
    installation = started(machine, ENGINE.launch(plan, installed(), PORT).argv)
    found = verify(machine, ENGINE, installation, plan, progress=lambda _line: None, recorded=True)
    checks = {check.name: check for check in found.report.checks}
    assert machine.requests == 0
    assert checks["total_slots"].status is CheckStatus.PASS
    assert checks["two_requests"].status is CheckStatus.NOT_EVALUATED
    assert checks["two_requests"].detail == "a recording answers no test requests"


def test_slots_that_do_not_serve_side_by_side_fail() -> None:
    machine = Answering(side_by_side=1)
    found, checks = run(machine)
    assert checks["two_requests"].status is CheckStatus.FAIL
    assert checks["two_requests"].observed == "serial"
    assert [check.name for check in found.report.failed] == ["two_requests"]
    assert machine.requests == 8, "only what happens twice is a finding"


def test_one_slot_is_expected_to_serve_one_after_the_other() -> None:
    _, checks = run(Answering(side_by_side=1), a_plan(slots=1))
    assert checks["two_requests"].status is CheckStatus.PASS
    _, wrong = run(Answering(side_by_side=2), a_plan(slots=1))
    assert wrong["two_requests"].status is CheckStatus.FAIL


def test_other_peoples_requests_make_no_fault() -> None:
    machine = Answering(side_by_side=1)
    plan = a_plan()
    installation = started(machine, ENGINE.launch(plan, installed(), PORT).argv)
    busy = '{"n_ctx": 8192, "is_processing": true}'
    machine.answers[f"{URL}/slots"] = Response(200, f"[{', '.join([busy] * 5)}]")
    found = verify(machine, ENGINE, installation, plan, progress=lambda _line: None)
    checks = {check.name: check for check in found.report.checks}
    assert checks["two_requests"].status is CheckStatus.NOT_EVALUATED
    assert "5 requests of others" in checks["two_requests"].detail
    assert found.rates is None


@pytest.mark.parametrize(("others", "status"), [(0, CheckStatus.FAIL), (5, CheckStatus.NOT_EVALUATED)])
def test_a_full_queue_is_a_fault_only_where_nobody_else_filled_it(others: int, status: CheckStatus) -> None:
    class Refusing(Answering):
        """Takes requests one by one and refuses those that come together."""

        def together(self, jobs: Sequence[Callable[[], StreamTimings]]) -> tuple[StreamTimings, ...]:
            return tuple(StreamTimings(self.seconds, 503, 0.1, (), 0.1, "HTTP 503: busy") for _ in jobs)

    machine, plan = Refusing(), a_plan()
    installation = started(machine, ENGINE.launch(plan, installed(), PORT).argv)
    slots = [{"n_ctx": 8192, "is_processing": number < others} for number in range(5)]
    machine.answers[f"{URL}/slots"] = Response(200, json.dumps(slots))
    found = verify(machine, ENGINE, installation, plan, progress=lambda _line: None)
    checks = {check.name: check for check in found.report.checks}
    assert checks["two_requests"].status is status
    assert "was refused, the queue is full" in checks["two_requests"].detail


def test_other_people_who_come_during_the_test_make_no_fault() -> None:
    class Visited(Answering):
        """Nobody is there at the begin; with the second test request somebody else's comes too, and stays."""

        def together(self, jobs: Sequence[Callable[[], StreamTimings]]) -> tuple[StreamTimings, ...]:
            slots = [{"n_ctx": 8192, "is_processing": number == 0} for number in range(5)]
            self.answers[f"{URL}/slots"] = Response(200, json.dumps(slots))
            return super().together(jobs)

    found, checks = run(Visited(side_by_side=1))
    assert checks["two_requests"].status is CheckStatus.NOT_EVALUATED
    assert "1 requests of others" in checks["two_requests"].detail
    assert found.rates is None


def test_swapping_during_the_test_fails_when_it_happens_twice() -> None:
    moved = QUIET.replace("pswpin 10", "pswpin 90000")
    more = QUIET.replace("pswpin 10", "pswpin 180000")
    _, once = run(Answering(vmstat=[QUIET, moved, moved, moved]))
    assert once["no_swap"].status is CheckStatus.PASS
    _, twice = run(Answering(vmstat=[QUIET, moved, moved, more]))
    assert twice["no_swap"].status is CheckStatus.FAIL
    assert "MiB in" in twice["no_swap"].detail


def paged(own_swap: int, available: int) -> tuple[CheckStatus, str]:
    """The swap check of a machine that swaps, with this much of the engine in swap and of 100 GB available."""
    counters = [QUIET] + [QUIET.replace("pswpin 10", f"pswpin {number}0000") for number in (9, 9, 18)]
    machine, plan = Answering(vmstat=counters), a_plan()
    installation = started(machine, ENGINE.launch(plan, installed(), PORT).argv)
    machine.files["/proc/77/status"] += f"VmSwap:\t {own_swap} kB\n"
    machine.files["/proc/meminfo"] = f"MemTotal: 100000000 kB\nMemAvailable: {available} kB\n"
    found = verify(machine, ENGINE, installation, plan, progress=lambda _line: None)
    check = next(check for check in found.report.checks if check.name == "no_swap")
    return check.status, check.detail


def test_others_that_swap_are_told_from_the_engine() -> None:
    status, detail = paged(own_swap=0, available=50_000_000)
    assert status is CheckStatus.NOT_EVALUATED
    assert "others swapped" in detail
    assert paged(own_swap=512, available=50_000_000)[0] is CheckStatus.FAIL
    assert paged(own_swap=0, available=5_000_000)[0] is CheckStatus.FAIL


@pytest.mark.parametrize(("others", "idle", "remembered"), [(5, 65, True), (60, 10, False), (30, 40, True)])
def test_rates_of_a_busy_machine_are_not_remembered(others: int, idle: int, remembered: bool) -> None:
    machine, plan = Answering(), a_plan()
    said: list[str] = []
    installation = started(machine, ENGINE.launch(plan, installed(), PORT).argv)
    machine.texts["/proc/stat"] = ["cpu  0 0 0 0 0 0 0 0\n", f"cpu  30 0 0 {idle} 0 0 0 {others} 0 0\ncpu0 1\n"]
    own = [f"77 (llama-server) S 1 77 77 0 -1 4194560 100 0 0 0 {ticks} 0 0" for ticks in (0, 0, 30, 30)]
    machine.texts["/proc/77/stat"] = own
    found = verify(machine, ENGINE, installation, plan, progress=said.append)
    assert (found.rates is not None) is remembered
    assert any("not remembered" in line for line in said) is not remembered
    assert found.report.passed


def faults(before: int, after: int) -> CheckStatus:
    """The check for a machine that reads much from disk, with these major faults of the engine itself."""
    kibibytes = 8 * 1024**2
    counters = [f"pswpin 1\npswpout 2\npgpgin {number * kibibytes}\npgmajfault {number}00\n" for number in (0, 1, 1, 2)]
    machine, plan = Answering(vmstat=counters), a_plan()
    installation = started(machine, ENGINE.launch(plan, installed(), PORT).argv)
    machine.texts["/proc/77/stat"] = [
        f"77 (llama server)) S 1 77 77 0 -1 4194560 100 0 {count} 0 9 9" for count in (before, after, after, 2 * after)
    ]
    found = verify(machine, ENGINE, installation, plan, progress=lambda _line: None)
    return next(check for check in found.report.checks if check.name == "no_rereading").status


def test_only_the_engines_own_faults_count() -> None:
    assert faults(5, 9) is CheckStatus.PASS
    assert faults(5, 9000) is CheckStatus.FAIL


def test_reading_the_model_again_fails() -> None:
    kibibytes = 8 * 1024**2
    again = f"pswpin 10\npswpout 20\npgpgin {kibibytes}\npgmajfault 9000\n"
    more = f"pswpin 10\npswpout 20\npgpgin {2 * kibibytes}\npgmajfault 18000\n"
    _, checks = run(Answering(vmstat=[QUIET, again, again, more]))
    assert checks["no_rereading"].status is CheckStatus.FAIL
    assert checks["no_swap"].status is CheckStatus.PASS


def test_counters_that_cannot_be_read_are_not_evaluated() -> None:
    _, checks = run(Answering(vmstat=["pswpin 1\n"]))
    assert checks["no_swap"].status is CheckStatus.NOT_EVALUATED
    assert "/proc/vmstat" in checks["no_swap"].detail


def test_a_failing_request_raises_with_what_the_engine_said() -> None:
    with pytest.raises(EngineNotAnswering, match="Context size has been exceeded"):
        run(Answering(error="HTTP 500: Context size has been exceeded."))


def test_an_api_key_leaves_the_load_unevaluated() -> None:
    machine, plan = Answering(), a_plan()
    installation = started(machine, ENGINE.launch(plan, installed(), PORT).argv)
    machine.answers[f"{URL}/props"] = Response(401, "{}")
    found = verify(machine, ENGINE, installation, plan, progress=lambda _line: None)
    checks = {check.name: check for check in found.report.checks}
    assert checks["two_requests"].status is CheckStatus.NOT_EVALUATED
    assert "API key" in checks["two_requests"].detail
    assert checks["--parallel"].status is CheckStatus.PASS
    assert found.report.passed


@pytest.mark.parametrize(
    ("health", "says"),
    [
        (Response(503, '{"error":{}}'), "still loading"),
        (Response(200, "<html>"), "is not llama-server"),
        (ConnectionRefusedError("refused"), "nothing answers"),
        (ConnectionError("a line without end"), "is not llama-server"),
    ],
)
def test_a_server_that_is_not_ready(health: Response | OSError, says: str) -> None:
    machine, plan = Answering(), a_plan()
    installation = started(machine, ENGINE.launch(plan, installed(), PORT).argv)
    machine.answers[f"{URL}/health"] = health
    with pytest.raises(EngineNotAnswering, match=says) as raised:
        verify(machine, ENGINE, installation, plan, progress=lambda _line: None)
    assert raised.value.exit_code == 11
    assert raised.value.hint


def test_nothing_runs() -> None:
    with pytest.raises(EngineNotAnswering, match="not running"):
        verify(Answering(), ENGINE, installed(managed_by="process", pid=77), a_plan(), progress=lambda _line: None)


def test_memory_beyond_the_budget_fails() -> None:
    machine, plan = Answering(), a_plan()
    installation = started(machine, ENGINE.launch(plan, installed(), PORT).argv)
    machine.files["/proc/77/status"] = f"VmRSS:\t {100 * 1024**2} kB\nRssAnon:\t 1 kB\n"
    found = verify(machine, ENGINE, installation, plan, progress=lambda _line: None)
    assert [check.name for check in found.report.failed] == ["resident_memory"]


@pytest.mark.parametrize(
    ("used", "status"),
    [(20 * 1024**3, CheckStatus.PASS), (8 * 1024**3, CheckStatus.FAIL), (None, CheckStatus.NOT_EVALUATED)],
)
def test_weights_must_be_on_the_cards(used: int | None, status: CheckStatus) -> None:
    card = Gpu(0, "GPU-1", "a card", 24 * 1024**3, 1024**3, processes=(GpuProcess(77, used), GpuProcess(1, 9)))
    machine = Answering(reading=GpuReading("ok", "", (card,)))
    budget = MemoryBudget("GPU 0", 24 * 1024**3, 24 * 1024**3, weights_bytes=15 * 1024**3, cache_bytes=4 * 1024**3)
    plan = a_plan(gpu_layers=37)
    _, checks = run(machine, replace(plan, budgets=(*plan.budgets, budget)))
    assert checks["weights_on_cards"].status is status


def test_cards_that_cannot_be_asked() -> None:
    machine = Answering(reading=GpuReading("version_mismatch", "driver and library differ"))
    budget = MemoryBudget("GPU 0", 24 * 1024**3, 24 * 1024**3, weights_bytes=15 * 1024**3)
    plan = a_plan(gpu_layers=37)
    _, checks = run(machine, replace(plan, budgets=(*plan.budgets, budget)))
    assert checks["weights_on_cards"].detail == "driver and library differ"


def test_a_program_that_became_a_unit_is_found_again() -> None:
    machine = Answering(programs={"llama-server": SERVER})
    machine.install(SERVER)
    machine.unit("llama-server.service", f"[Service]\nExecStart={SERVER} -m /m.gguf\n")
    machine.named_in("/etc/systemd/system/llama-server.service")
    assert current(machine, ENGINE, installed()).unit == "llama-server.service"
    kept = installed(managed_by="unit", unit="other.service")
    assert current(machine, ENGINE, kept) == kept
