"""How long a large GGUF file takes from its path to a ModelSpec, as a whole process, beside PyPI `gguf`.

    python benchmarks/gguf_header.py [--runs 15] [--model FILE.gguf]

Makes a file of about 5 GB (its weights are a hole, so it takes about 10 MB of disk) with 150,000 tokens, their scores
and types and 300,000 merges, and starts a process for each reading, the three kinds in turn. The other reader is
measured where its package is installed: `pip install gguf`, or GGUF_PYTHON=path/to/python of an environment that has
it. "Beyond" is beyond the interpreter's own start, measured as `python -c pass` in the same run; the least processor
time is judged, which other load disturbs least. Exit code 1 above the limit.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

REPOSITORY = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(REPOSITORY))

from tests.doubles import gguf_files as made  # noqa: E402 (the maker of files lies beside the tests)

OURS = """
import sys
from llmops.host.local import LocalHost
from llmops.models import read_model
spec = read_model(LocalHost(), sys.argv[1])
print(spec.vocabulary_size, sum(group.tensors for group in spec.tensors))
"""
THEIRS = """
import sys
from gguf import GGUFReader
reader = GGUFReader(sys.argv[1])
print(len(reader.fields["tokenizer.ggml.tokens"].data), len(reader.tensors))
"""
LAYERS, VOCABULARY, MERGES = 36, 150_000, 300_000
LIMIT_SECONDS = 0.150
BARE, OURS_NAME, THEIRS_NAME = "python -c pass", "llmops", "PyPI gguf"


def make_large_file(directory: Path) -> Path:
    """A model of the 8-billion class, 4-bit: nothing but its header is on the disk."""
    metadata = made.model_metadata(
        "qwen3", layers=LAYERS, heads=32, kv_heads=8, embedding=4096, feed_forward=12288, vocabulary=VOCABULARY
    )
    metadata["tokenizer.ggml.merges"] = made.Strings(MERGES, prefix="merge ")
    metadata["tokenizer.chat_template"] = "{{ message }}" * 400
    tensors = made.model_tensors(
        layers=LAYERS, embedding=4096, kv_width=1024, feed_forward=12288, vocabulary=VOCABULARY, storage=made.Q4_K
    )
    return made.write(directory / "large.gguf", metadata, tensors)


class Run(NamedTuple):
    """One process: its wall time and its processor time (which other load disturbs less), in seconds."""

    wall_seconds: float
    cpu_seconds: float


def run(argv: list[str]) -> tuple[Run, str]:
    """One process from its start to its end, and what it printed."""
    began = time.perf_counter()
    process = subprocess.Popen(argv, cwd=REPOSITORY, stdout=subprocess.PIPE)
    with process:
        output = process.stdout.read().decode() if process.stdout else ""
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, argv)
    return Run(time.perf_counter() - began, usage.ru_utime + usage.ru_stime), output.strip()


def as_installed(directory: str) -> None:
    """Let every module be compiled once, in the round that warms the caches, as it is after an installation."""
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    os.environ["PYTHONPYCACHEPREFIX"] = str(Path(directory) / "compiled")


def has_gguf(python: str) -> bool:
    return subprocess.run([python, "-c", "import gguf"], capture_output=True, check=False).returncode == 0


def measure(commands: dict[str, list[str]], runs: int, slow_runs: int) -> dict[str, list[Run]]:
    """Each command in turn, round by round; the slow one only in the first rounds."""
    times: dict[str, list[Run]] = {name: [] for name in commands}
    for name in (BARE, OURS_NAME):
        print(f"{name}: {run(commands[name])[1] or '(prints nothing)'}")  # warms the caches
    for number in range(runs):
        for name, argv in commands.items():
            if name != THEIRS_NAME or number < slow_runs:
                times[name].append(run(argv)[0])
    return times


def least_cpu_ms(runs: list[Run]) -> float:
    """The least processor time of several runs: other load of the machine only ever adds."""
    return min(one.cpu_seconds for one in runs) * 1e3


def print_table(times: dict[str, list[Run]]) -> None:
    """Wall time, and the least processor time: by itself, beyond the bare interpreter, as a multiple of it."""
    print(f"\n{'':<24}{'runs':>5}{'median wall ms':>16}{'least cpu ms':>14}{'beyond':>8}{'x bare':>8}")
    bare = least_cpu_ms(times[BARE])
    for name, runs in times.items():
        wall, cpu = statistics.median(one.wall_seconds for one in runs) * 1e3, least_cpu_ms(runs)
        print(f"{name:<24}{len(runs):>5}{wall:>16.1f}{cpu:>14.1f}{cpu - bare:>8.1f}{cpu / bare:>8.1f}")
    print(f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors")


def beyond_ms(times: dict[str, list[Run]], name: str) -> float:
    """Processor time beyond the interpreter's own start."""
    return least_cpu_ms(times[name]) - least_cpu_ms(times[BARE])


def report(times: dict[str, list[Run]]) -> bool:
    print_table(times)
    ours = beyond_ms(times, OURS_NAME)
    if THEIRS_NAME in times:
        print(f"{THEIRS_NAME} / {OURS_NAME}, beyond the start: {beyond_ms(times, THEIRS_NAME) / ours:.0f}")
    print(f"llmops beyond the interpreter's start: {ours:.0f} ms, limit {LIMIT_SECONDS * 1e3:.0f} ms")
    return ours < LIMIT_SECONDS * 1e3


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=15)
    parser.add_argument("--gguf-runs", type=int, default=3, help="runs of PyPI gguf, which takes many seconds")
    parser.add_argument("--model", type=Path, help="measure this file instead of the made one")
    options = parser.parse_args()
    other = os.environ.get("GGUF_PYTHON", sys.executable)
    with tempfile.TemporaryDirectory() as directory:
        as_installed(directory)
        model = options.model.resolve() if options.model else make_large_file(Path(directory))
        size = model.stat()
        print(f"{model.name}: {size.st_size / 1e9:.2f} GB, {size.st_blocks * 512 / 1e6:.1f} MB of disk")
        commands = {
            BARE: [sys.executable, "-c", "pass"],
            OURS_NAME: [sys.executable, "-c", OURS, str(model)],
        }
        if has_gguf(other):
            commands[THEIRS_NAME] = [other, "-c", THEIRS, str(model)]
        else:
            print("PyPI gguf is not installed here: measured without it (pip install gguf, or set GGUF_PYTHON)")
        return 0 if report(measure(commands, options.runs, options.gguf_runs)) else 1


if __name__ == "__main__":
    sys.exit(main())
