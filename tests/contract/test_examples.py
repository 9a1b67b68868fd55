"""The examples are true: every configuration file makes a plan, the transcript prints what it says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from llmops.cli.application import application
from tests.contract.transcript import PAGE, answer, eight_billion_model, on_a_machine, renewed
from tests.unit.cli.machine import model_file

EXAMPLES = PAGE.parent
CARD = ("--ram", "64GiB", "--cores", "16", "--bandwidth", "50GB/s", "--gpu", "RTX 4090:24GiB:23GiB:8.9:1008GB/s")
SMALL = ("--ram", "8GiB", "--cores", "4", "--bandwidth", "20GB/s", "--no-gpu")
MACHINES = {"cpu-vps-4-cores.yaml": SMALL, "chat-team-24gb.yaml": CARD, "agents.yaml": CARD}


def plan(directory: Path, name: str) -> Any:
    model = str(model_file(directory, layers=16, context=65_536))
    words = ["plan", "--config", str(EXAMPLES / name), "--engine-version", "11434", "--model", model, *MACHINES[name]]
    with on_a_machine(directory):
        result = CliRunner().invoke(application, [*words, "--output", "json"])
    assert result.exit_code == 0, result.stdout
    return json.loads(result.stdout)["data"]


def test_every_example_is_run() -> None:
    assert {path.name for path in EXAMPLES.glob("*.yaml")} == set(MACHINES)


@pytest.mark.parametrize("name", MACHINES)
def test_every_value_of_an_example_reaches_the_plan(tmp_path: Path, name: str) -> None:
    data = plan(tmp_path, name)
    from_file = {row["name"] for row in data["settings"] if row["source"].startswith("file ")}
    lines = (EXAMPLES / name).read_text().splitlines()
    written = {line.partition(":")[0] for line in lines if line and not line.startswith("#")}
    assert from_file == written - {"model"}  # the test gives a model that exists


@pytest.mark.parametrize("name", MACHINES)
def test_every_value_of_an_example_has_a_comment_above_its_group(name: str) -> None:
    for group in (EXAMPLES / name).read_text().split("\n\n"):
        assert "#" in group or group.startswith(("engine:", "users:")), group


def test_the_small_server_gets_few_slots_and_a_short_context(tmp_path: Path) -> None:
    shape = plan(tmp_path, "cpu-vps-4-cores.yaml")["plan"]
    assert 1 <= shape["slots"] <= 3
    assert shape["context_tokens_per_slot"] == 4096


def test_the_team_has_fewer_slots_than_people(tmp_path: Path) -> None:
    data = plan(tmp_path, "chat-team-24gb.yaml")
    assert data["plan"]["in_flight"] < data["plan"]["slots"] < 20
    assert data["plan"]["wait_probability"] <= 0.1


def test_every_agent_has_a_slot(tmp_path: Path) -> None:
    data = plan(tmp_path, "agents.yaml")
    assert data["plan"]["in_flight"] == 3
    assert data["plan"]["slots"] == 3
    assert data["plan"]["context_tokens_per_slot"] >= 32_768


def test_the_transcript_is_what_the_program_prints() -> None:
    page = PAGE.read_text("utf-8")
    assert renewed(page) == page, "run: python -m tests.contract.transcript"


def test_the_article_s_figures(tmp_path: Path) -> None:
    eight_billion_model(tmp_path)
    base = "--engine-version 11434 --model qwen3-8b-f16.gguf --ram 64GiB --bandwidth 50GB/s"
    card = "--gpu 'RTX 3090:24GB:24GB:8.6:936GB/s'"
    with on_a_machine(tmp_path):

        def value(words: str, path: str) -> float:
            return float(answer(f"llmops {words} {base} {card} --output json | jq {path}", tmp_path))

        assert value("size --slots 1 --context 8192", ".data.model.cache_bytes_per_token") == 147_456
        assert value("size --slots 1 --context 8192", ".data.budget[1].cache_bytes") == 147_456 * 8_192
        assert value("size --slots 5 --context 8192", ".data.budget[1].cache_bytes") == 5 * 147_456 * 8_192
        assert value("size --slots 5 --context 8192", ".exit_code") == 0
        assert value("size --slots 8 --context 8192", ".exit_code") == 4
        twenty = "plan --users 20 --generation-seconds 12 --turn-seconds 90"
        assert value(twenty, ".data.plan.in_flight") == pytest.approx(20 * 12 / 90)
        assert value(f"{twenty} --cache-type f16", ".data.plan.slots") >= 4
