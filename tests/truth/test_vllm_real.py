"""The real vLLM on a processor with tiny models: the tokens, concurrency and refusals that it prints are ours exactly.

It needs no weights from anywhere and is told the memory of its cache, so nothing of the machine is part of a figure.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Iterator
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
from tools.get_vllm import installed_version, python_path

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(600)]

MIB = 1024**2
PRINTED = re.compile(r"KV cache size: ([\d,]+) tokens, Maximum concurrency for ([\d,]+) tokens per request: ([\d.]+)x")
BLOCK = re.compile(r"Setting attention block size to (\d+) tokens")
REFUSED = re.compile(r"\(([\d.]+) GiB KV cache is needed, .*?estimated maximum model length is (\d+)\.", re.DOTALL)
OVER = ("Engine core initialization failed", "KV cache size:")


@dataclass(frozen=True)
class Start:
    """One start: its model, its flags and the same in the memory model's words."""

    model: str
    memory_bytes: int
    flags: tuple[str, ...] = ()
    max_num_batched_tokens: int | None = None
    max_model_len: int | None = None
    block_size: int | None = None
    prefix_caching: bool | None = None
    cache_dtype: str = "auto"

    def settings(self, version: Version | None) -> VllmSettings:
        """The settings that the flags give."""
        return VllmSettings(
            version=version,
            device="cpu",
            max_model_len=self.max_model_len,
            max_num_batched_tokens=self.max_num_batched_tokens,
            kv_memory_bytes=self.memory_bytes,
            block_size=self.block_size,
            prefix_caching=self.prefix_caching,
            cache_dtype=self.cache_dtype,
        )


STARTS = (
    Start("full", 6 * MIB),
    Start("full", 5_000_000, ("--block-size", "64"), block_size=64),
    Start("window", 8 * MIB),
    Start("window", 6 * MIB, ("--max-num-batched-tokens", "512"), max_num_batched_tokens=512),
    Start("latent", 8 * MIB),
    Start("latent", 5 * MIB, ("--max-model-len", "1024"), max_model_len=1_024),
    Start("hybrid", 8 * MIB),
    Start("hybrid", 6 * MIB, ("--no-enable-prefix-caching",), prefix_caching=False),
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


def log_lines(python: Path, model: Path, start: Start) -> Iterator[str]:
    """The log up to the line that tells how the start went; the server is ended then."""
    command = [
        str(python), "-m", "vllm.entrypoints.openai.api_server", "--model", str(model), "--host", "127.0.0.1",
        "--port", "0", "--enforce-eager", "--kv-cache-memory-bytes", str(start.memory_bytes), *start.flags,
    ]  # fmt: skip
    quiet = {"HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "OMP_WAIT_POLICY": "passive"}
    environment = {**os.environ, **quiet, "VLLM_CPU_OMP_THREADS_BIND": "nobind"}
    server = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment, start_new_session=True
    )
    assert server.stdout is not None
    try:
        for line in server.stdout:
            yield line
            if any(word in line for word in OVER):
                return
    finally:
        server.stdout.close()
        end(server)


def end(server: subprocess.Popen[str]) -> None:
    """End the server and the workers that it started."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(server.pid, number)
            server.wait(timeout=20)
        except ProcessLookupError:
            return
        except subprocess.TimeoutExpired:
            continue


def predicted(models: dict[str, Path], start: Start, version: Version | None) -> CacheFigures:
    """Ours, from the same directory that vLLM reads."""
    return cache_figures(read_model(LocalHost(), str(models[start.model])), start.settings(version), start.memory_bytes)


@pytest.mark.parametrize("start", STARTS, ids=lambda start: f"{start.model} {' '.join(start.flags)}")
def test_tokens_and_concurrency_are_the_printed_ones(
    python: Path, models: dict[str, Path], version: Version | None, start: Start
) -> None:
    log = "".join(log_lines(python, models[start.model], start))
    found = PRINTED.search(log)
    assert found, log[-2_000:]
    ours = predicted(models, start, version)
    assert (ours.tokens, f"{ours.max_concurrency:.2f}") == (int(found[1].replace(",", "")), found[3])
    assert ours.starts


@pytest.mark.parametrize("start", REFUSALS, ids=lambda start: start.model)
def test_what_one_request_needs_and_what_would_fit_are_the_printed_ones(
    python: Path, models: dict[str, Path], version: Version | None, start: Start
) -> None:
    log = "".join(log_lines(python, models[start.model], start))
    found = REFUSED.search(log)
    assert found, log[-2_000:]
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
