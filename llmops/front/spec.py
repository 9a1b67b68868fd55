"""What a front is to do: where it listens, what it stands before, how many are served and how many may wait."""

from __future__ import annotations

import math
from dataclasses import dataclass

from llmops.core.errors import UsageError
from llmops.core.plan import Plan
from llmops.front.listen import Address


@dataclass(frozen=True)
class FrontSpec:
    """One front before one engine: `queue_requests` may wait, each at most `patience_seconds`."""

    engine: str
    server: Address
    listen: Address
    slots: int
    queue_requests: int
    patience_seconds: float

    @property
    def queue_seconds(self) -> int:
        """The patience in whole seconds, at least one."""
        return max(1, math.ceil(self.patience_seconds))

    @property
    def retry_seconds(self) -> int:
        """Seconds until a place in a full queue becomes free, on the average.

        The queue holds what leaves within the patience, so one leaves every patience / queue seconds.
        """
        return max(1, math.ceil(self.patience_seconds / max(1, self.queue_requests)))

    @property
    def word(self) -> dict[str, object]:
        """What a front that runs with these limits says of itself."""
        return {
            "engine": str(self.server),
            "slots": self.slots,
            "queue": self.queue_requests,
            "patience_seconds": self.queue_seconds,
        }


def front_spec(plan: Plan, server: Address, listen: Address) -> FrontSpec:
    """The front of a plan; raise UsageError where it would listen in the engine's own place."""
    if listen.port == server.port and (listen.host == server.host or listen.is_everywhere):
        raise UsageError(
            f"the engine itself listens at {server}, so the front cannot listen at {listen}",
            hint=f"choose another port, such as --listen {Address(listen.host, server.port % 65535 + 1)}",
        )
    return FrontSpec(
        engine=plan.engine,
        server=server,
        listen=listen,
        slots=plan.slots,
        queue_requests=plan.queue_requests,
        patience_seconds=plan.policy.patience_seconds,
    )
