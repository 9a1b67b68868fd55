"""What vLLM would refuse at its start is refused before it: checkpoints that a card does not take."""

from __future__ import annotations

from dataclasses import replace

import pytest

from llmops.core.errors import UsageError
from llmops.core.hardware import Gpu
from llmops.core.plan import Fixed
from llmops.engines.vllm.possible import choices
from tests.unit.core.example_models import GIB, cpu_host, eight_billion_16_bit


@pytest.mark.parametrize(
    ("method", "capability", "words"),
    [
        ("mxfp4", (7, 5), "Card has compute capability 7.5, and MXFP4 needs 8.0"),
        ("modelopt", (7, 5), "ModelOpt in fp8 needs 8.0"),
        (None, (7, 0), "vLLM needs 7.5"),
        ("mxfp4", (8, 0), None),
        ("awq", (7, 5), None),
        ("mxfp4", None, None),
    ],
)
def test_checkpoints_and_cards(method: str | None, capability: tuple[int, int] | None, words: str | None) -> None:
    card = Gpu(0, None, "Card", 48 * GIB, 48 * GIB, capability, 1_000_000_000_000)
    machine = replace(cpu_host(64 * GIB), gpus=(card,))
    model = replace(eight_billion_16_bit(), format="safetensors", data_type="float16", quantization_method=method)
    if words is None:
        assert choices(machine, model, None, Fixed()).is_paged
        return
    with pytest.raises(UsageError, match="vLLM would not start") as refused:
        choices(machine, model, None, Fixed())
    assert words in refused.value.message
