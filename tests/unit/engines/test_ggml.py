"""What every engine that runs llama.cpp asks of the user's values."""

from __future__ import annotations

from dataclasses import replace

import pytest

from llmops.core.errors import UsageError
from llmops.core.model import AttentionLayer
from llmops.core.plan import Fixed
from llmops.core.version import Version
from llmops.engines.ggml import require_one_cache_type
from tests.unit.core.memory.ggml_models import QWEN_8B

LATENT = replace(QWEN_8B, attention_layers=(AttentionLayer(1, 576, 0, is_latent=True),) * 36)


@pytest.mark.parametrize("fixed", [Fixed(cache_type_k="q8_0"), Fixed(cache_type_k="q8_0", cache_type_v="q4_0")])
def test_a_compressed_cache_has_one_type(fixed: Fixed) -> None:
    with pytest.raises(UsageError, match="one compressed vector") as refused:
        require_one_cache_type(LATENT, None, fixed)
    assert refused.value.hint == "give --cache-type-k q8_0 --cache-type-v q8_0, or neither"
    require_one_cache_type(LATENT, Version((10_000,)), fixed)
    require_one_cache_type(QWEN_8B, None, fixed)


@pytest.mark.parametrize("fixed", [Fixed(), Fixed(cache_type_k="q8_0", cache_type_v="q8_0")])
def test_one_type_is_taken(fixed: Fixed) -> None:
    require_one_cache_type(LATENT, None, fixed)
