"""What llama-server says of its memory in its own pass without allocation, before it would load a model.

    reading = fit_pass(command, path, settings)      # GgmlSettings; the server is killed when its figures are there
    reading.caches, reading.states                   # one row for each cache: MiB, cells, layers, parts
    reading.compute_mib, reading.context_mib, reading.model_mib, reading.seconds

Only states of recurrent layers are really allocated; a limit keeps the process from anything larger.
"""

from __future__ import annotations

import os
import re
import resource
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from llmops.core.memory.ggml_settings import GgmlSettings
from tests.engines.conftest import SHARED_CORES
from tests.engines.memory_readings import arguments

MOST_DATA_BYTES = 6 * 1024**3
CACHE = re.compile(
    r"llama_kv_cache: size = +([\d.]+) MiB \( *(\d+) cells, +(\d+) layers, .*K \((\w+)\): +([\d.]+) MiB, "
    r"V \((\w+)\): +([\d.]+) MiB"
)
STATE = re.compile(
    r"llama_memory_recurrent: size = +([\d.]+) MiB \( *(\d+) cells, .*R \(f32\): +([\d.]+) MiB, S \(f32\): +([\d.]+)"
)
COMPUTE = re.compile(r"sched_reserve: +(\S+) compute buffer size = +([\d.]+) MiB")
HOST = re.compile(r"\|   - Host +\| +(\d+) = +(\d+) \+ +(\d+) \+ +(\d+)")


@dataclass(frozen=True)
class Cache:
    """One line `llama_kv_cache: size = ...`."""

    mib: float
    cells: int
    layers: int


@dataclass(frozen=True)
class State:
    """One line `llama_memory_recurrent: size = ...`."""

    mib: float
    cells: int


@dataclass(frozen=True)
class FitReading:
    """The figures of one pass; whole MiB where the engine rounds. None where it ended before it said them."""

    caches: tuple[Cache, ...]
    states: tuple[State, ...]
    compute_mib: float | None
    context_mib: int | None
    model_mib: int | None
    seconds: float
    lines: tuple[str, ...]


def fit_pass(
    command: Sequence[str], model: Path, settings: GgmlSettings, extra: Sequence[str] = (), *, summaries: int = 1
) -> FitReading:
    """Start the server, read up to the summary of the pass without allocation, kill it.

    A model with draft layers that run has two contexts, and so two summaries.
    """
    words = [*command, "-m", str(model), *arguments(settings), "-fit", "on", "--no-warmup", "-lv", "5"]
    words += ["--host", "127.0.0.1", "--port", "0", *extra]
    began, lines = time.monotonic(), []
    with subprocess.Popen(
        words,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        env={**os.environ, **SHARED_CORES},
        preexec_fn=_little_memory,  # noqa: PLW1509 (the tests start no threads)
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            lines.append(line.rstrip())
            summaries -= HOST.search(line) is not None
            if not summaries:
                break
        process.kill()
    return _reading(lines, time.monotonic() - began)


def _little_memory() -> None:
    resource.setrlimit(resource.RLIMIT_DATA, (MOST_DATA_BYTES, MOST_DATA_BYTES))


def _reading(lines: list[str], seconds: float) -> FitReading:
    caches = [match.groups() for line in lines if (match := CACHE.search(line))]
    states = [match.groups() for line in lines if (match := STATE.search(line))]
    compute = [float(match[2]) for line in lines if (match := COMPUTE.search(line))]
    host = [match for line in lines if (match := HOST.search(line))]
    return FitReading(
        tuple(Cache(float(row[0]), int(row[1]), int(row[2])) for row in caches),
        tuple(State(float(row[0]), int(row[1])) for row in states),
        sum(compute) if compute else None,
        int(host[0][3]) if host else None,
        int(host[0][2]) if host else None,
        seconds,
        tuple(lines),
    )
