"""What runs here counts for a plan for this machine and this model, and for no other."""

from __future__ import annotations

from dataclasses import replace

import pytest

from llmops.actions.choosing import Candidate, Choice
from llmops.actions.subject import Subject
from llmops.engines.base import Models
from llmops.engines.found import InForce
from tests.unit.engines.test_vllm import cards, model
from tests.unit.engines.test_vllm_seen_pool import running, shape_of
from tests.unit.engines.vllm_host import VLLM, installed


@pytest.mark.parametrize(
    ("serves_the_model", "described", "counts"), [(True, False, True), (True, True, False), (False, False, False)]
)
def test_the_pool_of_what_runs_counts_here_alone(serves_the_model: bool, described: bool, counts: bool) -> None:
    hardware, installation = cards(24), installed()
    shape = shape_of(hardware)
    served = running(hardware, shape, 0.9)
    (alone,) = VLLM.memory_model(hardware, model(), installation.version)(shape)[1:]
    choice = Choice(Candidate(VLLM, installation, serves=True))
    found = Subject(VLLM, installation, InForce(), served, hardware, Models((model(),)), choice)
    card = replace(found, serves_the_model=serves_the_model, described=described).memory(1)(shape)[1]
    assert (card != alone) is counts
