"""Which of a person's settings contradict a plan, and which say the same in other words."""

from __future__ import annotations

import pytest

from llmops.engines.base import Contradiction, Setting
from llmops.engines.found import InForce
from llmops.engines.llama_server.contradictions import contradictions
from tests.unit.fake_machine import FakeFile, FakeMachine

UNIT = "llama-server.service"
SETTINGS = (
    Setting("--parallel", "5"),
    Setting("--ctx-size", "40960"),
    Setting("--no-kv-unified", None),
    Setting("--load-mode", "mmap"),
    Setting("--metrics", None),
    Setting("--port", "8080"),
)
DROP_IN = f"/etc/systemd/system/{UNIT}.d/mine.conf"
VARIABLES = "/etc/default/llama-server"


def in_drop_in(text: str) -> tuple[Contradiction, ...]:
    seen = InForce(unmanaged_drop_ins=((DROP_IN, f"[Service]\n{text}\n"),))
    return contradictions(FakeMachine(), SETTINGS, UNIT, seen, ())


def in_variables(text: str) -> tuple[Contradiction, ...]:
    host = FakeMachine(files={VARIABLES: FakeFile(text)})
    return contradictions(host, SETTINGS, UNIT, InForce(environment_files=(VARIABLES,)), ())


@pytest.mark.parametrize(
    ("arguments", "setting", "theirs"),
    [
        ("-np 4", "--parallel", "-np 4"),
        ("--parallel=4", "--parallel", "--parallel=4"),
        ("-np 5 -np 4", "--parallel", "-np 4"),
        ("-kvu", "--no-kv-unified", "-kvu"),
        ("--no-mmap", "--load-mode", "--no-mmap"),
    ],
)
def test_arguments_that_contradict(arguments: str, setting: str, theirs: str) -> None:
    (found,) = in_drop_in(f"ExecStart=\nExecStart=/usr/bin/llama-server {arguments}")
    assert (found.path, found.source, found.setting, found.theirs) == (DROP_IN, "drop_in", setting, theirs)


def test_a_line_that_systemd_cannot_read_sets_nothing() -> None:
    assert in_drop_in('Environment="LLAMA_ARG_N_PARALLEL=3') == ()


def test_a_variable_with_the_planned_value_contradicts_nothing() -> None:
    text = "[Service]\nExecStart=\nExecStart=/usr/bin/llama-server -np ${N}\n"
    seen = InForce(unmanaged_drop_ins=((DROP_IN, text),), configured_environment=(("N", "5"),))
    assert contradictions(FakeMachine(), SETTINGS, UNIT, seen, ()) == ()


@pytest.mark.parametrize(
    "arguments",
    [
        "-np 5",
        "-c 40960",
        "--parallel=5 --ctx_size 40960",
        "-no-kvu",
        "--metrics",
        "--mmap",
        "--port 9000",
        "-m /other.gguf",
    ],
)
def test_arguments_that_agree_or_that_no_plan_decides(arguments: str) -> None:
    assert in_drop_in(f"ExecStart=/usr/bin/llama-server {arguments}") == ()


def test_a_command_that_is_reset_later_does_not_count() -> None:
    assert in_drop_in("ExecStart=/usr/bin/llama-server -np 4\nExecStart=\nExecStart=/usr/bin/llama-server -np 5") == ()


@pytest.mark.parametrize("text", ["Nice=5", 'ExecStart="open', "[Unit]\nExecStart=/usr/bin/llama-server -np 4"])
def test_what_sets_nothing(text: str) -> None:
    assert in_drop_in(text) == ()


@pytest.mark.parametrize(
    ("line", "ours"),
    [
        ("LLAMA_ARG_N_PARALLEL=4", "5"),
        ("LLAMA_ARG_CTX_SIZE=8192", "40960"),
        ("LLAMA_ARG_KV_UNIFIED=1", "false"),
        ("LLAMA_ARG_ENDPOINT_METRICS=0", "true"),
        ("LLAMA_ARG_LOAD_MODE=mlock", "mmap"),
    ],
)
def test_variables_that_contradict(line: str, ours: str) -> None:
    name, _, theirs = line.partition("=")
    assert in_variables(line) == (Contradiction(VARIABLES, "environment_file", name, theirs, ours),)
    (found,) = in_drop_in(f"Environment={line}")
    assert (found.source, found.setting, found.theirs, found.ours) == ("drop_in", name, theirs, ours)


@pytest.mark.parametrize(
    "line",
    [
        "LLAMA_ARG_N_PARALLEL=5",
        "LLAMA_ARG_NO_KV_UNIFIED=1",
        "LLAMA_ARG_KV_UNIFIED=off",
        "LLAMA_ARG_ENDPOINT_METRICS=1",
        "LLAMA_ARG_NO_MMAP=1",
        "LLAMA_API_KEY=x",
    ],
)
def test_variables_that_agree_or_that_no_plan_decides(line: str) -> None:
    assert in_variables(line) == ()


def test_our_own_and_absent_files_do_not_count() -> None:
    host = FakeMachine(files={"/etc/llmops/llama-server.env": FakeFile("LLAMA_ARG_N_PARALLEL=4\n")})
    seen = InForce(environment_files=("/etc/llmops/llama-server.env", "/etc/absent"))
    assert contradictions(host, SETTINGS, UNIT, seen, ()) == ()
