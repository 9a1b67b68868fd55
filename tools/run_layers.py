"""`make test`: every test layer that this machine can run, with its time and counts, and why a layer was not run.

LLMOPS_REQUIRE_LAYERS=1 makes a layer fail that could run here and did not.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

from tools.environment import PYTHON, REPOSITORY, make_environment, run, say
from tools.openmp import ensure_openmp

RESULTS = REPOSITORY / ".cache" / "test-results"
NO_TESTS_COLLECTED = 5
# A test that hangs is ended; what is slow because the machine is busy is not.
TEST_SECONDS = 1200
MINUTE = 60.0


@dataclass(frozen=True)
class Obstacle:
    """Why a layer cannot run here; `removable` by installing something that root on Debian or Ubuntu can install."""

    reason: str
    removable: bool


@dataclass(frozen=True)
class Layer:
    """One selection of tests, what must be prepared for it, and what can stand in its way."""

    name: str
    arguments: tuple[str, ...]
    prepare: tuple[tuple[str, ...], ...] = ()
    obstacle: Callable[[], Obstacle | None] = lambda: None


@dataclass(frozen=True)
class Outcome:
    """What became of one layer; `reason` says why it was not run."""

    name: str
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    seconds: float = 0.0
    reason: str | None = None
    removable: bool = False

    @property
    def ran(self) -> bool:
        """True when at least one test was carried out."""
        return self.reason is None and self.passed + self.failed > 0


def lacking(*programs: str) -> list[str]:
    """The programs that are not on PATH."""
    return [program for program in programs if shutil.which(program) is None]


def compiler_obstacle() -> Obstacle | None:
    """The real llama-server must be built, or have been."""
    built = subprocess.run(
        [str(PYTHON), "-m", "tools.get_llama_server", "--only-if-built"],
        cwd=REPOSITORY,
        capture_output=True,
        check=False,
    )
    if built.returncode == 0 or os.environ.get("LLMOPS_TEST_LLAMA_SERVER"):
        return None
    missing = lacking(os.environ.get("CXX", "g++"), "make")
    return (
        Obstacle(f"{' and '.join(missing)} missing: apt-get install -y g++ make", removable=True) if missing else None
    )


def engines_obstacle() -> Obstacle | None:
    """The front is tested with a real HAProxy before the real server."""
    places = f"{os.environ.get('PATH', '')}:/usr/local/sbin:/usr/sbin"  # a person's PATH may not name them
    if shutil.which("haproxy", path=places) is None:
        return Obstacle("haproxy missing: apt-get install -y haproxy", removable=True)
    return compiler_obstacle()


def systemd_obstacle() -> Obstacle | None:
    """Real systemd is booted in a container by root; the container is made by debootstrap."""
    if sys.platform != "linux":
        return Obstacle("not Linux", removable=False)
    if os.geteuid() != 0:
        return Obstacle("needs root to boot systemd in a container", removable=False)
    if not Path("/etc/debian_version").exists():
        return Obstacle("needs Debian or Ubuntu", removable=False)
    missing = lacking("systemd-nspawn", "debootstrap")
    if missing:
        return Obstacle(
            f"{' and '.join(missing)} missing: apt-get install -y systemd-container debootstrap", removable=True
        )
    return compiler_obstacle()


def vllm_obstacle() -> Obstacle | None:
    """A vLLM for processors must be there or be installable; its own packages decide that, not this machine's."""
    got = subprocess.run(
        [str(PYTHON), "-m", "tools.get_vllm"], cwd=REPOSITORY, capture_output=True, text=True, check=False
    )
    if got.returncode == 0:
        return None
    last = got.stderr.strip().splitlines()[-1:] or [f"python -m tools.get_vllm ended with {got.returncode}"]
    return Obstacle(last[0], removable=False)


GET_MODEL = (str(PYTHON), "-m", "tools.get_model")
GET_SERVER = (str(PYTHON), "-m", "tools.get_llama_server")
LAYERS = (
    Layer("unit", ("tests", "--ignore=tests/contract")),
    Layer("contract", ("tests/contract",)),
    Layer("packaging", ("tests", "-m", "packaging")),
    Layer("engines", ("tests", "-m", "engines"), (GET_MODEL, GET_SERVER), engines_obstacle),
    Layer("vllm", ("tests", "-m", "vllm"), obstacle=vllm_obstacle),
    Layer("systemd", ("tests", "-m", "systemd"), (GET_MODEL, GET_SERVER), systemd_obstacle),
    Layer("faults", ("tests", "-m", "faults"), (GET_MODEL, GET_SERVER), systemd_obstacle),
)


def run_layer(layer: Layer) -> Outcome:
    """Prepare and run one layer; a run that broke off counts as one failure."""
    obstacle = layer.obstacle()
    if obstacle is not None:
        say(f"{layer.name}: not run: {obstacle.reason}")
        return Outcome(layer.name, reason=obstacle.reason, removable=obstacle.removable)
    for step in layer.prepare:
        run(*step)
    say(f"{layer.name}: running ...")
    started = time.monotonic()
    report = RESULTS / f"{layer.name}.xml"
    report.unlink(missing_ok=True)
    command = [str(PYTHON), "-m", "pytest", "-q", f"--timeout={TEST_SECONDS}", f"--junitxml={report}", *layer.arguments]
    code = subprocess.run(command, cwd=REPOSITORY, stdin=subprocess.DEVNULL, check=False).returncode
    return read_report(layer.name, report, code, time.monotonic() - started)


def read_report(name: str, report: Path, exit_code: int, seconds: float) -> Outcome:
    """The counts of a JUnit report; no report, or a non-zero exit without a failure in it, is itself a failure."""
    if exit_code == NO_TESTS_COLLECTED:
        return Outcome(name, reason="no such tests yet", removable=True)
    if not report.exists():
        return Outcome(name, failed=1, seconds=seconds)
    suites = list(ElementTree.parse(report).getroot().iter("testsuite"))
    total, failures, errors, skipped = (
        sum(int(suite.get(key, "0")) for suite in suites) for key in ("tests", "failures", "errors", "skipped")
    )
    failed = failures + errors
    passed = max(0, total - failed - skipped)
    return Outcome(name, passed, max(failed, 1 if exit_code else 0), skipped, seconds)


def required_but_not_run(outcome: Outcome) -> bool:
    """True for a layer that this machine could have run."""
    return not outcome.ran and (outcome.reason is None or outcome.removable)


def summary(outcomes: list[Outcome], *, all_required: bool) -> tuple[list[str], int, int]:
    """One line per layer, and the sums of passed and failed."""
    lines = [""]
    failed = sum(outcome.failed for outcome in outcomes)
    for outcome in outcomes:
        if outcome.ran:
            counts = f"{outcome.passed} passed, {outcome.failed} failed, {outcome.skipped} skipped"
            lines.append(f"{outcome.name:<10} {outcome.seconds / MINUTE:5.1f} min  {counts}")
            continue
        lines.append(f"{outcome.name:<10} not run: {outcome.reason or 'every test of it was skipped'}")
        if all_required and required_but_not_run(outcome):
            failed += 1
            lines[-1] += " (FAILED: this machine can run it)"
    return lines, sum(outcome.passed for outcome in outcomes), failed


def main() -> None:
    """Exit with 1 when anything failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("layers", nargs="*", metavar="LAYER", help=f"of {', '.join(layer.name for layer in LAYERS)}")
    chosen = parser.parse_args().layers
    if unknown := set(chosen) - {layer.name for layer in LAYERS}:
        parser.error(f"no layer named {', '.join(sorted(unknown))}")
    make_environment(extra="embedded", group="test")
    ensure_openmp()
    RESULTS.mkdir(parents=True, exist_ok=True)
    outcomes = [run_layer(layer) for layer in LAYERS if not chosen or layer.name in chosen]
    lines, passed, failed = summary(outcomes, all_required=bool(os.environ.get("LLMOPS_REQUIRE_LAYERS")))
    total = f"{passed} passed, {failed} failed"
    (RESULTS / "total").write_text(f"{total}\n", encoding="utf-8")
    print("\n".join([*lines, total]), flush=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
