"""Two models on the same devices."""

from __future__ import annotations

from dataclasses import replace

from llmops.core.memory.budget import MemoryBudget
from llmops.core.memory.draft import together, with_draft
from tests.unit.core.example_models import eight_billion_16_bit


def test_parts_of_the_model_add_up_and_those_of_the_process_do_not() -> None:
    own = MemoryBudget(
        "gpu0", 100, 90, weights_bytes=40, cache_bytes=10, compute_bytes=8, runtime_bytes=5, reserve_bytes=2,
        ranges=(("compute_bytes", 6, 8, "why"), ("runtime_bytes", 3, 5, "driver")),
    )  # fmt: skip
    draft = MemoryBudget(
        "gpu0", 100, 90, weights_bytes=4, cache_bytes=1, compute_bytes=3, runtime_bytes=5, reserve_bytes=2,
        ranges=(("compute_bytes", 2, 3, "why"),),
    )  # fmt: skip
    (both,) = together((own,), (draft, replace(draft, device="gpu1")))
    assert (both.weights_bytes, both.cache_bytes, both.compute_bytes) == (44, 11, 11)
    assert (both.runtime_bytes, both.reserve_bytes) == (5, 2)
    assert both.ranges == (("compute_bytes", 8, 11, "why"), ("runtime_bytes", 3, 5, "driver"))
    assert together((own,), ()) == (own,)


def test_one_model_with_the_layers_and_weights_of_both() -> None:
    model = eight_billion_16_bit()
    draft = replace(model, layers=2, attention_layers=model.attention_layers[:2], weights_bytes=1000, parameters=500)
    both = with_draft(model, draft)
    assert len(both.attention_layers) == 38
    assert (both.weights_bytes, both.parameters) == (model.weights_bytes + 1000, model.parameters + 500)
    assert both.layers == model.layers
