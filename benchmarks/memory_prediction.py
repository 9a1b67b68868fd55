"""Measured against predicted memory of llama-server: what it allocates, and what it would.

    python benchmarks/memory_prediction.py MODEL.gguf [--server path/to/llama-server]
    python benchmarks/memory_prediction.py --families [--server ...]
    python benchmarks/memory_prediction.py --random 200 [--seed 1] [--server ...]

With a model: starts the server once for each of 15 settings, sends one prompt, and compares its own buffer sizes and
the resident memory that the kernel reports. Otherwise nothing is allocated: shape-only files of models at their
published sizes, or of sizes drawn by chance, go through the engine's own pass without allocation, each in several
settings. Sizes in MiB, measured / predicted; exit code 1 where a cache or a state differs by more than its printed
decimals and 0.1 %, the resident memory by more than 10 %, or a compute buffer lies above the range of a budget (of
published sizes: or under it).
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from tabulate import tabulate

REPOSITORY = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(REPOSITORY))

from llmops.core.layer_weights import output_role  # noqa: E402 (the repository must be importable first)
from llmops.core.memory.ggml_cache import total_cache_bytes  # noqa: E402
from llmops.core.memory.ggml_compute import compute_bytes, misplaced_bytes, output_bytes  # noqa: E402
from llmops.core.memory.ggml_resident import resident_bytes  # noqa: E402
from llmops.core.memory.ggml_runtime import compute_range  # noqa: E402
from llmops.core.memory.ggml_settings import GgmlSettings  # noqa: E402
from llmops.core.memory.ggml_state import total_state_bytes  # noqa: E402
from llmops.core.memory.ggml_weights import repacked_bytes  # noqa: E402
from llmops.core.model import ModelSpec  # noqa: E402
from llmops.host.local import LocalHost  # noqa: E402
from llmops.models import read_model  # noqa: E402
from tests.engines.memory_readings import MIB, SETTINGS, Reading, measure, processor  # noqa: E402
from tests.truth import ggml_settings  # noqa: E402
from tests.truth.shapes.fit_pass import FitReading, fit_pass  # noqa: E402
from tests.truth.shapes.published import PUBLISHED  # noqa: E402
from tests.truth.shapes.variations import Case, draw  # noqa: E402

SERVER = REPOSITORY / ".cache" / "llama.cpp" / "bin" / "llama-server"
HEADERS = ("setting", "KV cache", "compute", "output", "repacked", "resident", "difference")
CASE_HEADERS = ("model", "setting", "KV cache", "state", "compute", "difference", "engine s")
CACHE_TOLERANCE_MIB = 0.011
CACHE_TOLERANCE = 0.001
RESIDENT_TOLERANCE = 0.10


def resident_difference(model: ModelSpec, settings: GgmlSettings, reading: Reading) -> float:
    return resident_bytes(model, settings) / reading.resident_bytes - 1


def row(name: str, model: ModelSpec, settings: GgmlSettings, reading: Reading) -> tuple[str, ...]:
    pairs = (
        (reading.cache_mib, total_cache_bytes(model, settings)),
        (reading.compute_mib, compute_bytes(model, settings)),
        (reading.output_mib, output_bytes(model, settings)),
        (reading.repacked_mib, repacked_bytes(model, settings, ("repeating", output_role(model)))),
        (reading.resident_bytes / MIB, resident_bytes(model, settings)),
    )
    shown = (pair(measured, predicted) for measured, predicted in pairs)
    return (name, *shown, f"{resident_difference(model, settings, reading):+.1%}")


def pair(measured_mib: float, predicted_bytes: int) -> str:
    return f"{measured_mib:.2f} / {predicted_bytes / MIB:.2f}"


def is_wrong(model: ModelSpec, settings: GgmlSettings, reading: Reading) -> bool:
    cache = abs(reading.cache_mib - total_cache_bytes(model, settings) / MIB)
    return cache > CACHE_TOLERANCE_MIB or abs(resident_difference(model, settings, reading)) > RESIDENT_TOLERANCE


def allocated(reference: str, server: str) -> int:
    """One real model, really allocated."""
    model, flags = read_model(LocalHost(), reference), processor().flags
    rows, wrong = [], 0
    for name, setting in SETTINGS.items():
        settings = replace(setting, cpu_flags=flags)
        reading = measure((server,), model, settings)
        rows.append(row(name, model, settings, reading))
        wrong += is_wrong(model, settings, reading)
    print(tabulate(rows, headers=HEADERS))
    return 1 if wrong else 0


def published() -> Iterator[tuple[str, Case]]:
    for name, make in PUBLISHED.items():
        shape = make()
        yield from ((setting, Case(name, shape, settings)) for setting, settings in ggml_settings.SETTINGS.items())


def drawn(seed: int, count: int) -> Iterator[tuple[str, Case]]:
    yield from ((described(case.settings), case) for case in draw(seed, count))


def described(settings: GgmlSettings) -> str:
    pool = " in one pool" if settings.kv_unified else ""
    attention = "" if settings.flash_attention else ", no flash attention"
    types = f"{settings.cache_type_k}/{settings.cache_type_v}"
    size = f"{settings.slots} x {settings.context_tokens_per_slot}"
    return f"{size}{pool}, batches of {settings.ubatch_tokens}, {types}{attention}"


def case_row(setting: str, case: Case, model: ModelSpec, reading: FitReading) -> tuple[str, ...]:
    caches, states = printed(reading)
    predicted = compute_bytes(model, case.settings)
    return (
        case.name,
        setting,
        pair(caches, total_cache_bytes(model, case.settings)),
        pair(states, total_state_bytes(model, case.settings)),
        pair(reading.compute_mib or 0.0, predicted),
        f"{predicted / MIB / (reading.compute_mib or 1.0) - 1:+.1%}",
        f"{reading.seconds:.2f}",
    )


def printed(reading: FitReading) -> tuple[float, float]:
    return sum(cache.mib for cache in reading.caches), sum(state.mib for state in reading.states)


def is_off(model: ModelSpec, settings: GgmlSettings, reading: FitReading) -> bool:
    """Whether caches or states differ from what the engine printed."""
    found = (total_cache_bytes(model, settings) / MIB, total_state_bytes(model, settings) / MIB)
    return any(
        abs(measured - predicted) > 2 * CACHE_TOLERANCE_MIB + CACHE_TOLERANCE * measured
        for measured, predicted in zip(printed(reading), found, strict=True)
    )


def side(model: ModelSpec, settings: GgmlSettings, reading: FitReading) -> str:
    """Where the engine's compute buffer lies: above the range of a budget, under it, or in it."""
    likely, misplaced = compute_bytes(model, settings), misplaced_bytes(model, settings)
    _, low, high, _ = compute_range(likely, misplaced_bytes=misplaced)
    printed = (reading.compute_mib or 0.0) * MIB
    decimals = CACHE_TOLERANCE_MIB * MIB
    return "above" if printed > high + decimals else "under" if printed < low - decimals else "in"


def compared(cases: Iterator[tuple[str, Case]], server: str, sides: frozenset[str]) -> int:
    """Models that are shapes only, in the engine's own pass without allocation; buffers must lie on these sides."""
    rows, shares, seconds, wrong, ended = [], [], [], 0, 0
    lies: dict[str, int] = {}
    with tempfile.TemporaryDirectory() as directory:
        for setting, case in cases:
            path = case.shape.write(Path(directory) / "model.gguf")
            model = read_model(LocalHost(), str(path))
            reading = fit_pass((server,), path, case.settings)
            if reading.compute_mib is None:
                ended += 1
                continue
            rows.append(case_row(setting, case, model, reading))
            shares.append(compute_bytes(model, case.settings) / MIB / reading.compute_mib - 1)
            seconds.append(reading.seconds)
            place = side(model, case.settings, reading)
            lies[place] = lies.get(place, 0) + 1
            wrong += is_off(model, case.settings, reading) or place not in sides
    print(tabulate(rows, headers=CASE_HEADERS))
    print(summary(shares, seconds))
    print("the range of a budget: " + ", ".join(f"{count} {place}" for place, count in sorted(lies.items())))
    print(f"{ended} ended by the engine before it had a graph; {wrong} wrong")
    return 1 if wrong else 0


def summary(shares: list[float], seconds: list[float]) -> str:
    close = [sum(abs(share) <= limit for share in shares) / len(shares) for limit in (0.001, 0.03, 0.10)]
    return (
        f"{len(shares)} compared; compute buffers: lowest {min(shares):+.1%}, median {statistics.median(shares):+.2%}, "
        f"highest {max(shares):+.1%}; within 0.1 %: {close[0]:.0%}, 3 %: {close[1]:.0%}, 10 %: {close[2]:.1%}; "
        f"engine: median {statistics.median(seconds):.2f} s, longest {max(seconds):.2f} s"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description="measured against predicted memory of a real llama-server")
    parser.add_argument("model", nargs="?")
    parser.add_argument("--families", action="store_true", help="published sizes of every family")
    parser.add_argument("--random", type=int, metavar="COUNT", help="sizes and settings drawn by chance")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--server", default=str(SERVER))
    given = parser.parse_args()
    if given.random:
        return compared(drawn(given.seed, given.random), given.server, frozenset({"in", "under"}))
    if given.families:
        return compared(published(), given.server, frozenset({"in"}))
    if given.model is None:
        parser.error("name a model, or give --families or --random COUNT")
    return allocated(given.model, given.server)


if __name__ == "__main__":
    sys.exit(main())
