"""What a plan that was made says of the choice of engine."""

from __future__ import annotations

from llmops.actions.plan import Planned
from llmops.core.recommendation import VLLM, Circumstances, Recommendation, Step, recommend
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
            is_here=planned.choice is not None and VLLM in {other.name for other in planned.choice.others},
            not_served=engine_named(VLLM).why_not(plan.model) if plan.model.classes else None,
        )
    )


def better_of(planned: Planned) -> str | None:
    """The engine that suits this load better than the one that was taken, of those that are alike otherwise."""
    alike = [] if planned.choice is None else [other.name for other in planned.choice.alike]
    if not alike:
        return None
    found = recommendation_for(planned)
    if found.step is Step.NOT_VLLM:
        return alike[0]
    return found.engine if found.engine in alike else None
