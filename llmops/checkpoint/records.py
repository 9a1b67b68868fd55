"""What is remembered of one change: enough to take it back, in JSON with a schema number."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from llmops.core.errors import UnreadableInput
from llmops.core.files import Change
from llmops.core.serialization import decode, encode

SCHEMA = 1


@dataclass(frozen=True)
class UnitBefore:
    """The unit as it was before the change; `invocation_id` tells one start of it from the next."""

    name: str
    exists: bool
    active_state: str
    enabled: bool
    invocation_id: str = ""

    @property
    def ran(self) -> bool:
        """True when it ran or was on its way up; then undo starts it again."""
        return self.active_state in {"active", "activating", "reloading"}


@dataclass(frozen=True)
class Checkpoint:
    """One change of a machine: what the files were and are.

    `directories` were made for it, parents first; `remove_directories` go once they are empty. `enable` and `disable`
    name unit files whose start at boot it switches. `reverts` are the changes that a rollback takes back. `accepted`
    are contradictions that the user let llmops override. `identifier` counts up and is never taken from a clock. A
    `reloadable` unit takes a new configuration over while it runs, so it is never stopped for one.
    `last` are paths among the changes that wait until all others are kept: what recovers at boot goes after everything.
    """

    identifier: int
    kind: str
    engine: str
    unit: UnitBefore
    started_at_seconds: float
    changes: tuple[Change, ...]
    directories: tuple[str, ...] = ()
    remove_directories: tuple[str, ...] = ()
    enable: tuple[str, ...] = ()
    disable: tuple[str, ...] = ()
    reverts: tuple[int, ...] = ()
    accepted: tuple[str, ...] = ()
    summary: str = ""
    reloadable: bool = False
    last: tuple[str, ...] = ()


def to_text(checkpoint: Checkpoint, plan: Mapping[str, Any] | None) -> str:
    """The file that keeps a change; `plan` is the document of core.documents, None for a rollback."""
    document = {"schema": SCHEMA, "checkpoint": encode(checkpoint), "plan": plan}
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


def from_text(text: str, where: str) -> tuple[Checkpoint, Mapping[str, Any] | None]:
    """The change and its plan document; raise UnreadableInput for anything that `to_text` did not write."""
    try:
        document = json.loads(text)
    except ValueError as problem:
        raise UnreadableInput(f"{where} is not JSON: {problem}", hint=_HINT) from problem
    if not isinstance(document, dict) or document.get("schema") != SCHEMA:
        found = document.get("schema") if isinstance(document, dict) else None
        raise UnreadableInput(f"{where}: schema {found!r} was not written by this llmops", hint=_HINT)
    plan = document.get("plan")
    return decode(Checkpoint, document.get("checkpoint"), where), plan if isinstance(plan, dict) else None


_HINT = "it is kept as it is: look at it, then move it away"
