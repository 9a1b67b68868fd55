"""Measured against predicted memory of a real llama-server, setting by setting.

    python benchmarks/memory_prediction.py MODEL.gguf [--server path/to/llama-server]

Starts the server once for each setting, sends one prompt, and compares its own buffer sizes and the resident memory
that the kernel reports with the memory model. Sizes in MiB, measured / predicted; exit code 1 where the cache differs
by more than its printed decimals or the resident memory by more than 10 %.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path

from tabulate import tabulate

REPOSITORY = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(REPOSITORY))

from llmops.core.memory.ggml_cache import total_cache_bytes  # noqa: E402 (the repository must be importable first)
from llmops.core.memory.ggml_compute import compute_bytes, output_bytes  # noqa: E402
from llmops.core.memory.ggml_resident import resident_bytes  # noqa: E402
from llmops.core.memory.ggml_settings import GgmlSettings  # noqa: E402
from llmops.core.memory.ggml_weights import output_role, repacked_bytes  # noqa: E402
from llmops.core.model import ModelSpec  # noqa: E402
from llmops.host.local import LocalHost  # noqa: E402
from llmops.models import read_model  # noqa: E402
from tests.engines.memory_readings import MIB, SETTINGS, Reading, measure, processor  # noqa: E402

SERVER = REPOSITORY / ".cache" / "llama.cpp" / "bin" / "llama-server"
HEADERS = ("setting", "KV cache", "compute", "output", "repacked", "resident", "difference")
CACHE_TOLERANCE_MIB = 0.011
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
    shown = (f"{measured:.2f} / {predicted / MIB:.2f}" for measured, predicted in pairs)
    return (name, *shown, f"{resident_difference(model, settings, reading):+.1%}")


def is_wrong(model: ModelSpec, settings: GgmlSettings, reading: Reading) -> bool:
    cache = abs(reading.cache_mib - total_cache_bytes(model, settings) / MIB)
    return cache > CACHE_TOLERANCE_MIB or abs(resident_difference(model, settings, reading)) > RESIDENT_TOLERANCE


def main() -> int:
    parser = argparse.ArgumentParser(description="measured against predicted memory of a real llama-server")
    parser.add_argument("model")
    parser.add_argument("--server", default=str(SERVER))
    given = parser.parse_args()
    model, flags = read_model(LocalHost(), given.model), processor().flags
    rows, wrong = [], 0
    for name, setting in SETTINGS.items():
        settings = replace(setting, cpu_flags=flags)
        reading = measure((given.server,), model, settings)
        rows.append(row(name, model, settings, reading))
        wrong += is_wrong(model, settings, reading)
    print(tabulate(rows, headers=HEADERS))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
