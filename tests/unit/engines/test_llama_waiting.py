"""How threads wait: the one setting that is a variable, from the plan to the check of the running process."""

from __future__ import annotations

from dataclasses import replace

import pytest

from llmops.core.plan import Plan
from llmops.core.verification import CheckStatus
from llmops.engines import engine_named
from llmops.engines.found import InForce
from llmops.engines.llama_server.command import build
from tests.unit.engines.llama_host import a_plan, installed

WORDS = ("/usr/bin/llama-server", "--model", "/models/m.gguf")
UNIT = InForce(configured_arguments=WORDS, user_arguments=WORDS)
ASLEEP = ("OMP_WAIT_POLICY", "passive")


def plan(*, asleep: bool = True) -> Plan:
    return a_plan(passive_waiting=asleep)


def test_the_drop_in_sets_the_variable_beside_the_command() -> None:
    engine = engine_named("llama-server")
    (file,) = engine.files(plan(), installed(unit="llama-server.service", managed_by="unit"), UNIT)
    assert "\nEnvironment=OMP_WAIT_POLICY=passive\n" in file.content
    assert "OMP_WAIT_POLICY passive" not in file.content


def test_nothing_is_set_where_processors_are_their_own() -> None:
    engine = engine_named("llama-server")
    (file,) = engine.files(plan(asleep=False), installed(unit="llama-server.service", managed_by="unit"), UNIT)
    assert "OMP_WAIT_POLICY" not in file.content


def test_a_trial_runs_with_it_and_without_it_among_the_words() -> None:
    launch = engine_named("llama-server").launch(plan(), installed(), 9)
    assert launch.environment["OMP_WAIT_POLICY"] == "passive"
    assert "OMP_WAIT_POLICY" not in launch.argv


@pytest.mark.parametrize("own", [("OMP_WAIT_POLICY", "active"), ("GOMP_SPINCOUNT", "1000")])
def test_what_a_person_decided_himself_stays(own: tuple[str, str]) -> None:
    command = build(plan(), installed(), replace(UNIT, configured_environment=(own,)))
    assert not [setting for setting in command.settings if setting.environment]


def test_our_own_variable_of_the_last_apply_is_no_decision_of_a_person() -> None:
    command = build(plan(), installed(), replace(UNIT, configured_environment=(ASLEEP,)))
    assert [(setting.name, setting.value) for setting in command.settings if setting.environment] == [ASLEEP]


@pytest.mark.parametrize(
    ("environment", "status", "observed"),
    [
        ((ASLEEP,), CheckStatus.PASS, "passive"),
        ((("PATH", "/bin"),), CheckStatus.FAIL, "unset"),
        ((("OMP_WAIT_POLICY", "active"),), CheckStatus.FAIL, "active"),
        (None, CheckStatus.NOT_EVALUATED, None),
    ],
)
def test_the_running_process_must_have_it(
    environment: tuple[tuple[str, str], ...] | None, status: CheckStatus, observed: str | None
) -> None:
    engine = engine_named("llama-server")
    wanted = engine.expectations(plan(), installed())
    found = engine.checks(wanted, installed(), InForce(environment=environment))
    (check,) = [check for check in found if check.name == "OMP_WAIT_POLICY"]
    assert (check.status, check.observed) == (status, observed)
