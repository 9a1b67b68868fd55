"""How many servers like the one that is planned carry the users together, with the same chance to wait."""

from __future__ import annotations

from dataclasses import dataclass, replace

from llmops.core.demand import read_demand, slots_fast_enough, waiting_with
from llmops.core.plan import Plan, Reason
from llmops.core.problem import Problem

# What keeps one server from having the slots that the users need; a number that was given is the user's.
_TOO_SMALL = frozenset({"memory", "speed"})


@dataclass(frozen=True)
class _Spread:
    """The users of one of `servers` equal servers, and the share of their requests that has to wait there.

    `keeps_up` is whether their turns take no longer than from one to the next.
    """

    servers: int
    users: int
    wait_probability: float
    keeps_up: bool

    def carries(self, allowed: float) -> bool:
        """Whether waiting is rare enough there, and the users are answered as fast as they ask."""
        return self.keeps_up and self.wait_probability <= allowed


def replicas_needed(problem: Problem, plan: Plan) -> int | None:
    """The fewest equal servers, this one among them, at each of which waiting is as rare as was asked for.

    None where this one suffices, where its slots were given, or where not even one user is served fast enough: more
    such servers change nothing of that. Users are spread evenly and each keeps to one server:
    a proxy that sends a request to the least busy one does no worse.
    """
    allowed = problem.policy.wait_probability
    if plan.binding_constraint not in _TOO_SMALL or plan.wait_probability <= allowed:
        return None
    low, high = 2, problem.workload.users
    if not slots_fast_enough(problem.rates, problem.policy, 1) or not _spread(problem, plan, high).carries(allowed):
        return None
    while low < high:
        middle = (low + high) // 2
        if _spread(problem, plan, middle).carries(allowed):
            high = middle
        else:
            low = middle + 1
    return low


def replica_reasons(problem: Problem, plan: Plan) -> tuple[Reason, ...]:
    """Why so many servers; nothing where one is enough."""
    if plan.replicas is None:
        return ()
    enough, fewer = _spread(problem, plan, plan.replicas), _spread(problem, plan, plan.replicas - 1)
    return (
        Reason(
            "replicas",
            str(plan.replicas),
            "fewest R so that of ceil(users / R) users, at a server with these slots, at most the allowed share waits"
            " and turns take no longer than they have",
            (
                ("users", str(problem.workload.users)),
                ("users of each", str(enough.users)),
                ("slots of each", str(plan.slots)),
                ("wait", f"{enough.wait_probability:.1%}"),
                (f"wait with {fewer.servers}", f"{fewer.wait_probability:.1%}"),
                ("allowed", f"{problem.policy.wait_probability:.0%}"),
            ),
            "finite-source queue M/M/k//N of each server, seen by an arriving user",
        ),
    )


def _spread(problem: Problem, plan: Plan, servers: int) -> _Spread:
    users = -(-problem.workload.users // servers)
    workload, rates = replace(problem.workload, users=users), problem.rates
    demand = read_demand(workload, problem.policy, rates, most_slots=problem.most_slots)
    waits = waiting_with(demand, workload, rates, plan.slots).probability
    return _Spread(servers, users, waits, keeps_up=not demand.saturated)
