"""Making a plan for a machine: find the engine, read model and hardware, recall what was measured, size."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from llmops.actions.keep import Kept, keep_applied, keep_served
from llmops.actions.together import load_more, memory_of
from llmops.core.errors import UsageError
from llmops.core.hardware import Hardware
from llmops.core.model import ModelSpec
from llmops.core.plan import Fixed, MemoryModel, Plan, Policy
from llmops.core.problem import Problem
from llmops.core.sizing import size, size_explicit
from llmops.core.throughput import Rates, predict_rates, rates_from_measured
from llmops.core.version import Version
from llmops.core.visible_devices import served_by
from llmops.core.workload import Workload
from llmops.engines import ENGINES, engine_named
from llmops.engines.base import Engine, InForce, Installation, Models, Served
from llmops.host import Host
from llmops.probe import read_hardware
from llmops.probe.bandwidth import read_bandwidth
from llmops.state import Recalled, read_applied_plan, read_rates, subject

ABSENT = "absent"
EMBEDDED = "embedded"


def _as_probed(hardware: Hardware) -> Hardware:
    return hardware


@dataclass(frozen=True)
class PlanRequest:
    """What the user asks for.

    `hardware` replaces the probe; `override` changes single values of either. `bandwidth` measures memory bandwidth,
    unless it was given. `replan` computes afresh even where what is in force breaks no limit.
    """

    workload: Workload
    policy: Policy
    fixed: Fixed
    engine: str = "auto"
    engine_version: str | None = None
    models: tuple[str, ...] = ()
    hardware: Hardware | None = None
    override: Callable[[Hardware], Hardware] = _as_probed
    bandwidth: bool = False
    replan: bool = False


@dataclass(frozen=True)
class Planned:
    """A plan and everything it was made from; `kept` says why what is in force stays, None for new numbers.

    `changes_nothing` is True where the user's own configuration breaks no limit, so that no file is rendered.
    """

    engine: Engine
    installation: Installation
    in_force: InForce
    hardware: Hardware
    model: ModelSpec
    plan: Plan
    kept: str | None = None
    changes_nothing: bool = False


@dataclass(frozen=True)
class Subject:
    """The engine on this machine, the models it is to serve and the hardware, before any sizing."""

    engine: Engine
    installation: Installation
    in_force: InForce
    served: Served | None
    hardware: Hardware
    models: Models

    @property
    def model(self) -> ModelSpec:
        """The slowest model, for which the speeds hold."""
        return self.models.chat[0]

    def memory(self, count: int) -> MemoryModel:
        """What a shape takes with so many models in memory."""
        return memory_of(self.engine, self.hardware, self.models, self.version, count)

    @property
    def version(self) -> Version | None:
        """The version whose rules hold."""
        return self.installation.version


def make_plan(host: Host, request: PlanRequest, *, progress: Callable[[str], None]) -> Planned:
    """The plan for this machine; raise what reading its parts raises, and DoesNotFit."""
    found = _measured_if_needed(host, request, find_subject(host, request), progress)
    problem, warnings = _problem(host, request, found)
    kept = None if request.replan else _keep(host, request, found, problem)
    if kept is None:
        plan = load_more(problem, size(problem), found.models, found.memory)
        return _planned(found, plan, warnings)
    planned = _planned(found, kept.plan, warnings)
    return replace(planned, kept=kept.reason, changes_nothing=kept.is_users_own)


def size_one(host: Host, request: PlanRequest, *, progress: Callable[[str], None]) -> Planned:
    """The memory and capacity of one explicit configuration; engine defaults for what is not given."""
    found = _measured_if_needed(host, request, find_subject(host, request), progress)
    problem, warnings = _problem(host, request, found)
    return _planned(found, size_explicit(problem), warnings)


def _planned(found: Subject, plan: Plan, warnings: tuple[str, ...]) -> Planned:
    told = replace(plan, warnings=(*plan.warnings, *warnings))
    return Planned(found.engine, found.installation, found.in_force, found.hardware, found.model, told)


def find_subject(host: Host, request: PlanRequest) -> Subject:
    """Look at the machine once: engine, model, hardware."""
    engine, installation = find_engine(host, request)
    present = installation.managed_by != ABSENT
    in_force = engine.in_force(host, installation) if present else InForce()
    models = engine.models(host, request.models, installation, in_force)
    hardware = request.hardware or _probed(host, installation, in_force)
    served = engine.served(in_force, installation) if present else None
    return Subject(engine, installation, in_force, served, request.override(hardware), models)


def _probed(host: Host, installation: Installation, in_force: InForce) -> Hardware:
    """The machine with the cards that this engine uses, as its build and its environment let it."""
    variables = in_force.environment if in_force.environment is not None else in_force.configured_environment
    hardware = read_hardware(
        host,
        engine_pids=in_force.pids,
        engine_environment=None if variables is None else dict(variables),
    )
    return served_by(hardware, installation.accelerators)


def _measured_if_needed(host: Host, request: PlanRequest, found: Subject, progress: Callable[[str], None]) -> Subject:
    """Measure memory bandwidth where it was asked for and nothing better is known: no rates, no given bandwidth."""
    hardware = found.hardware
    if not request.bandwidth or request.hardware or hardware.bandwidth or _recalled(host, found).rates:
        return found
    progress("measuring memory bandwidth (about 2 s)")
    bandwidth, observations = read_bandwidth(host, hardware.cpu, hardware.memory)
    measured = replace(hardware, bandwidth=bandwidth, observations=(*hardware.observations, *observations))
    return replace(found, hardware=measured)


def find_engine(host: Host, request: PlanRequest) -> tuple[Engine, Installation]:
    """The engine asked for, or the best one installed; planning goes on without any, as if the newest were there.

    Of several, the one that runs is taken, then one that a unit starts, then a program that only lies on the disk.
    """
    wanted = ENGINES if request.engine == "auto" else (engine_named(request.engine),)
    installations = [(engine, found) for engine in wanted for found in engine.detect(host)[:1]]
    installations.sort(key=lambda pair: _rank(pair[1]))
    engine, installation = installations[0] if installations else (wanted[0], absent(wanted[0]))
    if request.engine_version is None:
        return engine, installation
    version = Version.parse(request.engine_version)
    if version is None:
        raise UsageError(
            f"{request.engine_version!r} is not a version of {engine.name}", hint="give numbers, such as 11434"
        )
    # The embedded server has the version of its own package: another version is another program, on another machine.
    is_that_one = installation.version in {None, version} and installation.managed_by != EMBEDDED
    if is_that_one and installation.problem is None:
        return engine, replace(installation, version=version, version_text=request.engine_version)
    return engine, replace(absent(engine), version=version, version_text=request.engine_version)


def _rank(installation: Installation) -> tuple[bool, bool, bool, bool]:
    """Least first; those that are alike stay in the order of ENGINES."""
    managed_by = installation.managed_by
    return installation.problem is not None, installation.pid is None, managed_by != "unit", managed_by == EMBEDDED


def absent(engine: Engine) -> Installation:
    """An engine that is not on this machine."""
    return Installation(engine.name, ABSENT, (engine.name,), None, None, None, detail="not installed")


def _problem(host: Host, request: PlanRequest, found: Subject) -> tuple[Problem, tuple[str, ...]]:
    hardware, model, installation = found.hardware, found.model, found.installation
    engine, version = found.engine, found.version
    on_gpu = bool(hardware.gpus) and installation.accelerators != ()
    rates, warnings = _rates(host, request, found, on_gpu=on_gpu)
    if not on_gpu and not (hardware.bandwidth and hardware.bandwidth.read_bytes_per_second) and rates.measured is None:
        warnings.append("memory bandwidth is assumed, so speeds are rough: `llmops tune` measures it")
    if hardware.gpus and not on_gpu:
        warnings.append("this build of the engine uses no card: the plan is for the processor alone")
    preferred = None
    if found.served and found.served.context_was_chosen:
        preferred = found.served.values.context_tokens
    problem = Problem(
        engine=found.engine.name,
        engine_version=installation.version_text,
        hardware=hardware,
        model=model,
        workload=request.workload,
        policy=request.policy,
        fixed=request.fixed,
        rates=rates,
        memory=found.memory(1),
        on_gpu=on_gpu,
        most_slots=engine.most_slots_of(model, version),
        preferred_context_tokens=preferred,
        shaped=lambda shape: engine.shaped(shape, model, version),
    )
    return problem, (*found.models.warnings, *warnings)


def _rates(host: Host, request: PlanRequest, found: Subject, *, on_gpu: bool) -> tuple[Rates, list[str]]:
    """Predicted rates, replaced by those that an earlier verification measured on this machine."""
    predicted = predict_rates(found.hardware, found.model, request.workload, on_gpu=on_gpu)
    recalled = _recalled(host, found)
    warnings = [recalled.warning] if recalled.warning else []
    if recalled.rates is None:
        return predicted, warnings
    return rates_from_measured(recalled.rates, predicted), warnings


def _recalled(host: Host, found: Subject) -> Recalled:
    return read_rates(host, subject(found.hardware, found.model, found.engine.name, found.installation.version_text))


def _keep(host: Host, request: PlanRequest, found: Subject, problem: Problem) -> Kept | None:
    if found.installation.managed_by == ABSENT:
        return None
    applied = read_applied_plan(host, found.engine.name).plan
    if applied is not None:
        count = applied.loaded_models
        return keep_applied(applied, request.fixed, replace(problem, memory=found.memory(count), loaded_models=count))
    return keep_served(found.served, request.fixed, problem) if found.served else None
