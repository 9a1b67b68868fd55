"""The rules that a program can check: ruff's, mypy --strict, and the size of modules and functions."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
OWN_CODE = sorted(path for folder in ("llmops", "tools") for path in (REPOSITORY / folder).rglob("*.py"))


@pytest.mark.parametrize("words", [("ruff", "check", "."), ("ruff", "format", "--check", "."), ("mypy",)], ids=" ".join)
@pytest.mark.timeout(1800)
def test_checker_has_nothing_to_say(words: tuple[str, ...]) -> None:
    result = subprocess.run([sys.executable, "-m", *words], cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout[-6000:] + result.stderr[-2000:]


def test_no_file_speaks_of_work_to_do() -> None:
    markers = ("TO" + "DO", "FIX" + "ME", "X" * 3 + ":")
    found = [
        f"{path.relative_to(REPOSITORY)}: {marker}"
        for path in OWN_CODE
        for marker in markers
        if marker in path.read_text(encoding="utf-8")
    ]
    assert found == []
