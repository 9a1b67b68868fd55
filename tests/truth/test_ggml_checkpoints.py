"""Checkpoints of hybrid models in the real llama-server: one holds the state of one slot."""

from __future__ import annotations

from pathlib import Path

import pytest

from llmops.core.memory.ggml_cache import checkpoint_bytes, total_cache_bytes
from llmops.core.memory.ggml_settings import GgmlSettings
from llmops.host.local import LocalHost
from llmops.models import read_model
from tests.engines.conftest import llama_server  # noqa: F401 (the fixture)
from tests.engines.memory_readings import MIB, measure
from tests.truth.shapes.small import SMALL, with_bytes

pytestmark = pytest.mark.engines

PRINTED_MIB = 0.0006  # three decimals
# Words of six bytes, one token each: 720 tokens, more than one batch.
WORDS = 120


@pytest.mark.parametrize("name", SMALL)
def test_a_checkpoint_holds_the_states(name: str, tmp_path: Path, llama_server: tuple[str, ...]) -> None:  # noqa: F811
    path = with_bytes(SMALL[name]()).write(tmp_path / "model.gguf")
    model = read_model(LocalHost(), str(path))
    settings = GgmlSettings(1, 4096, prompt_cache_bytes=0, context_checkpoints=4, repack=False)
    reading = measure(llama_server, model, settings, prompt_tokens=WORDS)
    assert reading.checkpoints_mib
    assert max(reading.checkpoints_mib) == pytest.approx(checkpoint_bytes(model, settings) / MIB, abs=PRINTED_MIB)
    assert reading.cache_mib == pytest.approx(total_cache_bytes(model, settings) / MIB, abs=0.011)
