"""Making a plan for a machine: find the engine, read model and hardware, recall what was measured, size."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from llmops.actions.choosing import ENGINE_REASON, Choice
from llmops.actions.dividing import sized
from llmops.actions.holders import holders, with_holders
from llmops.actions.problem import counted, measured_if_needed, problem_of
from llmops.actions.subject import (
    ABSENT,
    PlanRequest,
    Subject,
    find_engine,
    find_subject,
)
from llmops.actions.together import load_more, with_reason
from llmops.core.errors import DoesNotFit, Misconfigured, NoPermission, UnreadableInput, Unsupported, UsageError
from llmops.core.fitting import short_by_bytes
from llmops.core.hardware import Hardware
from llmops.core.model import ModelSpec
from llmops.core.plan import Fixed, Plan
from llmops.core.problem import Problem, require_possible
from llmops.core.sizing import fits, fits_at_the_start, size_explicit
from llmops.core.units import format_bytes
from llmops.core.visible_devices import deciding_variables
from llmops.engines.base import Engine
from llmops.engines.found import InForce, Installation
from llmops.host import Host
from llmops.state import read_applied_plan

if TYPE_CHECKING:
    from llmops.actions.keep import Kept

__all__ = [
    "ABSENT",
    "PlanRequest",
    "Planned",
    "find_engine",
    "make_plan",
    "size_one",
]


# What may be said of an engine that would suit better, while there is a plan for another.
_NO_PLAN = (UsageError, DoesNotFit, Unsupported, UnreadableInput, NoPermission)


@dataclass(frozen=True)
class Planned:
    """A plan and everything it was made from; `kept` says why what is in force stays, None for new numbers.

    `changes_nothing` is True where the user's own configuration breaks no limit, so that no file is rendered.
    `served_slots` are those of this model's server here; None where it is another machine or model, or not known.
    """

    engine: Engine
    installation: Installation
    in_force: InForce
    hardware: Hardware
    model: ModelSpec
    plan: Plan
    kept: str | None = None
    changes_nothing: bool = False
    served_slots: int | None = None
    choice: Choice | None = None

    @property
    def unclear(self) -> Misconfigured | None:
        """Why nothing is to be configured before somebody names the engine."""
        return None if self.choice is None else self.choice.refusal


def make_plan(host: Host, request: PlanRequest, *, progress: Callable[[str], None]) -> Planned:
    """The plan for this machine; raise what reading its parts raises, and DoesNotFit.

    A second one is made only where no engine is named and two that are alike otherwise differ by the load.
    """
    from llmops.actions.recommending import better_of

    found = find_subject(host, request)
    planned = _plan_for(host, request, found, progress)
    better = better_of(planned)
    if better is None:
        return planned
    try:
        other = find_subject(host, replace(request, engine=better))
        return _plan_for(host, request, replace(other, choice=found.choice.instead(better)), progress)
    except _NO_PLAN as refusal:
        said = f"{better} would suit this load better, and no plan could be made for it: {refusal.message}"
        return replace(planned, plan=replace(planned.plan, warnings=(*planned.plan.warnings, said)))


def _plan_for(host: Host, request: PlanRequest, found: Subject, progress: Callable[[str], None]) -> Planned:
    found = measured_if_needed(host, request, found, progress)
    held = holders(host, found.hardware, found.in_force)
    try:
        planned = _made(host, request, found)
    except DoesNotFit as refusal:
        raise with_holders(refusal, held) from refusal
    if planned.plan.gpu_layers is None:
        return planned
    said = tuple(f"{line}: the plan counts with what is left" for line in held)
    said = (*said, *_chosen_in_this_shell(host, found))
    return replace(planned, plan=replace(planned.plan, warnings=(*planned.plan.warnings, *said)))


def _chosen_in_this_shell(host: Host, found: Subject) -> tuple[str, ...]:
    """What a service needs to use the cards that were counted, where they were named for llmops alone."""
    in_force = found.in_force
    has_its_own = in_force.environment is not None or in_force.configured_environment is not None
    if has_its_own or found.described:
        return ()
    named = deciding_variables((card.vendor for card in found.hardware.gpus), host.environment())
    return tuple(
        f"{name}={value} of this shell decided which cards are counted: a service does not see it, put"
        f" Environment={name}={value} into a drop-in of its unit before it starts"
        for name, value in named
    )


def _made(host: Host, request: PlanRequest, found: Subject) -> Planned:
    problem, warnings = problem_of(host, request, found)
    require_possible(problem)
    kept = None if request.replan else _keep(host, request, found, problem)
    now = _served_slots(request, found)
    if kept is None:
        plan = load_more(problem, sized(host, request, found, problem), found.models, found.memory)
        return replace(_planned(found, plan, (*warnings, *_shorter_requests(found, plan))), served_slots=now)
    planned = _planned(found, with_reason(kept.plan, found.models), warnings)
    return replace(planned, kept=kept.reason, changes_nothing=kept.is_users_own, served_slots=now)


def _served_slots(request: PlanRequest, found: Subject) -> int | None:
    if found.served is None or not found.serves_the_model or found.described:
        return None
    return found.served.values.slots


def size_one(host: Host, request: PlanRequest, *, progress: Callable[[str], None]) -> Planned:
    """The memory and capacity of one explicit configuration; engine defaults for what is not given."""
    found = measured_if_needed(host, request, find_subject(host, request), progress)
    problem, warnings = problem_of(host, request, found)
    hardware = counted(found.hardware, on_gpu=problem.on_gpu)
    complete = found.engine.with_defaults(request.fixed, found.model, found.installation, hardware)
    choices = found.engine.choices(hardware, found.model, found.version, complete)
    problem = replace(problem, fixed=complete, choices=choices)
    require_possible(problem)
    plan = size_explicit(problem)
    if request.fixed.context_tokens is None:
        warnings = (*warnings, _by_itself(plan, is_paged=problem.choices.is_paged))
    if problem.choices.fits_by_itself:
        warnings = (*warnings, *_fitted_at_the_start(request.fixed, plan))
    if problem.choices.is_paged and request.fixed.slots is None:
        plan, said = _as_it_starts(plan)
        warnings = (*warnings, *said)
    return _planned(found, plan, (*warnings, *_outgrows(plan)))


def _by_itself(plan: Plan, *, is_paged: bool) -> str:
    """Which context the engine takes where none is given."""
    whole = plan.context_tokens_per_slot * (plan.slots if plan.kv_unified else 1)
    if whole < plan.model.context_tokens_trained:
        pool = f", {whole:,} in one pool" if plan.kv_unified else ""
        return f"without --context this version takes {plan.context_tokens_per_slot:,} tokens for each slot{pool}"
    or_less = "" if is_paged else ", or what fits"
    trained = f"{plan.model.context_tokens_trained:,} tokens"
    return f"without --context the engine takes {trained}, all that the model was trained on{or_less}"


def _fitted_at_the_start(fixed: Fixed, plan: Plan) -> tuple[str, ...]:
    """What the engine does with too little room to what it is not told, and what of it is not predicted."""
    watched = [budget for budget in plan.budgets if budget.device != "host"] or plan.budgets
    if all(budget.free_bytes + budget.prompt_cache_bytes >= 0 for budget in watched):
        return ()
    lines = []
    if fixed.context_tokens is None:
        lines.append(
            "there is too little room for that context: this version starts with a shorter one (its --fit), how short"
            " depends on what is free then and is not predicted; --context fixes it"
        )
    divided = (fixed.gpu_layers, fixed.tensor_split, fixed.cpu_expert_layers) != (None, None, None)
    if plan.gpu_layers is not None and not divided:
        lines.append(
            "there is too little room on cards: this version moves layers to main memory (its --fit), how many depends"
            " on what is free then and is not predicted; --gpu-layers fixes them"
        )
    return tuple(lines)


def _as_it_starts(plan: Plan) -> tuple[Plan, tuple[str, ...]]:
    """The plan with what a server needs to start that runs as many requests as it likes: room for the longest one."""
    budgets = tuple(replace(budget, needed_cache_bytes=budget.request_cache_bytes) for budget in plan.budgets)
    held = min((budget.max_concurrency for budget in budgets if budget.max_concurrency is not None), default=0.0)
    plan = replace(plan, budgets=budgets)
    if held >= plan.slots or held < 1.0:  # with less than one it does not start, and that is said
        return plan, ()
    return plan, (
        f"by itself it runs up to {plan.slots} requests at once, and the cache holds {held:.2f} of"
        f" {plan.context_tokens_per_slot:,} tokens each: long ones are interrupted and computed again; --slots bounds"
        " them",
    )


def _outgrows(plan: Plan) -> tuple[str, ...]:
    """What starts and serves, and ends in swap once enough prompts are saved."""
    safety = plan.policy.safety_factor
    if any(budget.needed_cache_bytes is not None for budget in plan.budgets):
        return ()
    if fits(plan.budgets, safety) or not fits_at_the_start(plan.budgets, safety):
        return ()
    saved = max(budget.prompt_cache_bytes for budget in plan.budgets)
    short = short_by_bytes(plan.budgets, safety)
    return (
        f"saved prompts may grow to {format_bytes(saved)}, {format_bytes(short)} more than there is room for:"
        " bound them with --cache-ram and --ctx-checkpoints",
    )


def _shorter_requests(found: Subject, plan: Plan) -> tuple[str, ...]:
    """Requests that work now and will be refused; where memory was the reason, the plan itself says so."""
    served = found.served
    longest = served.request_context_tokens if served and served.context_was_chosen else None
    now, same = plan.context_tokens_per_slot, found.serves_the_model
    if not same or longest is None or longest <= now or any("served until now" in line for line in plan.warnings):
        return ()
    return (f"requests may have {now} tokens instead of the {longest} now; --context {longest} keeps them",)


def _planned(found: Subject, plan: Plan, warnings: tuple[str, ...]) -> Planned:
    choice = found.choice
    earlier = tuple(row for row in plan.reasons if row.quantity != ENGINE_REASON)  # of a plan that was kept
    reasons, said = (*choice.reasons, *earlier), (*choice.warnings, *plan.warnings, *warnings)
    told = replace(plan, reasons=reasons, warnings=said)
    return Planned(found.engine, found.installation, found.in_force, found.hardware, found.model, told, choice=choice)


def _keep(host: Host, request: PlanRequest, found: Subject, problem: Problem) -> Kept | None:
    if found.installation.managed_by == ABSENT:
        return None
    from llmops.actions.keep import keep_applied, keep_served

    applied = read_applied_plan(host, found.engine.name).plan
    if applied is not None:
        count = applied.loaded_models
        with_all = replace(problem, memory=found.memory(count), loaded_models=count)
        return keep_applied(applied, request.fixed, with_all, described=found.described)
    if found.served is None or found.described or not found.serves_the_model:
        return None
    return keep_served(found.served, request.fixed, problem)
