"""Compute buffers of every family against llama-server's own pass without allocation.

Published sizes first, then sizes drawn by chance; `benchmarks/memory_prediction.py` prints the figures of more.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from llmops.core.memory.ggml_compute import compute_bytes
from llmops.core.memory.ggml_runtime import COMPUTE_HIGH, COMPUTE_LOW
from llmops.core.memory.ggml_settings import GgmlSettings
from llmops.core.model import ModelSpec
from llmops.host.local import LocalHost
from llmops.models import read_model
from tests.engines.conftest import llama_server  # noqa: F401 (the fixture)
from tests.truth.ggml_settings import SETTINGS
from tests.truth.shapes.fit_pass import FitReading, fit_pass
from tests.truth.shapes.published import PUBLISHED
from tests.truth.shapes.variations import Case, draw

pytestmark = pytest.mark.engines

MIB = 1024**2
SEED, DRAWN = 3, 48
DRAWN_LOW, DRAWN_HIGH = 0.10, 0.14


def difference(model: ModelSpec, settings: GgmlSettings, reading: FitReading) -> float | None:
    """How much more is predicted than printed, as a share; None where the engine ended before it printed."""
    if reading.compute_mib is None:
        return None
    return compute_bytes(model, settings) / MIB / reading.compute_mib - 1


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_sizes(name: str, tmp_path: Path, llama_server: tuple[str, ...]) -> None:  # noqa: F811
    """In every setting inside the range that budgets hold."""
    path = PUBLISHED[name]().write(tmp_path / "model.gguf")
    model = read_model(LocalHost(), str(path))
    found = {
        setting: difference(model, settings, fit_pass(llama_server, path, settings))
        for setting, settings in SETTINGS.items()
    }
    compared = {setting: share for setting, share in found.items() if share is not None}
    assert compared
    outside = {s: share for s, share in compared.items() if not 1 / COMPUTE_HIGH <= 1 + share <= 1 / COMPUTE_LOW}
    assert not outside


@pytest.mark.parametrize("case", list(draw(SEED, DRAWN)), ids=lambda case: case.name)
def test_drawn_sizes(case: Case, tmp_path: Path, llama_server: tuple[str, ...]) -> None:  # noqa: F811
    """Sizes that no model has leave other holes between tensors: within 10 % too low and 14 % too high."""
    path = case.shape.write(tmp_path / "model.gguf")
    reading = fit_pass(llama_server, path, case.settings)
    share = difference(read_model(LocalHost(), str(path)), case.settings, reading)
    if share is None:
        pytest.skip("the engine ends before it has a graph")
    assert -DRAWN_LOW <= share <= DRAWN_HIGH
