"""The plan with the rates of the division that it has: cards that share each layer, and copies, are faster."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace

from llmops.actions.problem import rates_of
from llmops.actions.subject import PlanRequest, Subject
from llmops.core.errors import DoesNotFit
from llmops.core.plan import Plan
from llmops.core.problem import Problem, Split
from llmops.core.sizing import size
from llmops.host import Host


def sized(host: Host, request: PlanRequest, found: Subject, problem: Problem) -> Plan:
    """The plan on the fewest cards that give the slots; raise DoesNotFit where none holds the model."""
    plan = size(problem)
    splits = problem.choices.splits
    split = split_of(plan)
    if split != splits[0]:
        rest = splits[splits.index(split) :]
        plan = size(_with(host, request, found, problem, rest))
        split = split_of(plan)
    if plan.binding_constraint != "speed":
        return plan
    return _faster(host, request, found, problem, splits[splits.index(split) :]) or plan


def split_of(plan: Plan) -> Split:
    """How the plan's model lies on the cards."""
    return Split(**{row.name: getattr(plan, row.name) for row in fields(Split)})


def _faster(host: Host, request: PlanRequest, found: Subject, problem: Problem, splits: Sequence[Split]) -> Plan | None:
    """The first of these divisions that is fast enough for the slots wanted.

    Else the one with most slots that are fast enough, and where none is, the fastest.
    """
    best: tuple[tuple[float, float], Plan] | None = None
    for split in splits:
        asked = _with(host, request, found, problem, (split,))
        try:
            plan = size(asked)
        except DoesNotFit:
            continue
        rate = 1.0 / asked.rates.likely.step_seconds(plan.slots)
        enough = rate >= asked.policy.minimum_tokens_per_second
        if enough and plan.binding_constraint == "users":
            return plan
        worth = (float(plan.slots), 0.0) if enough else (0.0, rate)
        if best is None or worth > best[0]:
            best = worth, plan
    return None if best is None else best[1]


def _with(host: Host, request: PlanRequest, found: Subject, problem: Problem, splits: tuple[Split, ...]) -> Problem:
    """The problem with these divisions alone, and the rates of the first."""
    rates, _ = rates_of(host, request, found, splits[0], on_gpu=problem.on_gpu)
    return replace(problem, rates=rates, choices=replace(problem.choices, splits=splits))
