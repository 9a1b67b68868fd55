"""The front of a plan: what it should say, made live through the same journal as an engine, verified, kept."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass, field

from llmops import checkpoint, front, systemd
from llmops.actions import recovery
from llmops.actions.apply import Applied, start_again, unit_before, verified
from llmops.actions.target import this_llmops
from llmops.core.errors import EngineNotAnswering, Misconfigured, ProblemsFound, UnreadableInput
from llmops.core.files import Change
from llmops.core.plan import Plan
from llmops.core.serialization import decode, encode
from llmops.core.verification import VerificationReport
from llmops.engines import ENGINES
from llmops.engines.base import Engine
from llmops.engines.found import InForce, Installation
from llmops.front import Address, FrontSpec
from llmops.host import Host, MutableHost
from llmops.state import read_applied_document

_READY_SECONDS = 30.0
_KEY = "front"
_APPLY_AGAIN = "apply the front again: llmops apply --front haproxy --listen ADDRESS:PORT; or go back: llmops rollback"


def spec_of(plan: Plan, in_force: InForce, listen: Address | None) -> FrontSpec:
    """The front of a plan before the engine where it listens now, or where it would by default.

    `listen` None is for a front that is only shown.
    """
    server = front.address_of_url(in_force.url or front.traffic_of(plan.engine).default_url)
    return front.front_spec(plan, server, listen or front.example_listen(server))


def slots_in_force(engine: Engine, installation: Installation, in_force: InForce) -> int | None:
    """How many the engine serves at once, None where it does not say.

    Its settings are asked first: an Ollama that has unloaded its model, or loaded one for embeddings, shows no slots.
    """
    served = engine.served(in_force, installation)
    return in_force.slots if served is None else served.values.slots


def require_engine(plan: Plan, in_force: InForce, slots: int | None) -> None:
    """Raise where the engine does not run as planned: a front with other numbers than the engine's bounds nothing."""
    if in_force.url is None or slots is None:
        raise EngineNotAnswering(
            f"{plan.engine} does not serve, so nothing would answer behind the front",
            hint="make the plan live first: llmops tune --apply",
        )
    if slots != plan.slots:
        raise ProblemsFound(
            f"{plan.engine} serves {slots} at once and the plan says {plan.slots}; nothing was changed",
            hint="make the plan live first: llmops tune --apply; then apply the front",
        )


def applied_front(host: Host) -> FrontSpec | None:
    """The front that llmops applied last and nobody took back; raise UnreadableInput for a damaged memory of it."""
    document, problem = read_applied_document(host, front.NAME)
    if problem is not None:
        raise UnreadableInput(problem, hint=_APPLY_AGAIN)
    if _KEY not in document:
        return None
    try:
        return decode(FrontSpec, document[_KEY], "the applied front")
    except (UnreadableInput, ValueError) as why:
        told = why.message if isinstance(why, UnreadableInput) else str(why)
        raise UnreadableInput(
            f"what another llmops remembered of the front cannot be read here: {told}", hint=_APPLY_AGAIN
        ) from None


def verify_front(host: Host, spec: FrontSpec, *, engine_slots: int | None) -> VerificationReport:
    """Everything of the front that can be seen; nothing is changed and no request takes a slot."""
    return VerificationReport(front.front_checks(host, spec, engine_slots=engine_slots))


def verify_applied_front(host: Host) -> VerificationReport | None:
    """The front that llmops applied, against what is in force; None where it applied none."""
    spec = applied_front(host)
    return None if spec is None else verify_front(host, spec, engine_slots=_slots_of(host, spec.engine))


def _slots_of(host: Host, name: str) -> int | None:
    """The slots that the engine really has, None where it does not say."""
    for engine in ENGINES:
        if engine.name == name:
            for installation in engine.detect(host)[:1]:
                return slots_in_force(engine, installation, engine.in_force(host, installation))
    return None


def ways_around(host: Host, spec: FrontSpec) -> tuple[str, ...]:
    """Warnings: who may connect to the front, and who may go around it to the engine itself."""
    said = []
    if not spec.listen.is_loopback:
        said.append(
            f"whoever reaches {spec.listen} may use {front.traffic_of(spec.engine).powers}: the front asks for no "
            "password and speaks no TLS"
        )
    ports = {server.address.port for server in spec.servers}
    open_to = [
        str(found)
        for socket in host.listening_sockets()
        if socket.port in ports and not (found := Address(socket.address, socket.port)).is_loopback
    ]
    if open_to:
        said.append(f"{spec.engine} itself listens at {', '.join(open_to)}: who connects there goes around the queue")
    return tuple(said)


@dataclass(frozen=True)
class FrontOptions:
    """`executable` is how the boot unit starts this llmops."""

    executable: tuple[str, ...] = field(default_factory=this_llmops)


def apply_front(
    host: MutableHost,
    spec: FrontSpec,
    *,
    options: FrontOptions,
    engine_slots: int | None,
    progress: Callable[[str], None],
) -> Applied:
    """Make the front live, verified, or leave the machine as it was.

    Raise Unsupported, NoPermission or Locked before anything is changed, RolledBack or RollbackFailed afterwards.
    A front that already runs like this is left alone.
    """
    systemd.require_systemd(host)
    recovery.require_root(host, "change what runs before the engine")
    program = front.require_program(host)
    with checkpoint.locked(host):
        unfinished = checkpoint.recover(host)
        if unfinished is not None:
            progress(f"a change that was cut short (number {unfinished.identifier}) was taken back first")
        applied = _Run(host, spec, program, options, engine_slots, progress).make_live()
    return dataclasses.replace(applied, recovered=None if unfinished is None else unfinished.identifier)


@dataclass(frozen=True)
class _Run:
    """One apply with the lock held."""

    host: MutableHost
    spec: FrontSpec
    program: front.Program
    options: FrontOptions
    engine_slots: int | None
    progress: Callable[[str], None]

    def make_live(self) -> Applied:
        host = self.host
        state = systemd.state(host, front.UNIT)
        if state.load_state == "masked":
            raise Misconfigured(f"{front.UNIT} is masked", hint=f"allow it to start: systemctl unmask {front.UNIT}")
        files = (
            recovery.recovery_file(host, self.options.executable),
            front.unit_file(self.spec, self.program.path),
            front.configuration_file(self.spec),
        )
        changes = checkpoint.read_changes(host, files)
        if not changes and state.active and not state.need_daemon_reload and front.serves_as(host, self.spec):
            return Applied(changed=False, unit=front.UNIT)
        self._require_free_port()
        record = self._record(state, changes)
        # A changed unit needs a new process; a changed configuration alone is taken over without a gap.
        anew = not state.active or state.need_daemon_reload or front.UNIT_PATH in {change.path for change in changes}
        report = checkpoint.carry_out(
            host,
            record,
            {_KEY: encode(self.spec)},
            lambda: self._bring_up(anew=anew),
            reload=state.need_daemon_reload,
        )
        return Applied(
            changed=True,
            unit=front.UNIT,
            changes=changes,
            checkpoint=record.identifier,
            restarted=anew,
            report=report,
        )

    def _require_free_port(self) -> None:
        """Two HAProxy may hold one port together and share its clients by chance, so none may be there before."""
        taken = front.port_taken_by(self.spec.listen, self.host.listening_sockets())
        if taken is None:
            return
        groups = {process.pid: process.control_group or "" for process in self.host.processes()}
        if taken.pid is not None and groups.get(taken.pid, "").endswith(f"/{front.UNIT}"):
            return
        holder = "another program" if taken.pid is None else f"process {taken.pid}"
        raise Misconfigured(
            f"{holder} already listens at {Address(taken.address, taken.port)}; nothing was changed",
            hint="choose another port with --listen, or stop that program",
        )

    def _record(self, state: systemd.UnitState, changes: tuple[Change, ...]) -> checkpoint.Checkpoint:
        new_paths = tuple(change.path for change in changes if change.before is None)
        enable = [recovery.UNIT] if recovery.UNIT_PATH in new_paths else []
        if state.file_state != "enabled":
            enable.append(front.UNIT)
        spec = self.spec
        return checkpoint.Checkpoint(
            identifier=checkpoint.next_identifier(self.host),
            kind="apply",
            engine=front.NAME,
            unit=unit_before(front.UNIT, state),
            started_at_seconds=self.host.now(),
            changes=changes,
            directories=checkpoint.parents_missing(self.host, new_paths),
            enable=tuple(enable),
            summary=f"front at {spec.listen}: {spec.slots} served, {spec.queue_requests} waiting",
            reloadable=True,
        )

    def _bring_up(self, *, anew: bool) -> VerificationReport:
        front.checked_configuration(self.host, self.program)
        if anew:
            self.progress(f"starting {front.UNIT} at {self.spec.listen}")
            start_again(self.host, front.UNIT)
        else:
            self.progress(f"giving {front.UNIT} its new configuration; streams go on")
            systemd.reload_or_restart(self.host, front.UNIT)
        systemd.wait_until_ready(
            self.host, front.UNIT, lambda: front.serves_as(self.host, self.spec), timeout_seconds=_READY_SECONDS
        )
        self.progress(f"{front.UNIT} serves; verifying")
        return verified(verify_front(self.host, self.spec, engine_slots=self.engine_slots))
