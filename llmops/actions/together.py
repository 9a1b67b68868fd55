"""Several models of one engine: the memory of the worst of them, and how many may be in memory at once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from llmops.core.errors import DoesNotFit
from llmops.core.hardware import Hardware
from llmops.core.memory.budget import MemoryBudget
from llmops.core.memory.together import worst_together
from llmops.core.plan import MemoryModel, Plan, Reason, Shape
from llmops.core.problem import Problem
from llmops.core.sizing import size
from llmops.core.units import MIB, format_bytes
from llmops.core.version import Version
from llmops.engines.base import Engine, Models
from llmops.engines.found import Served

# Besides its file, a small model that makes embeddings takes a graph and a process: from llama.cpp's own logs.
_COMPANION_BYTES = 256 * MIB
# Ollama's own default of models at once for each card, or for a host without cards (server/sched.go).
_MOST_PER_CARD = 3


def memory_of(
    engine: Engine,
    hardware: Hardware,
    models: Models,
    version: Version | None,
    count: int,
    *,
    served: Served | None = None,
) -> MemoryModel:
    """What a shape takes when the `count` largest models are in memory at once; `served` is what runs here now."""
    rules = [engine.memory_model(hardware, model, version, models.draft, served) for model in models.chat]
    beside = [_companion(rules[0], size_bytes) for _, size_bytes in models.companions]
    return worst_together((*rules, *beside), count)


def _companion(lead: MemoryModel, size_bytes: int) -> MemoryModel:
    """A model that answers nobody, on every device where it could lie; the shape of the plan is not for it."""

    def memory(shape: Shape) -> tuple[MemoryBudget, ...]:
        return tuple(
            MemoryBudget(
                budget.device,
                budget.total_bytes,
                budget.available_bytes,
                weights_bytes=size_bytes,
                compute_bytes=_COMPANION_BYTES,
                reserve_bytes=budget.reserve_bytes,
            )
            for budget in lead(shape)
        )

    return memory


def load_more(problem: Problem, plan: Plan, models: Models, memory: Callable[[int], MemoryModel]) -> Plan:
    """The plan with as many models in memory at once as fit without taking anything from a request."""
    known = len(models.chat) + len(models.companions)
    most = min(known, _MOST_PER_CARD * max(1, len(problem.hardware.gpus)))
    for count in range(2, most + 1):
        try:
            larger = size(replace(problem, memory=memory(count), loaded_models=count))
        except DoesNotFit:
            break
        if _serves(larger) != _serves(plan):
            break
        plan = larger
    return with_reason(plan, models)


def with_reason(plan: Plan, models: Models) -> Plan:
    """The plan with the reason for how many models may be in memory at once, where there are several."""
    several = len(models.chat) + len(models.companions) > 1
    return replace(plan, reasons=(*plan.reasons, _reason(plan, models))) if several else plan


def _serves(plan: Plan) -> tuple[int, int, str, str]:
    return plan.slots, plan.context_tokens_per_slot, plan.cache_type_k, plan.cache_type_v


def _reason(plan: Plan, models: Models) -> Reason:
    sizes = [(model.reference, format_bytes(model.weights_bytes)) for model in models.chat]
    sizes += [(name, format_bytes(size_bytes)) for name, size_bytes in models.companions]
    return Reason(
        "loaded_models",
        str(plan.loaded_models),
        "as many of the largest models as fit together with all their slots; the engine may load any of them",
        tuple(sizes),
        "model headers and memory budget",
    )
