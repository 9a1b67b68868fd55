"""`llmops --help` is quick: it loads click and nothing heavy, and costs at most half as much again as click alone."""

from __future__ import annotations

import resource
import subprocess
import sys

import pytest

HEAVY = ("requests", "jinja2", "ruamel", "pynvml", "psutil", "xllamacpp")
FEWEST_RUNS, MOST_RUNS = 9, 60
LARGEST_RATIO = 1.5
LIST_MODULES = """
import sys
from llmops.cli import main
sys.argv = {words!r}
try:
    main()
except SystemExit:
    pass
print(*sorted(sys.modules), file=sys.stderr)
"""


@pytest.mark.parametrize("words", [["llmops", "--help"], ["llmops", "--version"], ["llmops", "plan", "--help"]])
def test_help_loads_nothing_heavy(words: list[str]) -> None:
    program = LIST_MODULES.format(words=words)
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    loaded = set(result.stderr.split())
    assert "click" in loaded
    assert loaded.isdisjoint(HEAVY)


def cpu_seconds(*words: str) -> float:
    """Processor time of one Python process."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, *words], stdout=subprocess.DEVNULL, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def test_help_costs_little_more_than_click() -> None:
    # The least of several, in turn: noise of a busy machine only ever adds, so more runs come closer to the truth.
    pairs: list[tuple[float, float]] = []
    ratio = float("inf")
    while len(pairs) < FEWEST_RUNS or (ratio > LARGEST_RATIO and len(pairs) < MOST_RUNS):
        pairs.append((cpu_seconds("-m", "llmops", "--help"), cpu_seconds("-c", "import click")))
        ratio = min(ours for ours, _ in pairs) / min(clicks for _, clicks in pairs)
    assert ratio <= LARGEST_RATIO
