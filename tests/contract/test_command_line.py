"""What scripts rely on: names, JSON shapes, exit codes, quick start; and that the pages about them are true."""

from __future__ import annotations

import inspect
import json
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from click.testing import CliRunner

from llmops.cli import hosts
from llmops.cli.application import COMMANDS, application
from llmops.cli.option_table import CONFIGURABLE, PLANNING
from llmops.core import errors
from tests.unit.cli.machine import Machine, checkpoint, model_file

ROOT = Path(__file__).parents[2]
REFERENCE = ROOT / "docs/reference"
SCHEMA = json.loads((Path(__file__).parent / "output.schema.json").read_text())
HEAVY = ("requests", "jinja2", "ruamel.yaml", "pynvml", "psutil", "tabulate", "llmops.engines", "llmops.host.local")


def invoke(*words: str) -> Any:
    return CliRunner().invoke(application, list(words))


def validate(instance: object, definition: str) -> None:
    jsonschema.validate(instance, {**SCHEMA, "$ref": f"#/$defs/{definition}"})


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Machine:
    found = Machine(disk=tmp_path, installed=True)
    monkeypatch.setattr(hosts, "build_host", lambda *_, **__: found)
    monkeypatch.setattr(hosts, "build_mutable_host", lambda **__: found)
    monkeypatch.setattr("llmops.cli.settings.configuration_places", tuple)
    return found


# The start


def loaded_modules(*words: str, first: str = "") -> set[str]:
    code = (
        f"{first}import sys, json, io\n"
        "from contextlib import redirect_stdout, redirect_stderr\n"
        "from llmops.cli.application import application\n"
        "try:\n"
        "    with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):\n"
        f"        application.main({list(words)!r})\n"
        "except SystemExit:\n"
        "    print(json.dumps(sorted(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    return set(json.loads(done.stdout))


def test_help_of_a_command_imports_only_that_command() -> None:
    loaded = loaded_modules("plan", "--help")
    assert "llmops.cli.commands.plan" in loaded
    assert "llmops.cli.commands.tune" not in loaded
    assert loaded.isdisjoint(HEAVY)


def test_probe_needs_neither_templates_nor_yaml_nor_http_where_no_engine_runs() -> None:
    nothing_runs = "from llmops.host.local import LocalHost\nLocalHost.processes = lambda self: ()\n"
    loaded = loaded_modules("probe", first=nothing_runs)
    assert "llmops.actions.serving_now" in loaded
    assert loaded.isdisjoint({"requests", "jinja2", "ruamel.yaml"})


def test_a_reader_that_goes_away_is_quiet() -> None:
    code = (
        "import os\n"
        "reader, writer = os.pipe(); os.close(reader); os.dup2(writer, 1)\n"
        "from llmops.cli.application import application\n"
        "application.main(['probe'])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=ROOT)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_full_disk_is_one_line() -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "llmops", "history"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            cwd=ROOT,
        )
    assert done.returncode == 1
    assert done.stderr.splitlines() == ["error: the result could not be written: No space left on device"]


def test_control_c_ends_quickly_with_130() -> None:
    words = [sys.executable, "-m", "llmops", "probe", "--bandwidth"]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT)
    assert process.stderr is not None
    assert process.stderr.readline() == "measuring memory bandwidth\n"
    process.send_signal(signal.SIGINT)
    output, said = process.communicate(timeout=120)
    assert (process.returncode, output) == (130, "")
    assert said.strip() == "error: stopped by signal 2"
    assert "Traceback" not in said


# The shapes


def test_the_schema_is_a_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


@pytest.mark.parametrize(
    ("words", "definition", "exit_code"),
    [
        (("probe",), "probed", 0),
        (("plan", "--explain"), "planned", 0),
        (("plan", "--gpu", "RTX 3090:24GiB:23GiB:8.6:936GB/s", "--ram", "32GiB"), "planned", 0),
        (("plan", "--workload", "agent"), "planned", 0),
        (("size", "--slots", "2", "--context", "2048"), "planned", 0),
        (("size", "--slots", "200", "--context", "16384"), "planned", 4),
        (("render",), "with_files", 0),
        (("tune", "--install-unit"), "with_files", 0),
        (("tune",), "with_files", 0),
        (("history",), "history", 0),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else str(value),
)
def test_data_has_its_documented_shape(
    machine: Machine, tmp_path: Path, words: tuple[str, ...], definition: str, exit_code: int
) -> None:
    model = ("--model", str(model_file(tmp_path))) if words[0] not in {"probe", "history"} else ()
    result = invoke(*words, *model, "--output", "json")
    envelope = json.loads(result.stdout)
    validate(envelope, "envelope")
    validate(envelope["data"], definition)
    assert (result.exit_code, envelope["exit_code"], envelope["command"]) == (exit_code, exit_code, words[0])
    page = (REFERENCE / "json.md").read_text()
    assert [key for key in envelope["data"] if f"`{key}`" not in page and f"`{key}[]`" not in page] == []


@pytest.mark.parametrize(
    ("words", "exit_code"),
    [
        (("plan", "--gpu", "RTX 4090:24GiB:24GiB:8.9:1008GB/s", "--explain"), 0),
        (
            (
                "plan",
                *("--gpu", "Card:24GiB") * 2,
                "--tensor-parallel",
                "2",
                "--enable-prefix-caching",
                "--ram",
                "32GiB",
            ),
            0,
        ),
        (("size", "--kv-memory", "1GiB", "--slots", "2", "--context", "4096", "--enforce-eager"), 0),
        (("size", "--kv-memory", "1GiB", "--slots", "200", "--context", "16384"), 4),
        (("size", "--no-gpu", "--kv-memory", "1GiB", "--ram", "32GiB", "--slots", "2", "--context", "4096"), 0),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else str(value),
)
def test_data_for_vllm_has_its_documented_shape(
    machine: Machine, tmp_path: Path, words: tuple[str, ...], exit_code: int
) -> None:
    common = ("--engine", "vllm", "--engine-version", "0.33.0", "--model", str(checkpoint(tmp_path)))
    result = invoke(*words, *common, "--output", "json")
    envelope = json.loads(result.stdout)
    validate(envelope, "envelope")
    validate(envelope["data"], "planned")
    assert (result.exit_code, envelope["exit_code"]) == (exit_code, exit_code)
    paged = [row for row in envelope["data"]["budget"] if "cache_tokens" in row]
    assert paged, "the pool is shown"
    assert all(row["usable_cache_tokens"] < row["cache_tokens"] for row in paged)


@pytest.mark.parametrize("words", [("plan", "--users", "0"), ("nonsense",), ("plan",), ("verify",), ("rollback",)])
def test_errors_have_the_envelope_too(machine: Machine, words: tuple[str, ...]) -> None:
    result = invoke("--output", "json", *words)
    envelope = json.loads(result.stdout)
    validate(envelope, "envelope")
    assert result.exit_code == envelope["exit_code"] == 2
    assert envelope["status"] == "error"


def test_a_saved_plan_is_what_apply_reads(machine: Machine, tmp_path: Path) -> None:
    from llmops.cli.saved import plan_from_file

    saved = tmp_path / "plan.json"
    saved.write_text(invoke("plan", "--model", str(model_file(tmp_path)), "--output", "json").stdout)
    plan = plan_from_file(str(saved))
    data = json.loads(saved.read_text())["data"]
    assert plan.slots == data["plan"]["slots"]
    assert len(plan.reasons) == len(data["reasons"])


# The pages


@pytest.mark.parametrize("name", COMMANDS)
def test_the_summary_in_the_list_is_the_first_line_of_the_command(name: str) -> None:
    context = application.make_context("llmops", [name, "--help"], resilient_parsing=True)
    command = application.get_command(context, name)
    assert command is not None
    assert command.help is not None
    assert inspect.cleandoc(command.help).split("\n\n")[0].replace("\n", " ") == COMMANDS[name]


def test_every_documented_key_exists() -> None:
    rows = re.findall(r"^\| (`[^|]+) \|", (REFERENCE / "configuration.md").read_text(), re.MULTILINE)
    assert {key for row in rows for key in re.findall(r"`([^`]+)`", row)} == set(CONFIGURABLE)


def test_every_word_for_scripts_and_exit_code_is_documented() -> None:
    page = (REFERENCE / "exit-codes.md").read_text()
    for kind in vars(errors).values():
        if inspect.isclass(kind) and issubclass(kind, errors.LlmopsError):
            rows = [line for line in page.splitlines() if line.startswith("| ") and f"`{kind.code}`" in line]
            assert [row.split("|")[1].strip() for row in rows] == [str(kind.exit_code)], kind


def test_every_planning_option_is_on_every_planning_command() -> None:
    for name in ("plan", "tune", "render", "apply", "size"):
        text = invoke(name, "--help").stdout
        assert [spec.name for spec in PLANNING if f"--{spec.name}" not in text] == []
