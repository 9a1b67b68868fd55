"""The plan with the rates of the division that it has: cards that share each layer, and copies, are faster."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from llmops.actions.problem import rates_of
from llmops.actions.subject import PlanRequest, Subject
from llmops.core.errors import DoesNotFit
from llmops.core.plan import Plan
from llmops.core.problem import Problem, Split
from llmops.core.sizing import best_of, fitted_alone, size
from llmops.host import Host


def sized(host: Host, request: PlanRequest, found: Subject, problem: Problem) -> Plan:
    """The plan on the fewest cards that give the slots; raise DoesNotFit where none holds the model."""
    splits, divisions = problem.choices.splits, _Divisions(host, request, found, problem)
    split = divisions.best() if len(splits) > 1 else None
    if split is None:
        return size(problem)  # which says why nothing fits
    plan = size(divisions.alone(split))
    if plan.binding_constraint != "speed":
        return plan
    return divisions.faster(splits[splits.index(split) :]) or plan


@dataclass(frozen=True)
class _Divisions:
    """The problem, and what the rates of each of its divisions are predicted from."""

    host: Host
    request: PlanRequest
    found: Subject
    problem: Problem

    def alone(self, split: Split) -> Problem:
        """The problem with this division alone, of all that are tried, and its rates."""
        problem = self.problem
        rates, _ = rates_of(self.host, self.request, self.found, split, on_gpu=problem.on_gpu)
        tried = problem.choices.tried or problem.choices.splits
        return replace(problem, rates=rates, choices=replace(problem.choices, splits=(split,), tried=tried))

    def best(self) -> Split | None:
        """The first that gives up nothing for the slots that are wanted at its own rates, else the one with most."""
        return best_of((split, fitted_alone(self.alone(split))) for split in self.problem.choices.splits)

    def faster(self, splits: Sequence[Split]) -> Plan | None:
        """The first of these divisions that is fast enough for the slots wanted.

        Else the one with most slots that are fast enough, and where none is, the fastest.
        """
        best: tuple[tuple[float, float], Plan] | None = None
        for split in splits:
            asked = self.alone(split)
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
