"""vLLM behind the engine protocol; what only some commands need is imported where it is used."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from llmops.core.errors import Unsupported
from llmops.core.hardware import Hardware
from llmops.core.model import ModelSpec
from llmops.core.plan import Fixed, MemoryModel, Plan, Shape
from llmops.core.version import Version
from llmops.engines.base import GGML_OPTIONS, Contradiction, Health, Launch, Models, Setting
from llmops.engines.found import InForce, Installation, Served
from llmops.host import Host

if TYPE_CHECKING:
    from llmops.core.files import RenderedFile
    from llmops.core.problem import Choices
    from llmops.core.verification import Check, Expectation
    from llmops.engines.inventory import Inventory, Place


class Vllm:
    """vLLM's server, by its command line."""

    name = "vllm"
    # It has no limit of its own; so many at once would need as many tokens in every step.
    most_slots = 65_536
    cache_types = frozenset({"f16", "bf16", "fp8"})
    forms = frozenset({"checkpoint"})
    foreign_options = GGML_OPTIONS
    can_be_configured = True
    install_steps: tuple[str, ...] = (
        "in an environment of its own: python3 -m venv /opt/vllm && /opt/vllm/bin/pip install vllm",
        "what it needs: https://docs.vllm.ai/en/latest/getting_started/installation/",
    )

    def memory_model(
        self,
        hardware: Hardware,
        model: ModelSpec,
        version: Version | None,
        draft: ModelSpec | None = None,
        served: Served | None = None,
    ) -> MemoryModel:
        """The memory of each card, with the pool of its cache."""
        from llmops.engines.vllm.memory import memory_model

        return memory_model(hardware, model, version, draft, served)

    def why_not(self, model: ModelSpec) -> str | None:
        """An architecture that its newest known release does not have."""
        from llmops.engines.vllm.supported import why_no_release

        return why_no_release(model)

    def models(self, host: Host, references: tuple[str, ...], installation: Installation, in_force: InForce) -> Models:
        """The one model asked for, else the one that is served."""
        from llmops.engines.vllm.models import choose_models

        return choose_models(host, references, installation, in_force)

    def draft(self, host: Host, reference: str) -> ModelSpec:
        """A checkpoint too."""
        from llmops.engines.vllm.models import checkpoint
        from llmops.models import read_model

        return checkpoint(read_model(host, reference))

    def shaped(self, shape: Shape, model: ModelSpec, version: Version | None) -> Shape:
        """It does what it is told; engines side by side are told one number of requests for each."""
        return replace(shape, slots=shape.slots_of_each * shape.data_parallel)

    def choices(self, hardware: Hardware, model: ModelSpec, version: Version | None, fixed: Fixed) -> Choices:
        """Its own cache types and batches, and the divisions of the model that its heads allow."""
        from llmops.engines.vllm.possible import choices

        return choices(hardware, model, version, fixed)

    def uses_cards(self, hardware: Hardware, installation: Installation, fixed: Fixed) -> bool:
        """Where there are cards and the build is not for processors; a cache that is given is one of some card."""
        from llmops.engines.vllm.defaults import uses_cards

        return installation.accelerators != () and uses_cards(hardware, fixed.kv_memory_bytes)

    def require_configurable(self, model: ModelSpec | None = None) -> None:
        """Raise Unsupported for a directory without weights, which can be planned for and not served."""
        if model is not None and model.weights_basis == "config":
            raise Unsupported(
                f"{model.reference} holds no weights: they were computed for the plan, and cannot be served",
                hint="put the files of the weights there, or plan only: llmops plan",
            )

    def most_slots_of(self, model: ModelSpec, version: Version | None) -> int:
        """The same for every model."""
        return self.most_slots

    def prepare(self, host: Host, plan: Plan, in_force: InForce) -> bool:
        """It loads its model when it starts."""
        return False

    def model_name(self, plan: Plan, in_force: InForce | None = None) -> str | None:
        """Every request names its model, by the first of the names that the server has for it."""
        from llmops.engines.vllm.observe import VllmInForce

        names = in_force.served_names if isinstance(in_force, VllmInForce) else ()
        return names[0] if names else plan.model.reference

    def load_checks(self, host: Host, plan: Plan, in_force: InForce) -> tuple[Check, ...]:
        """Whether requests of the test were put back for want of cache, or refused."""
        from llmops.engines.vllm.load import load_checks

        return load_checks(host, in_force)

    def served(self, in_force: InForce, installation: Installation) -> Served | None:
        """What runs now in a plan's own terms."""
        from llmops.engines.vllm.served import served

        return served(in_force, installation)

    def with_defaults(self, fixed: Fixed, model: ModelSpec, installation: Installation, hardware: Hardware) -> Fixed:
        """What this version chooses by itself on these cards for all that is not fixed."""
        from llmops.engines.vllm.defaults import with_defaults

        return with_defaults(fixed, model, hardware, installation.version)

    def detect(self, host: Host) -> tuple[Installation, ...]:
        """Every vLLM on the machine, best candidate first."""
        from llmops.engines.vllm.detect import detect

        return detect(host)

    def in_force(self, host: Host, installation: Installation) -> InForce:
        """The process and the model that it was started with."""
        from llmops.engines.vllm.observe import observe

        return observe(host, installation)

    def settings(self, plan: Plan, installation: Installation, in_force: InForce | None = None) -> tuple[Setting, ...]:
        """What follows `vllm serve`: model, address and every planned option; then the planned variables."""
        from llmops.engines.vllm.arguments import variables
        from llmops.engines.vllm.command import build

        return (*build(plan, installation, in_force).settings, *variables(plan))

    def warnings(self, plan: Plan, installation: Installation, in_force: InForce | None = None) -> tuple[str, ...]:
        """What this version cannot be told."""
        from llmops.engines.vllm.arguments import warnings
        from llmops.engines.vllm.own_words import words_warnings

        return (*warnings(plan, installation), *words_warnings(installation, in_force))

    def files(self, plan: Plan, installation: Installation, in_force: InForce) -> tuple[RenderedFile, ...]:
        """Our drop-in for an existing unit, a complete unit where there is none.

        Raises Misconfigured for a container, with the words for its own configuration.
        """
        from llmops.engines.vllm.files import render_files

        return render_files(plan, installation, in_force)

    def options_file(self, plan: Plan, installation: Installation) -> RenderedFile | None:
        """YAML for `vllm serve --config`."""
        from llmops.engines.vllm.files import config_file

        return config_file(plan, installation)

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
        """Units or options below the address of each, and START.txt."""
        from llmops.engines.vllm.machines import machine_files

        return machine_files(plan, installation, in_force, inventory, backend, options_file=options_file)

    def replica_files(
        self, plan: Plan, installation: Installation, in_force: InForce, place: Place
    ) -> tuple[RenderedFile, ...]:
        """A complete unit: nothing of a person is kept, since it must hold on every machine."""
        from llmops.engines.vllm.replicas import replica_files

        return replica_files(plan, installation, in_force, place)

    def contradictions(
        self, host: Host, plan: Plan, installation: Installation, in_force: InForce
    ) -> tuple[Contradiction, ...]:
        """What a person's drop-ins set to another value than the plan does."""
        from llmops.engines.vllm.contradictions import contradictions

        if installation.unit is None:
            return ()
        return contradictions(self.settings(plan, installation, in_force), installation.unit, in_force)

    def expectations(
        self, plan: Plan, installation: Installation, in_force: InForce | None = None
    ) -> tuple[Expectation, ...]:
        """What must be seen once the plan is live."""
        from llmops.engines.vllm.expectations import expectations

        return expectations(plan, installation, in_force)

    def checks(
        self, expectations: tuple[Expectation, ...], installation: Installation, in_force: InForce
    ) -> tuple[Check, ...]:
        """Each expectation compared with what was seen."""
        from llmops.engines.vllm.checks import checks

        return checks(expectations, installation, in_force)

    def health(self, host: Host, url: str) -> Health:
        """/health answers 200 with an empty body once it serves; until then nobody listens."""
        from llmops.engines.vllm.health import health

        return health(host, url)

    def require_usable(self, installation: Installation) -> None:
        """Raise Misconfigured where what is started is not known to be vLLM."""
        from llmops.engines.vllm.command import require_usable

        require_usable(installation)

    def launch(self, plan: Plan, installation: Installation, port: int) -> Launch:
        """The same settings as a child process on loopback."""
        from llmops.engines.vllm.launch import launch

        return launch(plan, installation, port)

    def last_words(self, exit_code: int, output: str) -> str:
        """What to do, and why a child that ended early did so."""
        from llmops.engines.vllm.failures import last_words

        return last_words(exit_code, output)

    def port_was_taken(self, output: str) -> bool:
        """Whether the log of a child that ended says that another program has its port."""
        from llmops.engines.vllm.log import port_was_taken

        return port_was_taken(output)

    def log_checks(self, plan: Plan, output: str) -> tuple[Check, ...]:
        """The cache that the start printed, against the plan."""
        from llmops.engines.vllm.log import log_checks

        return log_checks(plan, output)
