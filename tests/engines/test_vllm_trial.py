"""A trial with the real vLLM: started with the plan's settings, its cache as planned to the token, ended with all."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from llmops.core.units import MIB
from tests.engines.conftest import REPOSITORY, absent
from tests.truth.tiny_models import full_attention, write_model
from tools.get_vllm import installed_version, python_path

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(1800)]

# Blocks of 128 tokens and 2,048 bytes for each token: 24 of them.
POOL_BYTES, POOL_TOKENS = 6 * MIB, 3_072
CONTEXT, SLOTS = 1_024, 2
PLANNED = (
    "--engine", "vllm", "--context", str(CONTEXT), "--slots", str(SLOTS), "--kv-memory", "6MiB", "--prompt-tokens",
    "300", "--reply-tokens", "100", "--enforce-eager",
)  # fmt: skip


@pytest.fixture(scope="module")
def directory() -> Path:
    """The programs of a vLLM's environment."""
    python = python_path()
    if installed_version(python) is None:
        absent("vLLM")
    return python.parent


def trial(directory: Path, model: Path, state: Path, *more: str, **variables: str) -> tuple[int, Any, str]:
    """Exit code, envelope and progress of `llmops tune --trial`; of an option that is there twice the last counts."""
    environment = {
        **os.environ,
        "PATH": f"{directory}{os.pathsep}{os.environ['PATH']}",
        "XDG_STATE_HOME": str(state),
        "OMP_WAIT_POLICY": "passive",
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",
        **variables,
    }
    ran = subprocess.run(
        [sys.executable, "-m", "llmops", "tune", "--trial", *PLANNED, *more, "--model", str(model), "--output", "json"],
        cwd=REPOSITORY, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    return ran.returncode, json.loads(ran.stdout), ran.stderr


def processes_of(word: str) -> list[str]:
    """Command lines that hold this word, but for our own."""
    answer = subprocess.run(["ps", "-eo", "pid,args"], capture_output=True, text=True, check=True).stdout
    return [line for line in answer.splitlines() if word in line and str(os.getpid()) not in line.split()[:1]]


def test_a_trial_serves_as_planned_and_leaves_nothing(directory: Path, tmp_path: Path) -> None:
    model = write_model(full_attention(), tmp_path)
    code, envelope, progress = trial(directory, model, tmp_path / "state")
    assert code == 0, (envelope["errors"], envelope["data"].get("checks"), progress)
    checks = {check["name"]: check for check in envelope["data"]["checks"]}
    told = f"{POOL_TOKENS:,}"
    for name in ("cache_tokens", "printed_cache_tokens"):
        assert (checks[name]["expected"], checks[name]["observed"]) == (told, told)
    assert checks["printed_concurrency"]["observed"] == "3.00"
    assert checks["longest_request"]["observed"] == str(CONTEXT)
    assert checks["version"]["observed"] == installed_version(python_path())
    assert (checks["two_requests"]["observed"], checks["preemptions"]["observed"]) == ("overlapped", "0")
    assert checks["resident_memory"]["status"] == "pass"
    assert not [check for check in checks.values() if check["status"] == "fail"]
    assert "waiting for its first answer" in progress
    assert processes_of(str(model)) == []


def test_copies_side_by_side_each_have_the_planned_cache(directory: Path, tmp_path: Path) -> None:
    model = write_model(full_attention(), tmp_path)
    more = ("--data-parallel", "2", "--slots", str(2 * SLOTS), "--users", "8")
    code, envelope, progress = trial(directory, model, tmp_path / "state", *more)
    assert code == 0, (envelope["errors"], envelope["data"].get("checks"), progress)
    checks = {check["name"]: check for check in envelope["data"]["checks"]}
    assert (checks["--data-parallel-size"]["observed"], checks["--max-num-seqs"]["observed"]) == ("2", str(SLOTS))
    assert checks["cache_tokens"]["observed"] == checks["printed_cache_tokens"]["observed"] == f"{POOL_TOKENS:,}"
    assert "the least of 2 engines" in checks["cache_tokens"]["detail"]
    assert checks["printed_concurrency"]["observed"] == "3.00"
    assert checks["resident_memory"]["status"] == "pass"
    assert not [check for check in checks.values() if check["status"] == "fail"]
    assert processes_of(str(model)) == []


def renamed(directory: Path, architecture: str) -> Path:
    """A model whose config.json names another class."""
    model = write_model(full_attention(), directory)
    config = json.loads((model / "config.json").read_text(encoding="utf-8"))
    config["architectures"] = [architecture]
    (model / "config.json").write_text(json.dumps(config), encoding="utf-8")
    return model


def test_an_architecture_that_nobody_has_is_refused_before_the_start(directory: Path, tmp_path: Path) -> None:
    code, envelope, progress = trial(directory, renamed(tmp_path, "NobodysForCausalLM"), tmp_path / "state")
    assert code == 7, envelope
    assert "has the architecture NobodysForCausalLM" in envelope["errors"][0]["message"]
    assert "starting vllm" not in progress


def test_our_word_comes_before_the_engines_traceback(directory: Path, tmp_path: Path) -> None:
    # Transformers has this class, and it is not one that vLLM can wrap, which the server finds when it starts.
    model = renamed(tmp_path, "GPTNeoForCausalLM")
    code, envelope, _ = trial(directory, model, tmp_path / "state")
    assert code == 11, envelope
    (error,) = envelope["errors"]
    assert "this vLLM cannot serve the architecture 'GPTNeoForCausalLM'" in error["message"]
    assert "Traceback" not in error["message"]
    assert error["hint"].startswith("nothing was changed")
    assert processes_of(str(model)) == []
