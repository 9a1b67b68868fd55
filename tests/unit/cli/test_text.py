"""What people read: complete, within 80 columns, true to the figures."""

from __future__ import annotations

import shlex
from dataclasses import replace

import click
import pytest

from llmops.actions.apply import Applied
from llmops.actions.trial import TrialResult
from llmops.cli.applying import applied_data, applied_text
from llmops.cli.planning import same_words
from llmops.cli.session import Session, wants_colour
from llmops.cli.text.budgets import budget_text
from llmops.cli.text.changes import checks_text, diff_text
from llmops.cli.text.hardware import hardware_text
from llmops.cli.text.layout import WIDTH, pairs, shell_lines, table
from llmops.cli.text.plan import plan_text, reasons_text, speed_text
from llmops.cli.trying import trial_result
from llmops.core.files import Change
from llmops.core.hardware import CardLink, Gpu, Hardware
from llmops.core.memory.budget import MemoryBudget
from llmops.core.plan import MeasuredRates, SpeedRange
from llmops.core.units import GIB
from llmops.core.verification import Check, CheckStatus, VerificationReport
from tests.unit.cli.samples import HARDWARE, PLAN

CHECKS = (
    Check("slots", "4", "4", CheckStatus.PASS),
    Check("command_line", "--parallel 4 --ctx-size 32768", "--parallel 1", CheckStatus.FAIL, "set by override.conf"),
    Check("gpu_placement", "all", None, CheckStatus.NOT_EVALUATED, "no card here"),
)


def plain(text: str) -> str:
    return click.unstyle(text)


def widest(text: str) -> int:
    return max(len(line) for line in plain(text).splitlines())


def test_every_part_of_a_machine_is_shown() -> None:
    text = plain(hardware_text(HARDWARE))
    for word in (
        "3 (8 logical, affinity 8, quota 3.5 cores)",
        "8.00 GiB",
        "5.50 GiB",
        "/sys/fs/cgroup/memory.max",
        "8.6",
    ):
        assert word in text
    assert "936.0 GB/s" in text
    assert "absent" in text
    assert widest(text) <= WIDTH


def test_sources_are_shown_on_request() -> None:
    assert "/proc/meminfo" not in plain(hardware_text(HARDWARE))
    assert "/proc/meminfo" in plain(hardware_text(HARDWARE, with_sources=True))


def test_a_machine_of_which_nothing_is_known_is_said_to_be_so() -> None:
    text = plain(hardware_text(Hardware()))
    assert text.count("not observed") >= 5
    assert "0 B" not in text


def test_a_plan_fits_the_page_and_shows_what_it_decides() -> None:
    text = plain(plan_text(PLAN))
    assert widest(text) <= WIDTH
    for word in ("4 at once, 8,192 tokens each", "2.7 requests in flight", "8% of requests wait", "swap is in use"):
        assert word in text
    assert "200.00 MiB to 300.00 MiB" in text


def test_what_quick_first_tokens_cost_is_printed() -> None:
    assert "protects" not in plain(plan_text(PLAN))
    quick = replace(PLAN, policy=replace(PLAN.policy, protect="ttft"))
    stop = PLAN.batch_tokens / PLAN.speeds[0].prefill_tokens_per_second
    text = " ".join(plain(plan_text(quick)).split())
    assert f"protects first tokens: a long prompt stops running streams for {stop:.1f} s at a time" in text


def test_measured_speed_is_not_called_predicted() -> None:
    measured = tuple(
        replace(speed, basis="measured", decode_tokens_per_second_per_stream=SpeedRange(7.0, 7.0, 7.0))
        for speed in PLAN.speeds
    )
    text = plain(speed_text(measured))
    assert "Speed, measured" in text
    assert "predicted" not in text
    assert "7.0 to" not in text
    mixed = plain(speed_text((*measured[:1], *PLAN.speeds[1:])))
    assert "Speed, measured and predicted" in mixed
    assert "basis" in mixed


def test_what_is_short_is_said_in_words() -> None:
    budget = MemoryBudget("host", 8 * GIB, 4 * GIB, weights_bytes=5 * GIB)
    assert "1.00 GiB short" in plain(budget_text((budget,)))


def test_eight_cards_are_rows_and_fit_the_page() -> None:
    budgets = tuple(MemoryBudget(f"gpu{n}", 80 * GIB, 79 * GIB, weights_bytes=17 * GIB) for n in range(8))
    text = plain(budget_text((*PLAN.budgets, *budgets)))
    assert widest(text) <= WIDTH
    assert "gpu7" in text


def test_reasons_have_formula_inputs_and_source() -> None:
    text = plain(reasons_text(PLAN.reasons))
    assert "in_flight = 2.7" in text
    assert "users x generation / turn" in text
    assert "with users 20, generation 12 s" in text
    assert "source: queue model" in text


def test_a_new_a_changed_and_a_removed_file() -> None:
    text = plain(
        diff_text(
            (
                Change("/etc/new", None, "a\n"),
                Change("/etc/changed", "a\nb\n", "a\nc\n"),
                Change("/etc/gone", "a\n", None),
                Change("/etc/mode", "a\n", "a\n", before_mode=0o600, after_mode=0o644),
            )
        )
    )
    assert "--- /dev/null\n+++ /etc/new\n" in text
    assert "-b\n+c" in text
    assert "--- /etc/gone\n+++ /dev/null" in text
    assert "/etc/mode: mode 0600 -> 0644" in text


def test_checks_are_counted_and_explained() -> None:
    text = plain(checks_text(CHECKS))
    assert "1 passed, 1 failed, 1 not evaluated" in text
    assert "set by override.conf" in text
    assert widest(text) <= WIDTH


def test_what_passed_says_more_only_on_request() -> None:
    passed = Check("total_slots", "4", "4", CheckStatus.PASS, "total_slots of /props")
    assert "/props" not in plain(checks_text((passed,)))
    assert "/props" in plain(checks_text((passed,), verbose=True))


def test_wide_tables_are_wrapped_to_the_page() -> None:
    text = table([("a" * 10, " ".join(["word"] * 40))], ("name", "value"), left_columns=2)
    assert widest(text) <= WIDTH
    assert plain(text).count("word") == 40


def test_pairs_leave_out_what_has_no_value() -> None:
    assert pairs((("a", "1"), ("b", None), ("c", ""))) == "  a  1"


def test_applied_and_untouched() -> None:
    done = Applied(
        True, "llama-server.service", (Change("/etc/x", None, "y\n"),), 3, True, VerificationReport(CHECKS[:1])
    )
    assert "number 3" in plain(applied_text(done))
    assert "wrote /etc/x" in plain(applied_text(done))
    assert applied_data(done)["checks"] == [
        {"name": "slots", "expected": "4", "observed": "4", "status": "pass", "detail": ""}
    ]
    assert "already runs this plan" in plain(applied_text(Applied(False, "llama-server.service")))


@pytest.mark.parametrize(("checks", "exit_code", "status"), [(CHECKS[:1], 0, "ok"), (CHECKS, 3, "problems")])
def test_a_trial_ends_with_a_verdict(checks: tuple[Check, ...], exit_code: int, status: str) -> None:
    rates = MeasuredRates(((1, 40.0), (2, 25.0)), 600.0)
    tried = TrialResult(
        VerificationReport(checks), rates, ("llama-server", "--parallel", "4"), ("ready",), 1.5, 5 * GIB
    )
    result = trial_result(tried, {"plan": {}}, lambda: "the plan", Session())
    assert (result.exit_code, result.status.value) == (exit_code, status)
    text = plain(result.text())
    assert text.startswith("the plan")
    assert ("passed; nothing was changed" in text) is (exit_code == 0)
    assert "40.0 tokens/s each" in text
    assert result.data["measured"]["decode_tokens_per_second"][1] == {"streams": 2, "per_stream": 25.0}
    assert result.data["trial"]["load_seconds"] == 1.5
    if exit_code:
        assert "command_line" in result.errors[0].message


def test_the_next_command_keeps_the_words_and_drops_what_only_shows() -> None:
    words = ("--output", "json", "plan", "--explain", "--model", "a b.gguf", "--output=text", "-v", "--users", "3")
    assert same_words(Session(words), "tune", "--apply") == "llmops tune --apply --model 'a b.gguf' --users 3"


@pytest.mark.parametrize(
    ("name", "value", "wanted"), [("NO_COLOR", "1", False), ("NO_COLOR", "", None), ("TERM", "dumb", False)]
)
def test_colour_can_be_refused(monkeypatch: pytest.MonkeyPatch, name: str, value: str, wanted: bool | None) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv(name, value)
    assert wants_colour() is wanted


def test_a_command_is_wrapped_as_a_shell_reads_it() -> None:
    command = "llmops tune --trial --model /models/qwen3-8b-instruct-q4_k_m.gguf --gpu 'RTX 3090:24GiB' --users 12"
    text = shell_lines(command)
    assert widest(text) <= WIDTH
    assert shlex.split(text.replace("\\\n", " ")) == shlex.split(command)
    assert "--model /models/qwen3-8b-instruct-q4_k_m.gguf" in text
    assert shell_lines("sudo llmops tune --apply") == "  sudo llmops tune --apply"


def test_cards_that_are_linked_alike_are_told_in_one_row() -> None:
    gpus = tuple(Gpu(index, None, "card", 24 * GIB, 24 * GIB) for index in range(3))
    bus = CardLink(0, 2, "pcie", 31_500_000_000, "a host bridge", peer_access=False)
    links = (CardLink(0, 1, "nvlink", 56_248_000_000), bus, replace(bus, first=1), CardLink(1, 3))
    text = plain(hardware_text(Hardware(gpus=gpus, links=links)))
    assert "link 0-1" in text
    assert "NVLink, 56.2 GB/s in each direction" in text
    assert "link 0-2, 1-2" in text
    assert "through a host bridge, not past the host's memory" in " ".join(text.split())
    assert "how is not known" in text
