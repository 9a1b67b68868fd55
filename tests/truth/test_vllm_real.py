"""The real vLLM on a processor with tiny models: the tokens, concurrency and refusals that it prints are ours exactly.

It needs no weights from anywhere and is told the memory of its cache, so nothing of the machine is part of a figure.
One process makes all engines in turn; that a server prints the same is in tests/engines/test_vllm_server.py.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from llmops.core.hardware import Hardware, Memory
from llmops.core.memory.vllm import budgets
from llmops.core.memory.vllm_cache import CacheFigures, cache_figures
from llmops.core.memory.vllm_settings import VllmSettings
from llmops.core.units import GIB
from llmops.core.version import Version
from llmops.host.local import LocalHost
from llmops.models import read_model
from tests.truth.tiny_models import MODELS, write_model
from tests.truth.vllm_starts import MARK
from tools.get_vllm import installed_version, python_path

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(1800)]

MIB = 1024**2
PRINTED = re.compile(r"KV cache size: ([\d,]+) tokens, Maximum concurrency for ([\d,]+) tokens per request: ([\d.]+)x")
REFUSED = re.compile(r"\(([\d.]+) GiB KV cache is needed, .*?estimated maximum model length is (\d+)\.", re.DOTALL)


@dataclass(frozen=True)
class Start:
    """One start: its model and what it is told; None is left to the engine."""

    model: str
    memory_bytes: int
    max_num_batched_tokens: int | None = None
    max_model_len: int | None = None
    block_size: int | None = None
    prefix_caching: bool | None = None

    def options(self, models: dict[str, Path]) -> dict[str, object]:
        """In vLLM's words."""
        told = {
            "max_num_batched_tokens": self.max_num_batched_tokens,
            "max_model_len": self.max_model_len,
            "block_size": self.block_size,
            "enable_prefix_caching": self.prefix_caching,
        }
        given = {name: value for name, value in told.items() if value is not None}
        return {"model": str(models[self.model]), "kv_cache_memory_bytes": self.memory_bytes, **given}

    def settings(self, version: Version | None) -> VllmSettings:
        """In the memory model's words."""
        return VllmSettings(
            version=version,
            device="cpu",
            max_model_len=self.max_model_len,
            max_num_batched_tokens=self.max_num_batched_tokens,
            kv_memory_bytes=self.memory_bytes,
            block_size=self.block_size,
            prefix_caching=self.prefix_caching,
        )

    def __str__(self) -> str:
        told = (self.max_num_batched_tokens, self.max_model_len, self.block_size, self.prefix_caching)
        return f"{self.model} {self.memory_bytes} {' '.join(str(value) for value in told if value is not None)}"


# No two print the same line: one process says a line only once.
STARTS = (
    Start("full", 6 * MIB),
    Start("full", 5_000_000, block_size=64),
    Start("full", 5 * MIB, max_model_len=768),
    Start("full", 7 * MIB, max_num_batched_tokens=256),
    Start("window", 8 * MIB),
    Start("window", 6 * MIB, max_num_batched_tokens=512),
    Start("window", 6 * MIB, max_model_len=1_000),
    Start("latent", 8 * MIB),
    Start("latent", 5 * MIB, max_model_len=1_024),
    Start("hybrid", 8 * MIB),
    Start("hybrid", 6 * MIB, prefix_caching=False),
)
REFUSALS = (Start("full", 2 * MIB), Start("window", 2 * MIB))


@pytest.fixture(scope="module")
def python() -> Path:
    """The interpreter of a vLLM; the tests are skipped where there is none."""
    python = python_path()
    if installed_version(python) is None:
        pytest.skip("vLLM is not installed: python -m tools.get_vllm")
    return python


@pytest.fixture(scope="module")
def version(python: Path) -> Version | None:
    """Its version."""
    return Version.parse(installed_version(python) or "")


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The directories of the tiny models."""
    directory = tmp_path_factory.mktemp("models")
    return {name: write_model(model, directory) for name, model in MODELS.items()}


@pytest.fixture(scope="module")
def logs(python: Path, models: dict[str, Path]) -> dict[Start, str]:
    """What each start printed: one process makes all the engines."""
    starts = (*STARTS, *REFUSALS)
    quiet = {"HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "OMP_WAIT_POLICY": "passive"}
    run = subprocess.run(
        [str(python), str(Path(__file__).with_name("vllm_starts.py"))],
        input=json.dumps([start.options(models) for start in starts]),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=os.environ | quiet | {"VLLM_CPU_OMP_THREADS_BIND": "nobind"},
        timeout=1500,
        check=False,
    )
    printed = run.stdout.split(f"\n{MARK} ")[1:]
    assert (run.returncode, len(printed)) == (0, len(starts)), run.stdout[-2_000:]
    return dict(zip(starts, printed, strict=True))


def predicted(models: dict[str, Path], start: Start, version: Version | None) -> CacheFigures:
    """Ours, from the same directory that vLLM reads."""
    return cache_figures(read_model(LocalHost(), str(models[start.model])), start.settings(version), start.memory_bytes)


@pytest.mark.parametrize("start", STARTS, ids=str)
def test_tokens_and_concurrency_are_the_printed_ones(
    logs: dict[Start, str], models: dict[str, Path], version: Version | None, start: Start
) -> None:
    found = PRINTED.search(logs[start])
    assert found, logs[start][-2_000:]
    ours = predicted(models, start, version)
    assert (ours.tokens, f"{ours.max_concurrency:.2f}") == (int(found[1].replace(",", "")), found[3])
    assert ours.starts


@pytest.mark.parametrize("start", REFUSALS, ids=str)
def test_what_one_request_needs_and_what_would_fit_are_the_printed_ones(
    logs: dict[Start, str], models: dict[str, Path], version: Version | None, start: Start
) -> None:
    found = REFUSED.search(logs[start])
    assert found, logs[start][-2_000:]
    ours = predicted(models, start, version)
    assert not ours.starts
    assert f"{ours.needed_bytes / GIB:.2f}".rstrip("0").rstrip(".") == found[1].rstrip("0").rstrip(".")
    assert ours.longest_request_tokens == int(found[2])


def test_the_budget_says_the_same(models: dict[str, Path]) -> None:
    start = STARTS[0]
    machine = Hardware(memory=Memory(total_bytes=16 * GIB, available_bytes=12 * GIB))
    model = read_model(LocalHost(), str(models[start.model]))
    (host,) = budgets(machine, model, start.settings(Version((0, 32, 0))))
    assert (host.cache_tokens, host.usable_cache_tokens, host.cache_bytes) == (3_072, 2_944, 6 * MIB)
