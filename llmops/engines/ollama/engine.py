"""Ollama behind the engine protocol; what only some commands need is imported where it is used."""

from __future__ import annotations

from typing import TYPE_CHECKING

from llmops.core.errors import UsageError
from llmops.core.hardware import Hardware
from llmops.core.model import ModelSpec
from llmops.core.plan import Fixed, MemoryModel, Plan, Shape
from llmops.core.version import Version
from llmops.engines.base import (
    GGML_CACHE_TYPES,
    PLACEMENT_OPTIONS,
    VLLM_OPTIONS,
    Contradiction,
    Health,
    Launch,
    Models,
    Setting,
)
from llmops.engines.found import InForce, Installation, Served
from llmops.engines.ollama import detect as detection
from llmops.engines.ollama import shape
from llmops.host import Host

if TYPE_CHECKING:
    from llmops.core.files import RenderedFile
    from llmops.core.problem import Choices
    from llmops.core.verification import Check, Expectation
    from llmops.engines.inventory import Inventory, Place


class Ollama:
    """Ollama's server: one process for every loaded model, settings in the environment of its unit."""

    name = detection.NAME
    cache_types = GGML_CACHE_TYPES
    forms = frozenset({"gguf", "stored"})  # a file once `ollama create` has taken it in
    foreign_options = VLLM_OPTIONS | PLACEMENT_OPTIONS | {"draft-model", "mmproj"}
    can_be_configured = True
    most_slots = shape.MOST_SLOTS
    install_steps: tuple[str, ...] = (
        "the installer of its makers, which also makes the unit: curl -fsSL https://ollama.com/install.sh | sh",
        "what it does, step by step: https://github.com/ollama/ollama/blob/main/docs/linux.mdx",
    )

    def memory_model(
        self,
        hardware: Hardware,
        model: ModelSpec,
        version: Version | None,
        draft: ModelSpec | None = None,
        served: Served | None = None,
    ) -> MemoryModel:
        """The memory of the process that serves a model; it has no option for a draft model."""
        from llmops.engines.ollama.memory import memory_model

        return memory_model(hardware, model, version)

    def choices(self, hardware: Hardware, model: ModelSpec, version: Version | None, fixed: Fixed) -> Choices:
        """Those of the policy."""
        from llmops.core.problem import Choices

        return Choices(spills_by_itself=True)

    def uses_cards(self, hardware: Hardware, installation: Installation, fixed: Fixed) -> bool:
        """Where there are cards and the build is not for processors."""
        return bool(hardware.gpus) and installation.accelerators != ()

    def draft(self, host: Host, reference: str) -> ModelSpec:
        """It has no setting for one."""
        raise UsageError("Ollama has no setting for a draft model", hint="leave --draft-model out")

    def require_configurable(self, model: ModelSpec | None = None) -> None:
        """Raise Unsupported for a model that is no GGUF file."""
        from llmops.engines.converted import require_converted

        require_converted(self.name, model)

    def why_not(self, model: ModelSpec) -> str | None:
        """None: what it can be sized for it can load, once it is converted."""
        return None

    def models(self, host: Host, references: tuple[str, ...], installation: Installation, in_force: InForce) -> Models:
        """The models named, or every installed one that can chat."""
        from llmops.engines.ollama.choice import choose_models

        return choose_models(host, references, installation, in_force)

    def shaped(self, wanted: Shape, model: ModelSpec, version: Version | None) -> Shape:
        """What runs when this is planned: batch, reading of the file and single slots are Ollama's own choice."""
        return shape.shaped(wanted, model, version)

    def most_slots_of(self, model: ModelSpec, version: Version | None) -> int:
        """One for some families."""
        return shape.most_slots_of(model, version)

    def prepare(self, host: Host, plan: Plan, in_force: InForce) -> bool:
        """Load the plan's model; it may take the place of another one."""
        from llmops.engines.ollama import api

        if in_force.url is None:
            return False
        api.load_model(host, in_force.url, plan.model.reference)
        return True

    def model_name(self, plan: Plan, in_force: InForce | None = None) -> str | None:
        """Every request names its model."""
        return plan.model.reference

    def load_checks(self, host: Host, plan: Plan, in_force: InForce) -> tuple[Check, ...]:
        """The wait for a slot, from the durations of the answers."""
        from llmops.engines.ollama import api

        return (api.queue_check(host, plan, in_force, plan.model.reference),)

    def with_defaults(self, fixed: Fixed, model: ModelSpec, installation: Installation, hardware: Hardware) -> Fixed:
        """Ollama's own choice for what is not fixed; its context depends on the cards."""
        from llmops.engines.ollama.defaults import with_defaults

        return with_defaults(fixed, model, installation, hardware)

    def served(self, in_force: InForce, installation: Installation) -> Served | None:
        """What runs now in a plan's own terms."""
        from llmops.engines.ollama.served import served

        return served(in_force, installation)

    def detect(self, host: Host) -> tuple[Installation, ...]:
        """Every Ollama on the machine, best candidate first."""
        return detection.detect(host)

    def in_force(self, host: Host, installation: Installation) -> InForce:
        """What is configured and what really runs."""
        from llmops.engines.ollama.observe import observe

        return observe(host, installation)

    def settings(self, plan: Plan, installation: Installation, in_force: InForce | None = None) -> tuple[Setting, ...]:
        """Every planned variable of this version."""
        from llmops.engines.ollama.settings import compose

        return compose(plan, installation.version, in_force)

    def warnings(self, plan: Plan, installation: Installation, in_force: InForce | None = None) -> tuple[str, ...]:
        """What Ollama does otherwise than one would think."""
        from llmops.engines.ollama.advice import warnings

        return warnings(plan, installation.version, in_force)

    def files(self, plan: Plan, installation: Installation, in_force: InForce) -> tuple[RenderedFile, ...]:
        """Our drop-in for its unit; raises Misconfigured where systemd does not manage it, with the words to use."""
        from llmops.engines.ollama.files import render_files

        return render_files(plan, installation, in_force)

    def options_file(self, plan: Plan, installation: Installation) -> RenderedFile | None:
        """None: its words are flags and variables."""
        return None

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
        """None: it runs on one machine."""
        return None

    def replica_files(
        self, plan: Plan, installation: Installation, in_force: InForce, place: Place
    ) -> tuple[RenderedFile, ...]:
        """A drop-in for the unit that its installer makes."""
        from llmops.engines.ollama.files import replica_files

        return replica_files(plan, installation, place)

    def contradictions(
        self, host: Host, plan: Plan, installation: Installation, in_force: InForce
    ) -> tuple[Contradiction, ...]:
        """What a person's drop-ins and environment files set to another value than the plan does."""
        from llmops.engines.ollama.files import contradictions

        if installation.unit is None:
            return ()
        settings = self.settings(plan, installation, in_force)
        return contradictions(host, settings, installation.unit, in_force)

    def expectations(
        self, plan: Plan, installation: Installation, in_force: InForce | None = None
    ) -> tuple[Expectation, ...]:
        """What must be seen once the plan is live."""
        from llmops.engines.ollama.expectations import expectations

        return expectations(plan, installation, in_force)

    def checks(
        self, expectations: tuple[Expectation, ...], installation: Installation, in_force: InForce
    ) -> tuple[Check, ...]:
        """Each expectation compared with what was seen."""
        from llmops.engines.ollama.checks import checks

        return checks(expectations, installation, in_force)

    def health(self, host: Host, url: str) -> Health:
        """Ready as soon as it listens: models are loaded on demand."""
        from llmops.engines.ollama import api

        return api.health(host, url)

    def require_usable(self, installation: Installation) -> None:
        """Raise Misconfigured for a program that does not run, TooOld for one without the planned variables."""
        from llmops.engines.ollama.settings import require_usable

        require_usable(installation)

    def launch(self, plan: Plan, installation: Installation, port: int) -> Launch:
        """The same variables for a child process on loopback."""
        from llmops.engines.ollama.launch import launch

        return launch(plan, installation, port)

    def last_words(self, exit_code: int, output: str) -> str:
        """Why a child that ended early did so: its log holds that of the llama-server below it."""
        from llmops.engines.llama_server.failures import last_words

        return last_words(exit_code, output)

    def port_was_taken(self, output: str) -> bool:
        """Whether the log of a child that ended says that another program has its port."""
        from llmops.engines.llama_server.log import port_was_taken

        return port_was_taken(output)

    def log_checks(self, plan: Plan, output: str) -> tuple[Check, ...]:
        """Cache really allocated against the budget, and the layers that went to cards, by the child's log."""
        from llmops.engines.llama_server.log import log_checks

        return log_checks(plan, output)
