"""What a plan is made from."""

from __future__ import annotations

from dataclasses import dataclass

from llmops.core.hardware import Hardware
from llmops.core.model import ModelSpec
from llmops.core.plan import Fixed, MemoryModel, Policy
from llmops.core.throughput import Rates
from llmops.core.workload import Workload


@dataclass(frozen=True)
class Problem:
    """Everything that a plan is made from.

    `memory` answers what a shape takes on this machine; `preferred_context_tokens` is what the user serves today and
    keeps where it fits; `most_slots` is the engine's own limit.
    """

    engine: str
    engine_version: str | None
    hardware: Hardware
    model: ModelSpec
    workload: Workload
    policy: Policy
    fixed: Fixed
    rates: Rates
    memory: MemoryModel
    on_gpu: bool
    most_slots: int = 256
    preferred_context_tokens: int | None = None
