"""What every engine module provides. Adding an engine: one module, its templates, one name in ENGINES."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Protocol

from llmops.core.model import CACHE_TYPE_BLOCKS

if TYPE_CHECKING:
    from llmops.core.files import RenderedFile
    from llmops.core.hardware import Hardware
    from llmops.core.model import ModelSpec
    from llmops.core.plan import Fixed, MemoryModel, Plan, Shape
    from llmops.core.problem import Choices
    from llmops.core.verification import Check, Expectation
    from llmops.core.version import Version
    from llmops.engines.found import InForce, Installation, Served
    from llmops.engines.inventory import Inventory, Place
    from llmops.host import Host


@dataclass(frozen=True)
class Setting:
    """One engine setting in the engine's own words: a flag with its value, or an environment variable."""

    name: str
    value: str | None
    environment: bool = False


def setting_words(settings: Iterable[Setting]) -> tuple[str, ...]:
    """Settings as the words of a command line; variables are none of it."""
    flags = (one for one in settings if not one.environment)
    return tuple(word for one in flags for word in ((one.name,) if one.value is None else (one.name, one.value)))


# Options (without their dashes) of one engine or of some, which the others have no setting for.
VLLM_OPTIONS = frozenset({
    "gpu-memory-utilization", "kv-memory", "tensor-parallel", "pipeline-parallel", "nodes", "max-num-batched-tokens",
    "data-parallel", "expert-parallel",
    "enable-prefix-caching", "enforce-eager",
})  # fmt: skip
GGML_OPTIONS = frozenset({
    "batch-size", "ubatch-size", "cache-type-k", "cache-type-v", "flash-attn", "kv-unified", "repack", "cache-ram",
    "ctx-checkpoints", "swa-full", "gpu-layers", "n-cpu-moe", "tensor-split",
    "mmproj",
})  # fmt: skip
GGML_CACHE_TYPES = frozenset(name for name in CACHE_TYPE_BLOCKS if name != "fp8")

# What decides which parts of a model lie where; Ollama leaves it to the engine that it starts.
PLACEMENT_OPTIONS = frozenset({"gpu-layers", "n-cpu-moe", "tensor-split"})


@dataclass(frozen=True)
class Models:
    """What an engine is to serve: the model that is slowest first, and why others are left out.

    `companions` are (name, bytes) of what is loaded beside them and answers nobody, such as models for embeddings;
    `draft` guesses tokens for the one model.
    """

    chat: tuple[ModelSpec, ...]
    companions: tuple[tuple[str, int], ...] = ()
    warnings: tuple[str, ...] = ()
    draft: ModelSpec | None = None


@dataclass(frozen=True)
class Contradiction:
    """A setting in a file that llmops does not own which says otherwise than the plan.

    `source` is drop_in or environment_file; `setting` is the engine's own word for it.
    """

    path: str
    source: str
    setting: str
    theirs: str
    ours: str

    def __str__(self) -> str:
        return f"{self.path} sets {self.setting} to {self.theirs!r}, the plan to {self.ours!r}"


class Health(str, Enum):
    """What a server says of itself while it starts: nobody answers, loading, ready, or an answer of somebody else."""

    DOWN = "down"
    LOADING = "loading"
    READY = "ready"
    NONSENSE = "nonsense"


@dataclass(frozen=True)
class Launch:
    """How to start the engine as a child process for a trial, and how long it may take to end after SIGTERM."""

    argv: tuple[str, ...]
    environment: Mapping[str, str]
    url: str
    stop_seconds: float = 10.0


class Engine(Protocol):
    """The small protocol that actions rely on; nothing outside an engine's module knows its flags.

    `cache_types` are those that it has, `foreign_options` those of other engines. One that cannot be configured is
    sized and planned for, and only where no other is installed or it is asked for by name. `forms` are the kinds of
    models that it serves as they are (models.form_of).
    """

    name: str
    install_steps: tuple[str, ...]
    most_slots: int
    cache_types: frozenset[str]
    forms: frozenset[str]
    foreign_options: frozenset[str]
    can_be_configured: bool

    def memory_model(
        self,
        hardware: Hardware,
        model: ModelSpec,
        version: Version | None,
        draft: ModelSpec | None = None,
        served: Served | None = None,
    ) -> MemoryModel:
        """What a shape takes on this machine, by the rules of this version (None: the newest known).

        `served` is what serves this model here now: what it found out at its start stands for what is predicted.
        """
        ...

    def choices(self, hardware: Hardware, model: ModelSpec, version: Version | None, fixed: Fixed) -> Choices:
        """What a search may choose from; raise UsageError for fixed values that it refuses whatever the memory."""
        ...

    def uses_cards(self, hardware: Hardware, installation: Installation, fixed: Fixed) -> bool:
        """Whether it computes on cards here."""
        ...

    def draft(self, host: Host, reference: str) -> ModelSpec:
        """The model that guesses tokens; raise what reading it raises, UsageError for one of a foreign kind."""
        ...

    def require_configurable(self, model: ModelSpec | None = None) -> None:
        """Raise Unsupported where llmops cannot make files that serve this model (None: any model) with it."""
        ...

    def why_not(self, model: ModelSpec) -> str | None:
        """Why no known version of it can serve this model, whatever the machine; None where one can, or may."""
        ...

    def models(self, host: Host, references: tuple[str, ...], installation: Installation, in_force: InForce) -> Models:
        """The models asked for, or those that it serves or could serve where none is.

        Raise UsageError where that is none, or more than it can serve, and what reading a model raises.
        """
        ...

    def shaped(self, shape: Shape, model: ModelSpec, version: Version | None) -> Shape:
        """What the engine makes of a shape where it decides parts of it by itself."""
        ...

    def most_slots_of(self, model: ModelSpec, version: Version | None) -> int:
        """How many requests it serves at once with this model at most."""
        ...

    def prepare(self, host: Host, plan: Plan, in_force: InForce) -> bool:
        """Make a server that loads models on demand load the plan's; True where it did, and must be looked at again.

        Raise EngineNotAnswering where it cannot be loaded.
        """
        ...

    def model_name(self, plan: Plan, in_force: InForce | None = None) -> str | None:
        """The name that a request must give, as the server that runs says it; None where it needs none."""
        ...

    def load_checks(self, host: Host, plan: Plan, in_force: InForce) -> tuple[Check, ...]:
        """What only this engine tells while it serves test requests."""
        ...

    def served(self, in_force: InForce, installation: Installation) -> Served | None:
        """What runs now in a plan's own terms; None where it cannot be told."""
        ...

    def with_defaults(self, fixed: Fixed, model: ModelSpec, installation: Installation, hardware: Hardware) -> Fixed:
        """Every value that is not fixed as this version chooses it by itself."""
        ...

    def detect(self, host: Host) -> tuple[Installation, ...]:
        """Every installation found: best candidate for tuning first."""
        ...

    def in_force(self, host: Host, installation: Installation) -> InForce:
        """What is configured and what really runs."""
        ...

    def settings(self, plan: Plan, installation: Installation, in_force: InForce | None = None) -> tuple[Setting, ...]:
        """The one list that feeds the rendered files, the launch and the expectations.

        With `in_force`, what the person chose and no plan decides (address, port, model by another name) is kept.
        """
        ...

    def warnings(self, plan: Plan, installation: Installation, in_force: InForce | None = None) -> tuple[str, ...]:
        """What could not be set, was translated or works against the plan."""
        ...

    def files(self, plan: Plan, installation: Installation, in_force: InForce) -> tuple[RenderedFile, ...]:
        """The files that make the plan live under systemd; a complete unit where the installation has none."""
        ...

    def options_file(self, plan: Plan, installation: Installation) -> RenderedFile | None:
        """The planned options as a file that the engine itself reads; None for one that reads none."""
        ...

    def machine_files(
        self,
        plan: Plan,
        installation: Installation,
        in_force: InForce,
        inventory: Inventory,
        backend: str,
        *,
        options_file: bool,
    ) -> tuple[RenderedFile, ...] | None:
        """What each machine of one server on several needs, and the order of start; None for one that runs on one."""
        ...

    def replica_files(
        self, plan: Plan, installation: Installation, in_force: InForce, place: Place
    ) -> tuple[RenderedFile, ...]:
        """What one of several equal servers needs under systemd, listening at this place for its clients alone."""
        ...

    def contradictions(
        self, host: Host, plan: Plan, installation: Installation, in_force: InForce
    ) -> tuple[Contradiction, ...]:
        """What a person's drop-ins and environment files set to another value than the plan does."""
        ...

    def expectations(
        self, plan: Plan, installation: Installation, in_force: InForce | None = None
    ) -> tuple[Expectation, ...]:
        """What must be seen once the plan is live."""
        ...

    def checks(
        self, expectations: tuple[Expectation, ...], installation: Installation, in_force: InForce
    ) -> tuple[Check, ...]:
        """Each expectation compared with what was seen; what could not be seen is not evaluated."""
        ...

    def health(self, host: Host, url: str) -> Health:
        """Whether the server is ready to serve."""
        ...

    def require_usable(self, installation: Installation) -> None:
        """Raise Misconfigured for a program that does not run, TooOld for one that lacks what every plan needs."""
        ...

    def launch(self, plan: Plan, installation: Installation, port: int) -> Launch:
        """The same settings as a child process on loopback."""
        ...

    def last_words(self, exit_code: int, output: str) -> str:
        """Why a child that ended early did so, and what to do, from its exit code and log."""
        ...

    def port_was_taken(self, output: str) -> bool:
        """Whether the log of a child that ended says that another program has its port."""
        ...

    def log_checks(self, plan: Plan, output: str) -> tuple[Check, ...]:
        """What the log of a trial says of the plan, above all how much cache was really allocated and where."""
        ...
