"""What a front is to do: where it listens, what it stands before, how many are served and how many may wait."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from llmops.core.errors import UsageError
from llmops.core.plan import Plan
from llmops.front.listen import Address

# Each takes a buffer of 256 KiB while it sends. Some are left for questions that take no slot.
MOST_CONNECTIONS = 4096
_FOR_QUESTIONS = 512


@dataclass(frozen=True)
class FrontServer:
    """One engine behind a front: where it listens, and how many it serves at once."""

    address: Address
    slots: int


@dataclass(frozen=True)
class FrontSpec:
    """One front before one or several servers: `queue_requests` may wait together, each at most `patience_seconds`.

    `affinity_header` names the conversation in requests: its turns go to one server while that has a slot free.
    """

    engine: str
    servers: tuple[FrontServer, ...]
    listen: Address
    queue_requests: int
    patience_seconds: float
    affinity_header: str | None = None

    @property
    def slots(self) -> int:
        """How many all servers together serve at once."""
        return sum(server.slots for server in self.servers)

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
        return {"slots": self.slots, "queue": self.queue_requests, "patience_seconds": self.queue_seconds}


def front_spec(plan: Plan, server: Address, listen: Address) -> FrontSpec:
    """The front of a plan on the engine's machine; raise UsageError where it would listen in the engine's own place."""
    require_free_place(listen, (server,))
    return FrontSpec(
        engine=plan.engine,
        servers=(FrontServer(server, plan.slots),),
        listen=listen,
        queue_requests=_that_connect(plan.queue_requests, plan.slots),
        patience_seconds=plan.policy.patience_seconds,
    )


def front_of_replicas(
    plan: Plan,
    servers: Sequence[Address],
    listen: Address,
    *,
    machine: str,
    queue_requests: int | None = None,
    affinity_header: str | None = None,
) -> FrontSpec:
    """The front of several servers with the same plan, on the machine with this address.

    Where `queue_requests` is not given, as many may wait as all servers together serve within the patience. Raise
    UsageError where the front would listen in the place of a server that runs beside it.
    """
    require_free_place(listen, [server for server in servers if server.host == machine])
    queue = plan.queue_requests * len(servers) if queue_requests is None else queue_requests
    return FrontSpec(
        engine=plan.engine,
        servers=tuple(FrontServer(server, plan.slots) for server in servers),
        listen=listen,
        queue_requests=_that_connect(queue, plan.slots * len(servers)),
        patience_seconds=plan.policy.patience_seconds,
        affinity_header=affinity_header,
    )


def _that_connect(queue_requests: int, slots: int) -> int:
    """As many of them as can hold a connection: what cannot would wait unseen, and be neither counted nor refused.

    Raise UsageError where not even those that are served can.
    """
    left = MOST_CONNECTIONS - _FOR_QUESTIONS - slots
    if left < 0:
        raise UsageError(
            f"{slots} requests at once are more than the {MOST_CONNECTIONS - _FOR_QUESTIONS} that a front can hold",
            hint="put several fronts before fewer servers each",
        )
    return min(queue_requests, left)


def require_free_place(listen: Address, beside: Sequence[Address]) -> None:
    """Raise UsageError where an engine on the same machine has the port already."""
    for server in beside:
        if listen.port == server.port and (listen.host == server.host or listen.is_everywhere):
            raise UsageError(
                f"the engine itself listens at {server}, so the front cannot listen at {listen}",
                hint=f"choose another port, such as --listen {Address(listen.host, server.port % 65535 + 1)}",
            )


def example_listen(server: Address) -> Address:
    """Where a front that is only shown listens: loopback, beside the engine. An apply opens no port nobody named."""
    return Address("127.0.0.1", 8001 if server.port == 8000 else 8000)
