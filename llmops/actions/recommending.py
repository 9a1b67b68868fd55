"""What a plan that was made says of the choice of engine."""

from __future__ import annotations

from llmops.actions.plan import Planned
from llmops.core.recommendation import VLLM, Circumstances, Recommendation, recommend
from llmops.engines import engine_named


def recommendation_for(planned: Planned) -> Recommendation:
    """The engine that suits this load, from the plan and from what is served now."""
    plan = planned.plan
    return recommend(
        Circumstances(
            engine=plan.engine,
            hardware=planned.hardware,
            model=plan.model,
            in_flight=plan.in_flight,
            slots=plan.slots,
            context_tokens=plan.context_tokens_per_slot,
            served_slots=planned.served_slots,
            on_a_card=plan.gpu_layers is not None,
            not_served=engine_named(VLLM).why_not(plan.model) if plan.model.classes else None,
        )
    )
