"""The script for machines with a card, on one without: it says so, and its checks see what agrees and what does not."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from llmops.core.memory.budget import MemoryBudget
from tests.gpu.check import HELD_BYTES, judge_held
from tests.gpu.memory import judge
from tests.gpu.report import MIB, Report
from tests.unit.core.example_models import one_card

ROOT = Path(__file__).parents[2]
DOUBLE = ROOT / "tests/doubles/nvml"
ROW = (
    "GPU-0a000000-0000-0000-0000-000000000001, NVIDIA GeForce RTX 3090, {}, 22888, 550.54.15, 8.6, [N/A], [N/A], [N/A]"
)


def run_script(tmp_path: Path, smi: str | None, **variables: str) -> tuple[int, list[str]]:
    """Exit code and lines of the script where nvidia-smi is this shell script (None: not there)."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("bash", "dirname", "mkdir", "timeout", "cc"):
        found = shutil.which(name)
        assert found is not None
        (programs / name).symlink_to(found)
    if smi is not None:
        (programs / "nvidia-smi").write_text(f"#!/bin/sh\n{smi}\n")
        (programs / "nvidia-smi").chmod(0o755)
    environment = {"PATH": str(programs), "OUT": str(tmp_path / "out"), "HOME": str(tmp_path), **variables}
    ended = subprocess.run(
        [str(programs / "bash"), str(ROOT / "tests/gpu/run.sh")],
        env=environment,
        capture_output=True,
        text=True,
        timeout=1100,
        check=False,
    )
    assert ended.stderr == ""
    return ended.returncode, ended.stdout.splitlines()


@pytest.mark.parametrize(
    ("smi", "why"),
    [
        (None, "there is no nvidia-smi"),
        ("echo 'NVIDIA-SMI has failed'; exit 9", "nvidia-smi sees no card: NVIDIA-SMI has failed"),
        ("true", "nvidia-smi lists no card"),
    ],
)
@pytest.mark.native
def test_without_a_card_it_says_so_and_ends_with_7(tmp_path: Path, smi: str | None, why: str) -> None:
    code, lines = run_script(tmp_path, smi)
    assert code == 7
    assert lines[-1].startswith(f"FAIL nothing was checked: {why}")


@pytest.mark.native
@pytest.mark.parametrize(("total_mib", "code", "last"), [(24_576, 0, "PASS"), (23_000, 1, "FAIL")])
def test_a_card_that_agrees_with_nvidia_smi_and_one_that_does_not(
    tmp_path: Path, total_mib: int, code: int, last: str
) -> None:
    if not Path(ROOT / ".venv/bin/python").exists():
        pytest.skip("no environment in .venv")
    library = tmp_path / "nvml"
    library.mkdir()
    target = library / "libnvidia-ml.so.1"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", str(target), str(DOUBLE / "nvml.c")], check=True)
    smi = f'if [ "$1" = -L ]; then echo "GPU 0: made"; else echo "{ROW.format(total_mib)}"; fi'
    found, lines = run_script(
        tmp_path,
        smi,
        LD_LIBRARY_PATH=str(library),
        NVML_SCENARIO=str(DOUBLE / "scenarios/one-24gb.txt"),
        NVML_SHUTDOWN_LOG=os.devnull,
        LLMOPS_GPU_MODEL="",
        LLMOPS_GPU_LLAMA_SERVER="",
    )
    assert (found, lines[-1].split()[0]) == (code, last), "\n".join(lines)
    assert any(line.startswith("--   memory of a real server") for line in lines)
    bad = [line for line in lines if line.startswith("BAD ")]
    assert len(bad) == (0 if code == 0 else 1), bad
    assert (tmp_path / "out/hardware.json").exists()
    assert (tmp_path / "out/snapshot/recording.json").exists()


def verdicts(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return [line.split()[0] for line in capsys.readouterr().out.splitlines()]


def test_memory_outside_the_budget_is_bad(capsys: pytest.CaptureFixture[str]) -> None:
    card = one_card().gpus[0]
    budget = MemoryBudget("gpu0", 24_000 * MIB, 23_000 * MIB, weights_bytes=8_000 * MIB, runtime_bytes=500 * MIB)
    for used in (8_300, 9_000, 2_000):
        free = (card.free_bytes or 0) - used * MIB
        judge(Report(), budget, card, card.__class__(0, None, "card", card.total_bytes, free))
    assert verdicts(capsys) == ["ok", "ok", "BAD", "ok", "ok", "BAD"]


def test_memory_that_is_held(capsys: pytest.CaptureFixture[str]) -> None:
    card = one_card().gpus[0]
    for context, held in ((400, 0), (900, 0), (400, 1_424)):
        free = (card.free_bytes or 0) - HELD_BYTES - context * MIB
        during = card.__class__(0, None, "card", card.total_bytes, free, held_by_engine_bytes=held * MIB)
        judge_held(Report(), card, during)
    assert verdicts(capsys) == ["ok", "ok", "--", "ok", "BAD", "--", "ok", "ok", "ok"]


def test_the_allocation_without_a_driver_says_why() -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "tests.gpu.allocate", "1024", "0"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    if ended.returncode == 0:
        pytest.skip("there is a driver")
    assert "libcuda.so.1" in ended.stderr or "error" in ended.stderr
