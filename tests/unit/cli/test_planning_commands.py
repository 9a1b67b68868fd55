"""plan, size, render and tune without --apply on a machine in memory."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.unit.cli.conftest import Run
from tests.unit.cli.machine import Machine

# A version that is planned for, so that no engine of the machine that runs the tests plays a part.
VERSION = ("--engine-version", "11434")


def test_plan_as_json_holds_every_part(run: Run, machine: Machine, model: str) -> None:
    ran = run("plan", "--model", model, *VERSION, "--output", "json")
    assert ran.exit_code == 0
    data = ran.envelope["data"]
    assert ran.envelope["status"] == "ok"
    assert data["plan"]["engine"] == "llama-server"
    assert data["plan"]["cache_tokens"] == data["plan"]["slots"] * data["plan"]["context_tokens_per_slot"]
    assert data["plan"]["context_tokens_per_slot"] >= 8192
    assert str(data["plan"]["slots"]) in data["plan"]["arguments"]
    assert data["hardware"]["memory"]["total_bytes"] == 8 * 1024**3
    assert data["model"]["reference"] == model
    assert [row["streams"] for row in data["speed"]] == [1, 2, 5, 20]
    assert all(row["basis"] == "predicted" for row in data["speed"])
    assert data["reasons"]
    for row in data["budget"]:
        used = sum(row[f"{part}_bytes"] for part in ("weights", "cache", "state", "compute", "output", "runtime"))
        used += row["prompt_cache_bytes"] + row["reserve_bytes"]
        assert used + row["free_bytes"] == row["available_bytes"]


def test_plan_as_text_fits_a_page_and_says_what_is_next(run: Run, machine: Machine, model: str) -> None:
    text = run("plan", "--model", model, *VERSION, "--explain").stdout
    too_long = [line for line in text.splitlines() if len(line) > 80 and model not in line]
    assert too_long == []
    for word in ("slots", "Memory", "Speed, predicted", "Why", "Settings", "Next"):
        assert word in text
    _, step = text.replace("\\\n", " ").split("Next\n")
    assert step.split() == ["llmops", "tune", "--model", model, *VERSION]
    assert "\x1b[" not in text


def test_explain_says_where_each_value_came_from(run: Run, machine: Machine, model: str, tmp_path: Path) -> None:
    config = tmp_path / "llmops.yaml"
    config.write_text("# the team\nusers: 7\nreply-tokens: 200\n")
    ran = run("plan", "--model", model, *VERSION, "--config", str(config), "--users", "3", "--output", "json")
    sources = {row["name"]: (row["value"], row["source"]) for row in ran.envelope["data"]["settings"]}
    assert sources["users"] == (3, "flag --users")
    assert sources["reply-tokens"] == (200, f"file {config}:3")
    assert sources["prompt-tokens"] == (1500, "default of workload chat")
    assert ran.envelope["data"]["workload"]["users"] == 3
    assert ran.envelope["data"]["workload"]["reply_tokens"] == 200


def test_workload_kind_sets_the_defaults_of_the_rest(run: Run, machine: Machine, model: str) -> None:
    ran = run("plan", "--model", model, *VERSION, "--workload", "batch", "--output", "json")
    workload = ran.envelope["data"]["workload"]
    assert (workload["users"], workload["turn_seconds"], workload["context_floor_tokens"]) == (4, None, 4096)


def test_hardware_from_a_saved_probe(run: Run, machine: Machine, model: str, tmp_path: Path) -> None:
    saved = tmp_path / "probe.json"
    saved.write_text(run("probe", "--output", "json").stdout)
    here = run("plan", "--model", model, *VERSION, "--bandwidth", "20GB/s", "--output", "json").envelope["data"]
    machine.files.clear()
    again = run(
        "plan", "--model", model, *VERSION, "--bandwidth", "20GB/s", "--hardware", str(saved), "--output", "json"
    )
    assert again.envelope["data"]["plan"] == here["plan"]


def test_the_flag_silences_what_it_contradicts_in_the_file(
    run: Run, machine: Machine, model: str, tmp_path: Path
) -> None:
    config = tmp_path / "llmops.yaml"
    config.write_text("gpu: ['RTX 3090:24GiB']\n")
    words = ("plan", "--model", model, *VERSION, "--config", str(config), "--output", "json")
    assert [gpu["name"] for gpu in run(*words).envelope["data"]["hardware"]["gpus"]] == ["RTX 3090"]
    assert run(*words, "--no-gpu").envelope["data"]["hardware"]["gpus"] == []


def test_size_is_exactly_what_was_asked_for(run: Run, machine: Machine, model: str) -> None:
    plan = run("size", "--slots", "3", "--context", "4096", "--model", model, *VERSION, "--output", "json")
    assert plan.exit_code == 0
    shape = plan.envelope["data"]["plan"]
    assert (shape["slots"], shape["context_tokens_per_slot"], shape["cache_tokens"]) == (3, 4096, 12_288)
    # 8 layers x 4 KV heads x 64 x 2 (keys and values) x 2 bytes = 8,192 bytes per token
    (host,) = plan.envelope["data"]["budget"]
    assert host["cache_bytes"] == 12_288 * 8_192


@pytest.mark.parametrize(
    ("version", "said"),
    [
        ("b5600", "4,096 tokens for each slot"),
        ("b7000", "1,024 tokens for each slot, 4,096 in one pool"),
        ("b11434", "all that the model was trained on, or what fits"),
    ],
)
def test_size_says_which_context_a_build_takes_by_itself(
    run: Run, machine: Machine, model: str, version: str, said: str
) -> None:
    ran = run("size", "--model", model, "--engine-version", version, "--output", "json")
    assert any(
        line.startswith("without --context") and line.endswith(said) for line in ran.envelope["data"]["warnings"]
    )


SMALL_CARD = ("--gpu", "Card:2GiB:2GiB:8.6:900GB/s", "--ram", "64GiB")


@pytest.mark.parametrize(
    ("version", "given", "said"),
    [
        ("b11434", (), {"--context fixes it", "--gpu-layers fixes them"}),
        ("b11434", ("--context", "16384"), {"--gpu-layers fixes them"}),
        ("b11434", ("--context", "16384", "--gpu-layers", "9"), set()),
        ("b7000", ("--context", "16384"), set()),
    ],
)
def test_size_says_what_a_build_fits_by_itself_where_room_is_short(
    run: Run, machine: Machine, model: str, version: str, given: tuple[str, ...], said: set[str]
) -> None:
    words = ("size", "--slots", "40", *given, "--model", model, "--engine-version", version, *SMALL_CARD)
    ran = run(*words, "--output", "json")
    assert ran.exit_code == 4
    lines = [line for line in ran.envelope["data"]["warnings"] if "its --fit" in line]
    assert {line.rpartition("; ")[2] for line in lines} == said


def test_size_says_nothing_of_fitting_where_there_is_room(run: Run, machine: Machine, model: str) -> None:
    ran = run("size", "--slots", "1", "--context", "4096", "--model", model, *VERSION, *SMALL_CARD, "--output", "json")
    assert ran.exit_code == 0
    assert not any("its --fit" in line for line in ran.envelope["data"]["warnings"])


def test_size_that_does_not_fit_has_code_4_and_all_figures(run: Run, machine: Machine, model: str) -> None:
    words = ("size", "--slots", "200", "--context", "16384", "--model", model, *VERSION)
    ran = run(*words, "--output", "json")
    assert (ran.exit_code, ran.envelope["status"]) == (4, "error")
    assert ran.envelope["errors"][0]["code"] == "does_not_fit"
    (host,) = ran.envelope["data"]["budget"]
    assert host["free_bytes"] < 0
    assert ran.envelope["data"]["plan"]["slots"] == 200
    text = run(*words)
    assert "short" in text.stdout
    assert text.stderr.startswith("error: 200 slots of 16,384 tokens need ")


def test_size_names_the_device_that_lacks_room_from_the_start(run: Run, machine: Machine, model: str) -> None:
    card = ("--gpu", "Card:6GiB:6GiB:8.6:900GB/s", "--ram", "3GiB")
    ran = run("size", "--slots", "40", "--context", "16384", "--model", model, *VERSION, *card, "--output", "json")
    assert ran.exit_code == 4
    host, gpu = ran.envelope["data"]["budget"]
    assert host["free_bytes"] < gpu["free_bytes"] < 0  # saved prompts may grow to 8 GiB on the host
    (error,) = ran.envelope["errors"]
    assert " on gpu0, which has 6.00 GiB" in error["message"]
    assert "saved prompts" not in error["message"]
    small = run("size", "--slots", "200", "--context", "16384", "--model", model, *VERSION)
    assert "saved prompts not counted" in small.stderr


def test_plan_that_cannot_fit_is_4_and_names_what_would(run: Run, machine: Machine, model: str) -> None:
    ran = run("plan", "--model", model, *VERSION, "--ram", "100MiB")
    assert ran.exit_code == 4
    assert ran.stdout == ""
    error, hint = [line for line in ran.stderr.splitlines() if ": " in line][-2:]
    assert error.startswith("error: ")
    assert hint.startswith("hint: ")


def test_render_prints_exactly_the_file(run: Run, machine: Machine, model: str) -> None:
    machine.installed = True
    machine.__post_init__()
    as_json = run("render", "--model", model, "--output", "json").envelope
    (file,) = as_json["data"]["files"]
    assert run("render", "--model", model).stdout == file["after"]
    assert file["before"] is None
    assert "[Service]" in file["after"]


def test_render_writes_below_a_directory(run: Run, machine: Machine, model: str) -> None:
    machine.installed = True
    machine.__post_init__()
    ran = run("render", "--model", model, "--directory", "/srv/out", "--output", "json")
    assert (ran.exit_code, ran.envelope["status"]) == (0, "changed")
    for file in ran.envelope["data"]["files"]:
        assert machine.files[f"/srv/out{file['path']}"].text == file["after"]


def test_tune_changes_nothing_and_names_the_steps_where_no_engine_is(run: Run, machine: Machine, model: str) -> None:
    ran = run("tune", "--model", model, *VERSION, "--output", "json")
    assert (ran.exit_code, ran.envelope["status"]) == (0, "ok")
    assert ran.envelope["data"]["apply_refused"]["code"] == "not_installed"
    assert machine.log == []
    text = run("tune", "--model", model, *VERSION).stdout
    assert "--apply would refuse" in text


def test_tune_apply_without_an_engine_is_7_with_the_plan_and_changes_nothing(
    run: Run, machine: Machine, model: str
) -> None:
    ran = run("tune", "--apply", "--model", model, *VERSION, "--output", "json")
    assert (ran.exit_code, ran.envelope["status"]) == (7, "error")
    assert ran.envelope["errors"][0]["code"] == "not_installed"
    assert "install" in ran.envelope["errors"][0]["hint"]
    assert ran.envelope["data"]["plan"]["slots"] >= 1
    assert machine.log == []


def test_tune_shows_the_difference_and_has_status_changed(run: Run, machine: Machine, model: str) -> None:
    machine.installed = True
    machine.__post_init__()
    words = ("tune", "--install-unit", "--model", model)
    ran = run(*words, "--output", "json")
    assert (ran.exit_code, ran.envelope["status"]) == (0, "changed")
    paths = [file["path"] for file in ran.envelope["data"]["files"]]
    assert any(path.endswith(".service") for path in paths)
    text = run(*words).stdout
    assert "+++ " in text
    assert "sudo llmops tune --apply --install-unit" in text
    assert machine.log == []


def test_installed_without_a_unit_says_how(run: Run, machine: Machine, model: str) -> None:
    machine.installed = True
    machine.__post_init__()
    ran = run("tune", "--apply", "--model", model)
    assert ran.exit_code == 7
    assert "--install-unit" in ran.stderr
    assert machine.log == []


def test_json_numbers_are_json(run: Run, machine: Machine, model: str) -> None:
    def refuse(name: str) -> None:
        raise AssertionError(name)

    json.loads(run("plan", "--model", model, *VERSION, "--output", "json").stdout, parse_constant=refuse)


@pytest.mark.parametrize("output", ["text", "json"])
def test_progress_never_touches_the_result(run: Run, machine: Machine, model: str, output: str) -> None:
    ran = run("tune", "--model", model, *VERSION, "--output", output)
    assert "measuring memory bandwidth" in ran.stderr
    assert "measuring" not in ran.stdout


CARD = ("--gpu", "Card:24GiB:23GiB:8.9:1008GB/s", "--ram", "64GiB", "--cores", "16")
BUSY = ("--users", "40", "--generation-seconds", "5", "--turn-seconds", "10")


def test_another_engine_is_named_where_it_pays_and_nothing_is_switched(run: Run, machine: Machine, model: str) -> None:
    words = ("plan", "--engine", "llama-server", *VERSION, "--model", model, *CARD)
    busy = run(*words, *BUSY, "--output", "json").envelope["data"]
    assert (busy["recommendation"]["step"], busy["recommendation"]["engine"]) == ("consider_vllm", "vllm")
    assert busy["plan"]["engine"] == "llama-server"
    text = run(*words, *BUSY).stdout
    assert "Engine\n  where" in text
    assert "not as GGUF" in " ".join(text.split())
    calm = run(*words, "--output", "json").envelope["data"]["recommendation"]
    assert calm["step"] == "keep"
    assert any("really in flight" in reason for reason in calm["reasons"])
    assert "\nEngine\n" not in run(*words).stdout
    assert "\nEngine\n" in run(*words, "--explain").stdout
