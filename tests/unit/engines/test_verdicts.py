"""What every engine is expected to do alike."""

from __future__ import annotations

import pytest

from llmops.core.verification import CheckStatus, Expectation
from llmops.engines.found import InForce, Installation
from llmops.engines.unit import drop_in_path
from llmops.engines.verdicts import COMMON, not_evaluated, same_command, unit_expectations

UNIT = "engine.service"
OURS = drop_in_path(UNIT)


def installation(unit: str | None) -> Installation:
    return Installation("engine", "unit", ("engine",), None, None, None, unit=unit)


def test_without_a_unit_nothing_is_expected_of_systemd() -> None:
    assert unit_expectations(installation(None), None) == ()


@pytest.mark.parametrize(
    ("ours", "names"), [(True, ["daemon_reload_needed"]), (False, ["drop_in", "daemon_reload_needed"])]
)
def test_a_unit_that_is_ours_has_no_drop_in(ours: bool, names: list[str]) -> None:
    found = unit_expectations(installation(UNIT), InForce(unit_file_managed=ours))
    assert [one.name for one in found] == names


@pytest.mark.parametrize(
    ("loaded", "status", "detail"),
    [
        ((OURS,), CheckStatus.PASS, "the last of DropInPaths"),
        ((OURS, "/other.conf"), CheckStatus.FAIL, "it must be the last, so that nothing overrides it"),
        ((), CheckStatus.FAIL, "not loaded"),
    ],
)
def test_our_drop_in_must_be_the_last(loaded: tuple[str, ...], status: CheckStatus, detail: str) -> None:
    seen = InForce(drop_ins=loaded, need_daemon_reload=False)
    verdict = COMMON["unit", "drop_in"](Expectation("drop_in", "unit", OURS), seen)
    assert (verdict[0], verdict[2]) == (status, detail)


def test_the_reason_of_the_part_itself_comes_before_that_of_what_it_is_read_from() -> None:
    seen = InForce(unseen=(("arguments", "the server is not running"), ("environment", "readable by root only")))
    assert not_evaluated(seen, "environment")[2] == "readable by root only"
    assert not_evaluated(seen, "metrics") == (CheckStatus.NOT_EVALUATED, None, "the server is not running")
    assert not_evaluated(InForce(), "metrics")[2] == "not observed"


@pytest.mark.parametrize(("running", "status"), [("8080", CheckStatus.PASS), ("8081", CheckStatus.FAIL)])
def test_arguments_are_compared_and_the_words_of_the_program_are_not(running: str, status: CheckStatus) -> None:
    seen = InForce(
        arguments=("/usr/bin/python3", "/usr/bin/engine", "--port", running),
        configured_arguments=("/usr/bin/engine", "--port", "8080"),
    )

    def program_length(words: object) -> int:
        return 2 if words == seen.arguments else 1

    expectation = Expectation("running_command", "unit", "as configured")
    assert same_command(expectation, seen, program_length)[0] is status
