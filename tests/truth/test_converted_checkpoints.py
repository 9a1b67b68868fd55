"""A checkpoint sized as the GGUF file that it would become takes what that file takes."""

from __future__ import annotations

from pathlib import Path

import pytest

from llmops.core.memory.ggml_cache import padding_bytes, total_cache_bytes
from llmops.core.memory.ggml_compute import compute_bytes
from llmops.core.memory.ggml_state import total_state_bytes
from llmops.engines.converted import read_converted
from llmops.models import read_model
from tests.truth.ggml_settings import SETTINGS
from tests.truth.hf_configs import CONFIGS, SAME_MODEL
from tests.truth.shapes.published import PUBLISHED
from tests.unit.models.hub import HubDisk

HOST = HubDisk().as_host()
COMPUTE_TOLERANCE = 0.02


@pytest.mark.parametrize("name", SAME_MODEL)
def test_it_takes_what_the_file_takes(name: str, tmp_path: Path) -> None:
    file = read_model(HOST, str(PUBLISHED[name]().write(tmp_path / "model.gguf")))
    converted, said = read_converted(HOST, str(CONFIGS / SAME_MODEL[name]))
    assert converted.architecture == file.architecture
    assert said
    for setting, settings in SETTINGS.items():
        for exact in (total_cache_bytes, total_state_bytes, padding_bytes):
            assert exact(converted, settings) == exact(file, settings), (setting, exact.__name__)
        expected = pytest.approx(compute_bytes(file, settings), rel=COMPUTE_TOLERANCE)
        assert compute_bytes(converted, settings) == expected, setting
