"""Compute buffers of every family against llama-server's own pass without allocation.

Published sizes first, then sizes drawn by chance; `benchmarks/memory_prediction.py` prints the figures of more.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from llmops.core.memory.ggml_compute import compute_bytes, misplaced_bytes
from llmops.core.memory.ggml_runtime import compute_range
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
PRINTED_MIB = 0.006
SEED, DRAWN = 3, 48


def is_too_low(model: ModelSpec, settings: GgmlSettings, reading: FitReading) -> bool | None:
    """Whether the printed buffer lies above the range; None where the engine ended before it printed."""
    if reading.compute_mib is None:
        return None
    return reading.compute_mib > range_of(model, settings)[1] / MIB + PRINTED_MIB


def is_too_high(model: ModelSpec, settings: GgmlSettings, reading: FitReading) -> bool | None:
    """Whether the printed buffer lies under the range."""
    if reading.compute_mib is None:
        return None
    return reading.compute_mib < range_of(model, settings)[0] / MIB - PRINTED_MIB


def range_of(model: ModelSpec, settings: GgmlSettings) -> tuple[int, int]:
    likely, misplaced = compute_bytes(model, settings), misplaced_bytes(model, settings)
    return compute_range(likely, misplaced_bytes=misplaced)[1:3]


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_sizes(name: str, tmp_path: Path, llama_server: tuple[str, ...]) -> None:  # noqa: F811
    """In every setting inside the range that budgets hold."""
    path = PUBLISHED[name]().write(tmp_path / "model.gguf")
    model = read_model(LocalHost(), str(path))
    readings = {setting: fit_pass(llama_server, path, settings) for setting, settings in SETTINGS.items()}
    outside = {
        setting: reading.compute_mib
        for setting, reading in readings.items()
        if is_too_low(model, SETTINGS[setting], reading) or is_too_high(model, SETTINGS[setting], reading)
    }
    assert any(reading.compute_mib for reading in readings.values())
    assert not outside


@pytest.mark.parametrize("case", list(draw(SEED, DRAWN)), ids=lambda case: case.name)
def test_drawn_sizes(case: Case, tmp_path: Path, llama_server: tuple[str, ...]) -> None:  # noqa: F811
    """Sizes that no model has leave other holes between tensors; the range holds them too."""
    path = case.shape.write(tmp_path / "model.gguf")
    reading = fit_pass(llama_server, path, case.settings)
    too_low = is_too_low(read_model(LocalHost(), str(path)), case.settings, reading)
    if too_low is None:
        pytest.skip("the engine ends before it has a graph")
    assert not too_low
