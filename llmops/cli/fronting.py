"""What the commands share for the front: the options that belong together, and how its apply is reported."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from llmops.cli.applying import applied_data, applied_text
from llmops.cli.planning import planned_for
from llmops.cli.result import Result, Status, failed
from llmops.core.documents import plan_document
from llmops.core.errors import Interrupted, LlmopsError, UsageError
from llmops.core.serialization import encode

if TYPE_CHECKING:
    from llmops.actions.apply import Applied
    from llmops.actions.plan import Planned
    from llmops.cli.session import Session
    from llmops.cli.settings import Settings
    from llmops.core.files import RenderedFile
    from llmops.core.plan import Plan
    from llmops.engines.base import Engine
    from llmops.engines.found import InForce, Installation
    from llmops.engines.inventory import Inventory
    from llmops.front import FrontSpec
    from llmops.host import MutableHost


@dataclass(frozen=True)
class _Behind:
    """The engine behind the front as it runs now, and its plan."""

    engine: Engine
    installation: Installation
    in_force: InForce
    plan: Plan


_NOT_FOR_A_FRONT = ("take_over", "install_unit", "drain_seconds")


def require_front(front: str | None, listen: str | None) -> None:
    """Raise UsageError for an address without anything that could listen there."""
    if listen is not None and front is None:
        raise UsageError("--listen is for the front only", hint="add --front haproxy, or leave --listen out")


def replica_files(
    planned: Planned, settings: Settings, inventory: Inventory, listen: str | None, affinity_header: str | None
) -> tuple[tuple[RenderedFile, ...], tuple[str, ...]]:
    """The files of several servers and the front before them, and what to beware of."""
    from llmops.actions import replicas
    from llmops.front import parse_listen

    spec = replicas.replica_spec(
        planned.plan,
        inventory,
        None if listen is None else parse_listen(listen),
        queue_requests=settings.value("queue"),
        affinity_header=affinity_header,
    )
    warning = replicas.too_few(planned.plan, len(inventory.machines))
    return replicas.replica_files(planned, spec, inventory), () if warning is None else (warning,)


def apply_front_planned(
    host: MutableHost, session: Session, flags: Mapping[str, Any], listen: str | None, *, replan: bool
) -> Result:
    """Apply the front of the plan that the options ask for, or of the plan in force."""
    from llmops.actions.recovery import recover_first

    _require_alone(flags, listen)
    recovered = recover_first(host, session.progress)
    planned, _ = planned_for(host, flags, session, live=True, replan=replan)
    if planned.unclear is not None:
        raise planned.unclear
    behind = _Behind(planned.engine, planned.installation, planned.in_force, planned.plan)
    return _apply(host, session, behind, listen=str(listen), recovered=recovered)


def apply_front_saved(
    host: MutableHost, session: Session, flags: Mapping[str, Any], listen: str | None, plan_file: str
) -> Result:
    """Apply the front of a saved plan."""
    from llmops.actions.recovery import recover_first
    from llmops.cli.saved import installed_for, plan_from_file

    _require_alone(flags, listen)
    plan = plan_from_file(plan_file)
    recovered = recover_first(host, session.progress)
    engine, installation = installed_for(host, plan)
    behind = _Behind(engine, installation, engine.in_force(host, installation), plan)
    return _apply(host, session, behind, listen=str(listen), recovered=recovered)


def _require_alone(flags: Mapping[str, Any], listen: str | None) -> None:
    if listen is None:
        raise UsageError(
            "--front needs --listen: llmops opens no port that nobody named",
            hint="for this machine only: --listen 127.0.0.1:8000; for others: the address of a network of this machine",
        )
    typed = [f"--{name.replace('_', '-')}" for name in _NOT_FOR_A_FRONT if flags[name]]
    if typed:
        raise UsageError(f"{', '.join(typed)} is for the engine, not for its front", hint="leave it out")


def _apply(host: MutableHost, session: Session, behind: _Behind, *, listen: str, recovered: int | None) -> Result:
    from llmops.actions.front import FrontOptions, apply_front, require_engine, slots_in_force, spec_of, ways_around
    from llmops.front import parse_listen

    data: dict[str, Any] = {**plan_document(behind.plan), "recovered": recovered}
    try:
        slots = slots_in_force(behind.engine, behind.installation, behind.in_force)
        require_engine(behind.plan, behind.in_force, slots)
        spec = spec_of(behind.plan, behind.in_force, parse_listen(listen))
        data["front"] = encode(spec)
        applied = apply_front(host, spec, options=FrontOptions(), engine_slots=slots, progress=session.progress)
    except (LlmopsError, Interrupted) as error:
        return failed("apply", error, data=data)
    again = recovered if applied.recovered is None else applied.recovered
    warnings = ways_around(host, spec)
    data |= {**applied_data(applied), "recovered": again, "warnings": [*data.get("warnings", []), *warnings]}
    status = Status.CHANGED if applied.changed or again is not None else Status.OK
    return Result("apply", status, data=data, text=lambda: front_text(spec, applied, warnings, verbose=session.verbose))


def front_text(spec: FrontSpec, applied: Applied, warnings: tuple[str, ...], *, verbose: bool) -> str:
    """What was done, who listens where now, and what to beware of, for people."""
    from llmops.cli.text.layout import caution, sections, wrapped

    who = "this machine only" if spec.listen.is_loopback else "other machines too"
    engines = ", ".join(str(server.address) for server in spec.servers)
    listens = (
        f"{applied.unit} (HAProxy) listens at {spec.listen}, for {who}; {spec.engine} stays at {engines}. "
        f"{spec.slots} are served at once, {spec.queue_requests} may wait {spec.queue_seconds} s, "
        "and one more is refused at once with 503."
    )
    said = [wrapped(f"{caution('warning')}: {warning}") for warning in warnings]
    return sections((applied_text(applied, verbose=verbose), wrapped(listens, first="", rest=""), "\n".join(said)))
