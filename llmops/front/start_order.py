"""How equal servers and the front before them are started, and what must be reachable: plain text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from llmops.core.files import RenderedFile
from llmops.front.haproxy import INSTALL_LINE, STATUS_PATH, UNIT
from llmops.front.spec import FrontSpec

ORDER_FILE = "/START.txt"


@dataclass(frozen=True)
class Replicas:
    """What the text says of the servers.

    `machine` is the address of the front's machine; `needs` is what every machine must have, `unit` what starts the
    engine there; `keeps_others_away` is whether that unit lets in the front alone; `warnings` come first.
    """

    machine: str
    needs: str
    unit: str
    keeps_others_away: bool
    warnings: tuple[str, ...] = ()


def start_order(spec: FrontSpec, replicas: Replicas) -> RenderedFile:
    """START.txt: the servers first, in any order, then the front."""
    places = [str(server.address) for server in spec.servers]
    text = [
        f"{len(places)} servers of {spec.engine} behind one front. Nothing was sent to any machine: copy what is below"
        " an address to it.",
        *(f"Warning: {warning}." for warning in replicas.warnings),
        "",
        *_before(spec, replicas, places),
        "",
        f"1. on {', '.join(server.address.host for server in spec.servers)}, in any order:",
        f"   systemctl daemon-reload && systemctl enable {replicas.unit} && systemctl restart {replicas.unit}",
        f"2. on {replicas.machine}, which has the front ({INSTALL_LINE}):",
        f"   systemctl daemon-reload && systemctl enable {UNIT} && systemctl restart {UNIT}",
        "3. there, until every engine is up:",
        f"   curl {spec.listen.url}{STATUS_PATH}",
        "",
        *_afterwards(spec),
    ]
    return RenderedFile(ORDER_FILE, "\n".join(text) + "\n")


def _before(spec: FrontSpec, replicas: Replicas, places: Sequence[str]) -> list[str]:
    who = "itself alone" if spec.listen.is_loopback else "all who reach that address"
    others = (
        "the units let in no other machine"
        if replicas.keeps_others_away
        else "a firewall must see to that, for the unit lets in everybody"
    )
    return [
        f"Needed on every machine: {replicas.needs}. An API key, where one is used, is the same on all of them.",
        f"Reachable from {replicas.machine}: {', '.join(places)}. Not from anywhere else: {others}.",
        "The network between them must be trusted: neither prompts nor keys are encrypted there.",
        f"For clients: {spec.listen} of {replicas.machine}, for {who}; TLS is for a proxy before it.",
    ]


def _afterwards(spec: FrontSpec) -> list[str]:
    return [
        f"A server that ends is left out at once, and taken in again a second after it answers. What waits goes to the"
        f" others; what it had been given breaks off. Together they serve {spec.slots} at once, and"
        f" {spec.queue_requests} may wait.",
        "To take one out without breaking anything off: write `disabled` at the end of its `server` line under `backend"
        f" generation`, run systemctl reload {UNIT}, and stop it once {STATUS_PATH} and its own counters show nothing.",
    ]
