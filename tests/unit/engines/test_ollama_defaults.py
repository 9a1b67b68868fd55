"""What Ollama takes where nothing is said: slots by version, context by the cards."""

from __future__ import annotations

from dataclasses import replace

import pytest

from llmops.core.hardware import Gpu, Hardware
from llmops.core.plan import Fixed
from llmops.core.version import Version
from llmops.engines import engine_named
from llmops.engines.found import Installation
from tests.unit.core.example_models import GIB, eight_billion_16_bit

INSTALLED = Installation("ollama", "unit", ("/usr/local/bin/ollama",), Version((0, 32, 15)), "0.32.15", None)


def cards(*sizes_gib: int) -> Hardware:
    return Hardware(gpus=tuple(Gpu(n, None, "card", size * GIB, size * GIB) for n, size in enumerate(sizes_gib)))


@pytest.mark.parametrize(
    ("version", "hardware", "slots", "context"),
    [
        ((0, 6, 6), cards(80), 4, 2_048),
        ((0, 9, 6), cards(80), 2, 4_096),
        ((0, 15, 4), cards(80), 1, 4_096),
        ((0, 15, 5), cards(), 1, 4_096),
        ((0, 32, 15), cards(22), 1, 4_096),
        ((0, 32, 15), cards(24), 1, 32_768),
        ((0, 32, 15), cards(24, 24), 1, 40_960),  # the tier of 262,144 cut to what the model was trained on
    ],
)
def test_slots_by_version_and_context_by_cards(
    version: tuple[int, ...], hardware: Hardware, slots: int, context: int
) -> None:
    installation = replace(INSTALLED, version=Version(version))
    complete = engine_named("ollama").with_defaults(Fixed(), eight_billion_16_bit(), installation, hardware)
    assert (complete.slots, complete.context_tokens) == (slots, context)
    assert (complete.prompt_cache_bytes, complete.context_checkpoints) == (
        (8 * GIB, 32) if version >= (0, 30) else (0, 0)
    )


def test_what_is_fixed_stays() -> None:
    fixed = Fixed(slots=3, context_tokens=8_192, cache_type_k="q8_0", cache_type_v="q8_0", prompt_cache_bytes=0)
    complete = engine_named("ollama").with_defaults(fixed, eight_billion_16_bit(), INSTALLED, cards())
    assert (complete.slots, complete.context_tokens, complete.cache_type_k) == (3, 8_192, "q8_0")
    assert complete.prompt_cache_bytes == 0
