"""What every engine on a machine serves at this moment: nothing is changed, woken or loaded for it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from llmops.core.notices import Notice, one_slot
from llmops.core.serialization import encode
from llmops.engines import ENGINES
from llmops.engines.base import Engine
from llmops.engines.found import CONTAINERS, EMBEDDED, InForce, Installation
from llmops.host import Host

NOT_RUNNING = "it is not running"
# Where each value comes from in the words of InForce.unseen: the nearest reason first.
_REASONS = {
    "models": ("model_path", "loaded", "version", "props", "slots", "arguments"),
    "slots": ("slots", "version", "props", "loaded", "arguments"),
    "context_tokens_per_slot": (
        "context_tokens_per_slot",
        "models",
        "version",
        "props",
        "loaded",
        "slots",
        "arguments",
    ),
    "url": ("url", "arguments"),
    "requests_in_flight": ("processing", "slot_contexts", "metrics", "version", "props", "loaded", "arguments"),
}


@dataclass(frozen=True)
class ServingNow:
    """One engine that was found and what it serves; None is not observed, and `unseen` says why.

    `detail` is where it was found. Several `models` may be loaded: slots and context are those of the one that was
    loaded last.
    """

    engine: str
    version: str | None
    managed_by: str
    unit: str | None
    pid: int | None
    command: tuple[str, ...]
    detail: str
    running: bool
    models: tuple[str, ...] | None = None
    slots: int | None = None
    context_tokens_per_slot: int | None = None
    url: str | None = None
    requests_in_flight: int | None = None
    unseen: tuple[tuple[str, str], ...] = ()


def serving_now(host: Host) -> tuple[ServingNow, ...]:
    """Every engine on the machine, running ones first; the server that is a part of llmops only where it runs."""
    found = [
        (engine, installation)
        for engine in ENGINES
        for installation in engine.detect(host)
        if installation.managed_by != EMBEDDED
    ]
    looked = [(installation, _look(host, engine, installation)) for engine, installation in found]
    owners = {pid for _, in_force in looked for pid in in_force.pids}
    rows = [_row(installation, _own(installation, in_force, owners)) for installation, in_force in looked]
    return tuple(sorted(rows, key=lambda row: not row.running))


def serving_notices(found: tuple[ServingNow, ...]) -> tuple[Notice, ...]:
    """Who serves one request at a time: its users wait in line, which is no fault."""
    return tuple(
        one_slot(row.engine, row.unit or f"process {row.pid}", row.requests_in_flight)
        for row in found
        if row.slots == 1
    )


def serving_documents(found: tuple[ServingNow, ...]) -> list[dict[str, Any]]:
    """`data.serving`: the reasons for what is null as an object."""
    return [{**encode(row), "unseen": dict(row.unseen)} for row in found]


def _look(host: Host, engine: Engine, installation: Installation) -> InForce:
    """A program that only lies on the disk has nothing in force."""
    if installation.unit is None and installation.pid is None:
        return InForce()
    return engine.in_force(host, installation)


def _own(installation: Installation, in_force: InForce, owners: set[int]) -> InForce:
    """Without the answers of another server at the same address; before a container its manager may listen for it."""
    listener = in_force.listener_pid
    forwarded = installation.managed_by in CONTAINERS and listener not in owners
    if listener is None or listener in in_force.pids or forwarded:
        return in_force
    why = f"process {listener} listens at {in_force.url}, not this server"
    return InForce(pid=in_force.pid, unseen=(("arguments", why),))


def _row(installation: Installation, in_force: InForce) -> ServingNow:
    pid = in_force.pid or installation.pid
    running = pid is not None or installation.managed_by in CONTAINERS
    row = ServingNow(
        engine=installation.engine,
        version=installation.version_text or in_force.build,
        managed_by=installation.managed_by,
        unit=installation.unit,
        pid=pid,
        command=installation.command,
        detail=installation.detail,
        running=running,
        models=_models(in_force) if running else None,
        slots=in_force.slots,
        context_tokens_per_slot=in_force.context_tokens_per_slot,
        url=in_force.url if running else None,
        requests_in_flight=in_force.processing,
    )
    return replace(row, unseen=tuple(_unseen(row, installation, dict(in_force.unseen))))


def _models(in_force: InForce) -> tuple[str, ...] | None:
    """By the names that a request gives where the engine has such, else by their files."""
    loaded = in_force.loaded
    if loaded is None:
        return None if in_force.model_path is None else (in_force.model_path,)
    return tuple(one.name for one in loaded if one.name) or tuple(one.model_path for one in loaded if one.model_path)


def _unseen(row: ServingNow, installation: Installation, reasons: dict[str, str]) -> Iterator[tuple[str, str]]:
    if row.version is None:
        yield "version", installation.problem or "nothing names it"
    if not row.running:
        yield "serving", NOT_RUNNING
        return
    otherwise = "its process is not seen from here" if row.pid is None else "the engine does not tell it"
    for part, sources in _REASONS.items():
        if getattr(row, part) is None:
            yield part, next((reasons[source] for source in sources if source in reasons), otherwise)
