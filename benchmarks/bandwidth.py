"""Our memory bandwidth beside an independent multi-threaded C program that reads 2 GiB, taking turns in one run.

    python benchmarks/bandwidth.py [--rounds 5]

Exit code 1 when the medians differ by more than 25 %.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from llmops.core.hardware import Bandwidth
from llmops.core.units import format_bytes, format_rate
from llmops.host.local import LocalHost
from llmops.probe import read_hardware

SOURCE = Path(__file__).with_name("read_memory.c")
PASSES = 7
LARGEST_DIFFERENCE = 0.25


def build(directory: Path) -> Path:
    program = directory / "read_memory"
    subprocess.run(["cc", "-O2", "-march=native", "-pthread", "-o", str(program), str(SOURCE)], check=True)
    return program


def ours() -> tuple[Bandwidth, float]:
    begun = time.monotonic()
    bandwidth = read_hardware(LocalHost(), bandwidth=True).bandwidth
    assert bandwidth is not None
    return bandwidth, time.monotonic() - begun


def independent(program: Path, threads: int) -> float:
    answer = subprocess.run([str(program), str(threads), str(PASSES)], check=True, capture_output=True, text=True)
    return float(answer.stdout)


def main(rounds: int) -> int:
    our_rates, their_rates = [], []
    with tempfile.TemporaryDirectory() as directory:
        program = build(Path(directory))
        for number in range(1, rounds + 1):
            bandwidth, seconds = ours()
            if bandwidth.read_bytes_per_second is None or bandwidth.threads is None:
                print(f"not measured: {bandwidth.reason}")
                return 1
            our_rates.append(float(bandwidth.read_bytes_per_second))
            their_rates.append(independent(program, bandwidth.threads))
            print(
                f"round {number}: llmops {format_rate(our_rates[-1])} "
                f"(spread {bandwidth.spread:.1%}, {format_bytes(bandwidth.buffer_bytes or 0)}, "
                f"{bandwidth.threads} threads, probe {seconds:.2f} s, {bandwidth.reason or 'reliable'}), "
                f"independent {format_rate(their_rates[-1])}"
            )
    ratio = median(our_rates) / median(their_rates)
    print(f"medians: llmops {format_rate(median(our_rates))}, independent {format_rate(median(their_rates))}")
    print(f"ratio {ratio:.3f} (within {LARGEST_DIFFERENCE:.0%} wanted)")
    return 0 if abs(ratio - 1) <= LARGEST_DIFFERENCE else 1


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5, help="readings of each")
    sys.exit(main(parser.parse_args().rounds))
