"""A short run of the fuzzers, the same inputs every time, and every input that once broke a limit."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from tests.fuzz.targets import TARGETS, Case
from tests.fuzz.trees import workplace

SEEDS = Path(__file__).with_name("seeds")
EXAMPLES = {"gguf": 600, "store": 300, "show": 300, "safetensors": 300, "hf-config": 300, "hf-cache": 200}
# What a run must have reached at least once: a strategy that is always refused at the door tests nothing.
REACHED = {
    "gguf": {"read", "unreadable_input", "unknown_architecture"},
    "store": {"read", "unreadable_input"},
    "show": {"read", "unreadable_input", "unknown_architecture"},
    "safetensors": {"read", "unreadable_input"},
    "hf-config": {"read", "unreadable_input", "unknown_architecture"},
    "hf-cache": {"read", "unreadable_input", "usage"},
}


@pytest.mark.parametrize("name", TARGETS)
def test_short_run(name: str) -> None:
    target = TARGETS[name]
    outcomes: Counter[str] = Counter()
    with workplace() as root:

        @settings(
            max_examples=EXAMPLES[name],
            deadline=None,
            derandomize=True,
            database=None,
            phases=[Phase.generate, Phase.shrink],
            suppress_health_check=list(HealthCheck),
        )
        @given(target.cases)
        def run(case: Case) -> None:
            outcomes[target.run(root, case).kind] += 1

        run()
    assert outcomes.keys() >= REACHED[name]
    assert outcomes.total() >= EXAMPLES[name]


@pytest.mark.parametrize("path", sorted(SEEDS.glob("*-*")), ids=lambda path: path.name)
def test_inputs_that_once_broke_a_limit(path: Path) -> None:
    """The name of a file begins with the target that reads its bytes."""
    target = next(target for name, target in TARGETS.items() if path.name.startswith(f"{name}-"))
    case = target.from_bytes(path.read_bytes())
    with workplace() as root:
        assert target.run(root, case).kind == "unreadable_input"
        target.weigh(root, case)
