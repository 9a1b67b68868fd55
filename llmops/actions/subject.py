"""What is to be planned for: the engine on this machine, the model it is to serve, the hardware."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from llmops import engines
from llmops.actions.choosing import Candidate, Choice, choose
from llmops.actions.together import memory_of
from llmops.core.errors import UsageError
from llmops.core.hardware import Hardware
from llmops.core.model import ModelSpec
from llmops.core.overrides import GIVEN
from llmops.core.plan import Fixed, MemoryModel, Policy
from llmops.core.version import Version
from llmops.core.visible_devices import served_by
from llmops.core.workload import Workload
from llmops.engines import engine_named
from llmops.engines.base import Engine, Models
from llmops.engines.found import EMBEDDED, InForce, Installation, Served
from llmops.host import Host
from llmops.probe import read_hardware

ABSENT = "absent"
# Options that say what a machine is made of, or what an engine was left there.
_DESCRIBING = frozenset({"gpu", "ram", "cores", "kv-memory"})


def _as_probed(hardware: Hardware) -> Hardware:
    return hardware


@dataclass(frozen=True)
class PlanRequest:
    """What the user asks for.

    `hardware` replaces the probe; `override` changes single values of either. `bandwidth` measures memory bandwidth,
    unless it was given. `replan` computes afresh even where what is in force breaks no limit. `options` are the names
    of those that were given, `draft` the reference of a model that guesses tokens, `projector` the file of one that
    reads pictures or sound beside the model.
    """

    workload: Workload
    policy: Policy
    fixed: Fixed
    engine: str = "auto"
    engine_version: str | None = None
    models: tuple[str, ...] = ()
    draft: str | None = None
    projector: str | None = None
    options: tuple[str, ...] = ()
    hardware: Hardware | None = None
    override: Callable[[Hardware], Hardware] = _as_probed
    bandwidth: bool = False
    replan: bool = False


@dataclass(frozen=True)
class Subject:
    """The engine on this machine, the models it is to serve and the hardware, before any sizing.

    `described` is whether a person said what the hardware is: then what runs here says nothing of it.
    """

    engine: Engine
    installation: Installation
    in_force: InForce
    served: Served | None
    hardware: Hardware
    models: Models
    choice: Choice
    serves_the_model: bool = True
    described: bool = False

    @property
    def model(self) -> ModelSpec:
        """The slowest model, for which the speeds hold."""
        return self.models.chat[0]

    def memory(self, count: int) -> MemoryModel:
        """What a shape takes with so many models in memory."""
        here = None if self.described or not self.serves_the_model else self.served
        return memory_of(self.engine, self.hardware, self.models, self.version, count, served=here)

    @property
    def version(self) -> Version | None:
        """The version whose rules hold."""
        return self.installation.version


def find_subject(host: Host, request: PlanRequest) -> Subject:
    """Look at the machine once: engine, model, hardware."""
    from llmops.host.one_look import OneLook

    host = OneLook(host)
    choice = _chosen(host, request)
    engine, installation = choice.taken.engine, choice.taken.installation
    _require_own_words(engine, request)
    present = installation.managed_by != ABSENT
    in_force = engine.in_force(host, installation) if present else InForce()
    models = engine.models(host, request.models, installation, in_force)
    if request.draft is not None:
        models = replace(models, draft=engine.draft(host, request.draft))
    if request.projector is not None:
        models = _with_projector(host, models, request.projector)
    # Cards that are given replace those that are there: none need be looked for.
    cards = not {"gpu", "no-gpu"} & set(request.options)
    hardware = request.hardware or _probed(host, installation, in_force, cards=cards)
    served = engine.served(in_force, installation) if present else None
    hardware = request.override(hardware)
    return Subject(
        engine,
        installation,
        in_force,
        served,
        hardware,
        models,
        choice,
        serves_the_model=not request.models or any(_is_served(host, in_force, model) for model in models.chat),
        described=_is_described(request, hardware),
    )


def _with_projector(host: Host, models: Models, path: str) -> Models:
    """The model with the projector that was asked for; one that it loads already is the one that counts."""
    from llmops.models.gguf_projector import read_projector, with_projectors

    (model,) = models.chat
    if model.encoder_weights_bytes:
        said = f"{model.reference} has an encoder already: {path} is not counted"
        return replace(models, warnings=(*models.warnings, said))
    return replace(models, chat=(with_projectors(model, (read_projector(host, path),)),))


def _probed(host: Host, installation: Installation, in_force: InForce, *, cards: bool) -> Hardware:
    """The machine with the cards that this engine uses, as its build and its environment let it."""
    variables = in_force.environment if in_force.environment is not None else in_force.configured_environment
    hardware = read_hardware(
        host,
        cards=cards,
        engine_pids=in_force.pids,
        engine_environment=None if variables is None else dict(variables),
    )
    return served_by(hardware, installation.accelerators)


def _is_served(host: Host, in_force: InForce, model: ModelSpec) -> bool:
    """Whether the model asked for is the one that runs, by the files that the paths lead to."""
    if in_force.model_path is None:
        return False
    paths = {in_force.model_path, host.resolve(in_force.model_path)}
    return any(path in paths or host.resolve(path) in paths for path in (model.reference, *model.source_paths))


def _require_own_words(engine: Engine, request: PlanRequest) -> None:
    """Raise UsageError for an option or a cache type that another engine has."""
    foreign = [name for name in request.options if name in engine.foreign_options]
    if foreign:
        owners = [other.name for other in engines.ENGINES if foreign[0] not in other.foreign_options]
        raise UsageError(
            f"--{foreign[0]} is an option of {' and '.join(owners)}, not of {engine.name}",
            hint=f"leave it out, or plan with --engine {owners[0]}",
        )
    for cache_type in (request.fixed.cache_type_k, request.fixed.cache_type_v):
        if cache_type is not None and cache_type not in engine.cache_types:
            owners = [other.name for other in engines.ENGINES if cache_type in other.cache_types]
            eight_bits = next(name for name in ("q8_0", "fp8") if name in engine.cache_types)
            raise UsageError(
                f"{cache_type} is a cache type of {' and '.join(owners)}, not of {engine.name}",
                hint=f"its 8-bit type is {eight_bits}",
            )


def find_engine(host: Host, request: PlanRequest) -> tuple[Engine, Installation]:
    """The engine asked for, or the one that is chosen, as it is installed; planning goes on without any."""
    taken = _chosen(host, request).taken
    return taken.engine, taken.installation


def _chosen(host: Host, request: PlanRequest) -> Choice:
    """The engine asked for, or the best one installed; planning goes on without any, as if the newest were there.

    Where engine, version and machine are given, what is installed here is not looked at.
    """
    if request.engine != "auto" and request.engine_version is not None and _describes_another(request):
        choice = Choice(_absent(engine_named(request.engine)))
    elif request.engine != "auto":
        choice = _named(host, engine_named(request.engine))
    else:
        choice = choose(host, request.models) or Choice(_absent(engines.ENGINES[0]))
    taken = choice.taken
    return replace(choice, taken=replace(taken, installation=_of_version(taken, request.engine_version)))


def _named(host: Host, engine: Engine) -> Choice:
    found = engine.detect(host)
    return Choice(Candidate(engine, found[0], found[0].runs) if found else _absent(engine))


def _of_version(candidate: Candidate, asked: str | None) -> Installation:
    """The installation, or none of it where another version is asked for; raise UsageError for what is no version."""
    engine, installation = candidate.engine, candidate.installation
    if asked is None:
        return installation
    version = Version.parse_newest(asked)
    if version is None:
        raise UsageError(
            f"{asked!r} is not a version of {engine.name}",
            hint="give numbers, such as 11434 or 0.30.0",
        )
    # The embedded server has the version of its own package: another version is another program, on another machine.
    is_that_one = installation.version in {None, version} and installation.managed_by != EMBEDDED
    if is_that_one and installation.problem is None:
        return replace(installation, version=version, version_text=asked)
    return replace(absent(engine), version=version, version_text=asked)


def _describes_another(request: PlanRequest) -> bool:
    """Whether the options themselves say what the machine is."""
    return request.hardware is not None or bool(_DESCRIBING & set(request.options))


def _absent(engine: Engine) -> Candidate:
    return Candidate(engine, absent(engine), serves=False)


def absent(engine: Engine) -> Installation:
    """An engine that is not on this machine."""
    return Installation(engine.name, ABSENT, (engine.name,), None, None, None, detail="not installed")


def _is_described(request: PlanRequest, hardware: Hardware) -> bool:
    """Whether the user says himself what the machine is: it may be another one than this."""
    decisive = {"memory.total_bytes", "gpus", "cpu.physical_cores"}
    return request.hardware is not None or any(
        row.source == GIVEN and row.quantity in decisive for row in hardware.observations
    )
