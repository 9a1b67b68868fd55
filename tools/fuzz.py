"""A long run of hostile files against one reader, with a record of what was run and found.

    python -m tools.fuzz gguf --by hypothesis --cpu-minutes 30
    python -m tools.fuzz gguf --by atheris --cpu-minutes 30    (atheris and hypothesis installed in this Python)

The record and the inputs that broke a limit are written below .cache/fuzz. Exit code 1 where there are findings.
"""

from __future__ import annotations

import argparse
import contextlib
import faulthandler
import json
import os
import platform
import shutil
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.fuzz.targets import Case, Target

RECORDS = Path(".cache") / "fuzz"
EXAMPLES_PER_ROUND = 1_000
WEIGHED_EVERY = 64  # measuring what Python holds makes an input several times slower
INSTRUMENTED = ["llmops.models", "llmops.core.model"]
SAVED_FINDINGS = 50
WATCH_EVERY, WATCH_SECONDS = 500, 900.0  # an input that waits for ever ends the run and shows where


@dataclass
class Record:
    """What one run did; times in seconds, memory in bytes."""

    target: str
    by: str
    began: float = field(default_factory=time.time)
    executions: int = 0
    weighed: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    slowest_cpu_seconds: float = 0.0
    largest_peak_bytes: int = 0
    findings: Counter[str] = field(default_factory=Counter)

    @property
    def path(self) -> Path:
        """Where the record is written."""
        return RECORDS / f"{self.target}-{self.by}.json"

    def write(self) -> None:
        """Replace the file of this record."""
        shown = {
            "target": self.target,
            "by": f"{self.by} {version(self.by)}, Python {platform.python_version()}",
            "executions": self.executions,
            "cpu_minutes": round(time.process_time() / 60, 1),
            "wall_minutes": round((time.time() - self.began) / 60, 1),
            "outcomes": dict(self.outcomes.most_common()),
            "slowest_cpu_seconds": round(self.slowest_cpu_seconds, 3),
            "weighed": self.weighed,
            "largest_peak_mib": round(self.largest_peak_bytes / 2**20, 1),
            "findings": dict(self.findings.most_common()),
        }
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.write_text(json.dumps(shown, indent=1) + "\n", encoding="utf-8")


@dataclass
class Runner:
    """Runs inputs one after the other and keeps the record."""

    target: Target
    root: Path
    record: Record
    cpu_seconds: float

    def take(self, case: Case) -> None:
        """One input, every so often weighed too; a finding is saved, and the run goes on."""
        from tests.fuzz.limits import Finding

        if self.record.executions % WATCH_EVERY == 0:
            faulthandler.dump_traceback_later(WATCH_SECONDS, exit=True)
        self.record.executions += 1
        try:
            outcome = self.target.run(self.root, case)
            self.record.outcomes[outcome.kind] += 1
            self.record.slowest_cpu_seconds = max(self.record.slowest_cpu_seconds, outcome.cpu_seconds)
            if self.record.executions % WEIGHED_EVERY == 0:
                self.record.weighed += 1
                peak = self.target.weigh(self.root, case)
                self.record.largest_peak_bytes = max(self.record.largest_peak_bytes, peak)
        except Finding as finding:
            self._save(case, str(finding))
        if self.record.executions % 5_000 == 0:
            self.record.write()
        if time.process_time() >= self.cpu_seconds:
            self._end()

    def _end(self) -> None:
        """Show the record and end at once: libFuzzer would report an ordinary exit as a crash."""
        self.record.write()
        print(self.record.path.read_text(encoding="utf-8"), flush=True)
        shutil.rmtree(self.root, ignore_errors=True)
        os._exit(1 if self.record.findings else 0)

    def _save(self, case: Case, what: str) -> None:
        kind = what[:120]
        self.record.findings[kind] += 1
        if self.record.findings[kind] == 1 and len(self.record.findings) <= SAVED_FINDINGS:
            number = len(self.record.findings)
            path = self.record.path.with_name(f"{self.record.path.stem}-finding-{number}.txt")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"{what}\n{case!r}\n", encoding="utf-8")
            self.record.write()


def by_hypothesis(runner: Runner, first_seed: int) -> None:
    """Rounds of examples, each with the next seed, until the runner ends them."""
    from hypothesis import HealthCheck, Phase, given, seed, settings

    @settings(
        max_examples=EXAMPLES_PER_ROUND,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(runner.target.cases)
    def one_round(case: Case) -> None:
        runner.take(case)

    number = first_seed
    while True:
        seed(number)(one_round)()
        number += 1


def by_atheris(runner: Runner, first_seed: int) -> None:
    """Guided by the coverage of the reader, from the seeds of the target, until the runner ends it."""
    atheris: Any = import_module("atheris")

    corpus = RECORDS / f"{runner.target.name}-corpus"
    corpus.mkdir(parents=True, exist_ok=True)
    for number, content in enumerate(runner.target.seeds):
        (corpus / f"seed-{number}").write_bytes(content)

    def one(data: bytes) -> None:
        runner.take(runner.target.from_bytes(data))

    options = ["-max_len=16384", f"-seed={first_seed}", "-rss_limit_mb=2048", f"-artifact_prefix={RECORDS}/"]
    atheris.Setup([sys.argv[0], str(corpus), *options, "-print_final_stats=1"], one)
    atheris.Fuzz()


def load_target(name: str, by: str) -> Target:
    """The target, its reader instrumented where coverage guides the run."""
    instrumented: Any = contextlib.nullcontext()
    if by == "atheris":
        atheris: Any = import_module("atheris")

        instrumented = atheris.instrument_imports(include=INSTRUMENTED)
    with instrumented:
        from tests.fuzz.targets import TARGETS
    if name not in TARGETS:
        sys.exit(f"no target {name!r}: {', '.join(TARGETS)}")
    return TARGETS[name]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("target")
    parser.add_argument("--by", choices=("hypothesis", "atheris"), default="hypothesis")
    parser.add_argument("--cpu-minutes", type=float, default=30.0)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    target = load_target(options.target, options.by)
    from tests.fuzz.trees import workplace

    with workplace() as root:
        runner = Runner(target, root, Record(target.name, options.by), options.cpu_minutes * 60)
        (by_atheris if options.by == "atheris" else by_hypothesis)(runner, options.seed)


if __name__ == "__main__":
    main()
