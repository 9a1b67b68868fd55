"""Predicted caches and states against llama-server's own pass without allocation, for models drawn by chance.

    python benchmarks/cache_variations.py [--count 200] [--seed 1] [--server path/to/llama-server]

Makes shape-only files in a temporary directory (true sizes, a few MiB of disk), asks the engine what it would take,
and compares. Prints every case that differs by more than 0.1 % (and the engine's two decimals), then the totals; exit
code 1 where any differs. Cases that the engine ends before its caches are made are counted apart.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

from tabulate import tabulate

REPOSITORY = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(REPOSITORY))

from llmops.core.memory.ggml_cache import total_cache_bytes  # noqa: E402 (the repository must be importable first)
from llmops.core.memory.ggml_state import total_state_bytes  # noqa: E402
from llmops.host.local import LocalHost  # noqa: E402
from llmops.models import read_model  # noqa: E402
from tests.truth.shapes.fit_pass import fit_pass  # noqa: E402
from tests.truth.shapes.variations import Case, draw  # noqa: E402

SERVER = REPOSITORY / ".cache" / "llama.cpp" / "bin" / "llama-server"
MIB = 1024**2
PRINTED_MIB = 0.012
TOLERANCE = 0.001
HEADERS = ("case", "cache MiB", "predicted", "state MiB", "predicted", "differs by", "our ms", "engine s")


def compare(case: Case, path: Path, server: str) -> tuple[tuple[object, ...], float] | None:
    """One row and its largest difference; None where the engine made no cache."""
    case.shape.write(path)
    began = time.perf_counter()
    model = read_model(LocalHost(), str(path))
    predicted = (total_cache_bytes(model, case.settings) / MIB, total_state_bytes(model, case.settings) / MIB)
    own_ms = 1000 * (time.perf_counter() - began)
    reading = fit_pass((server,), path, case.settings)
    if not reading.caches and not reading.states:
        return None
    printed = (sum(cache.mib for cache in reading.caches), sum(state.mib for state in reading.states))
    differences = [
        max(0.0, abs(guess - truth) - PRINTED_MIB) / truth if truth else guess
        for guess, truth in zip(predicted, printed, strict=True)
    ]
    row = (case.name, printed[0], predicted[0], printed[1], predicted[1], max(differences), own_ms, reading.seconds)
    return row, max(differences)


def main() -> int:
    parser = argparse.ArgumentParser(description="predicted caches and states of models drawn by chance")
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--server", default=str(SERVER))
    given = parser.parse_args()
    rows, wrong, without = [], [], 0
    with tempfile.TemporaryDirectory() as directory:
        for case in draw(given.seed, given.count):
            found = compare(case, Path(directory) / "model.gguf", given.server)
            if found is None:
                without += 1
                continue
            rows.append(found[0])
            if found[1] > TOLERANCE:
                wrong.append(found[0])
    if wrong:
        print(tabulate(wrong, headers=HEADERS, floatfmt=".2f"))
    slowest = (max(float(str(row[column])) for row in rows) for column in (6, 7))
    print(
        f"{given.count} cases (seed {given.seed}): {len(rows) - len(wrong)} within {TOLERANCE:.1%}, {len(wrong)} not, "
        f"{without} that the engine refused; slowest reading and prediction {next(slowest):.0f} ms, "
        f"slowest pass of the engine {next(slowest):.2f} s"
    )
    return 1 if wrong or without else 0


if __name__ == "__main__":
    sys.exit(main())
