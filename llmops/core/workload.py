"""Who uses the server: how many, how often, with what shape of turn."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class WorkloadKind(str, Enum):
    """The kinds of use; `agent` and `batch` have no idle time between requests."""

    CHAT = "chat"
    RAG = "rag"
    AGENT = "agent"
    BATCH = "batch"


@dataclass(frozen=True)
class Workload:
    """The load that a plan must carry.

    `turn_seconds` is the time from one turn of a user to the next; None means the next follows at once.
    `generation_seconds` None means: take it from the predicted or measured rates.
    """

    kind: WorkloadKind
    users: int
    turn_seconds: float | None
    prompt_tokens: int
    reply_tokens: int
    context_floor_tokens: int
    generation_seconds: float | None = None


DEFAULTS: dict[WorkloadKind, Workload] = {
    WorkloadKind.CHAT: Workload(WorkloadKind.CHAT, 5, 90.0, 1_500, 300, 8_192),
    WorkloadKind.RAG: Workload(WorkloadKind.RAG, 5, 90.0, 6_000, 200, 8_192),
    WorkloadKind.AGENT: Workload(WorkloadKind.AGENT, 2, None, 16_000, 500, 32_768),
    WorkloadKind.BATCH: Workload(WorkloadKind.BATCH, 4, None, 2_000, 300, 4_096),
}


def in_flight_requests(users: int, generation_seconds: float, turn_seconds: float | None) -> float:
    """Mean requests being served: users x generation / turn, never more than the users.

    20 users who wait 12 s in every 90 s: 20 x 12 / 90 = 2.67.
    """
    if turn_seconds is None or turn_seconds <= generation_seconds:
        return float(users)
    return users * generation_seconds / turn_seconds
