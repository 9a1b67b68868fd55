"""The plan with the rates of the division that it has: cards that share each layer, and copies, are faster."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace

from llmops.actions.problem import rates_of
from llmops.actions.subject import PlanRequest, Subject
from llmops.core.errors import DoesNotFit
from llmops.core.plan import Plan
from llmops.core.problem import Problem, Split
from llmops.core.sizing import fitted_alone, size
from llmops.host import Host


def sized(host: Host, request: PlanRequest, found: Subject, problem: Problem) -> Plan:
    """The plan on the fewest cards that give the slots; raise DoesNotFit where none holds the model."""
    splits = problem.choices.splits
    if len(splits) == 1:
        return size(problem)
    split = _best(host, request, found, problem)
    if split is None:
        return size(problem)  # which says why nothing fits
    plan = size(_with(host, request, found, problem, (split,)))
    if plan.binding_constraint != "speed":
        return plan
    return _faster(host, request, found, problem, splits[splits.index(split) :]) or plan


def _best(host: Host, request: PlanRequest, found: Subject, problem: Problem) -> Split | None:
    """The first division that gives up nothing for the slots that are wanted at its own rates.

    Else the one with most slots, of equal ones the first with fewest levers; None where none holds the model.
    """
    worth: dict[Split, tuple[int, int]] = {}
    for split in problem.choices.splits:
        fitted = fitted_alone(_with(host, request, found, problem, (split,)))
        if fitted is not None and not fitted.levers:
            return split
        if fitted is not None:
            worth[split] = fitted.shape.slots, -len(fitted.levers)
    return max(worth, key=worth.__getitem__, default=None)


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
    """The problem with these divisions alone, of all that are tried, and the rates of the first."""
    rates, _ = rates_of(host, request, found, splits[0], on_gpu=problem.on_gpu)
    choices = replace(problem.choices, splits=splits, tried=problem.choices.tried or problem.choices.splits)
    return replace(problem, rates=rates, choices=choices)
