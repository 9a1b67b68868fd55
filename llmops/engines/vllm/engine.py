"""vLLM behind the engine protocol: sized and planned for; what would configure it refuses and says so."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from llmops.core.errors import Unsupported
from llmops.core.hardware import Hardware
from llmops.core.model import ModelSpec
from llmops.core.plan import Fixed, MemoryModel, Plan, Shape
from llmops.core.problem import Choices
from llmops.core.version import Version
from llmops.engines.base import (
    GGML_OPTIONS,
    Contradiction,
    Health,
    InForce,
    Installation,
    Launch,
    Models,
    Served,
    Setting,
)
from llmops.engines.vllm.arguments import arguments, warnings
from llmops.engines.vllm.defaults import uses_cards, with_defaults
from llmops.engines.vllm.memory import memory_model
from llmops.engines.vllm.models import checkpoint, choose_models
from llmops.engines.vllm.possible import choices
from llmops.host import Host
from llmops.models import read_model

if TYPE_CHECKING:
    from llmops.core.files import RenderedFile
    from llmops.core.verification import Check, Expectation


class Vllm:
    """vLLM's server, by its command line."""

    name = "vllm"
    # It has no limit of its own; so many at once would need as many tokens in every step.
    most_slots = 65_536
    cache_types = frozenset({"f16", "bf16", "fp8"})
    foreign_options = GGML_OPTIONS
    can_be_configured = False
    install_steps: tuple[str, ...] = (
        "in an environment of its own: python3 -m venv /opt/vllm && /opt/vllm/bin/pip install vllm",
        "what it needs: https://docs.vllm.ai/en/latest/getting_started/installation/",
    )

    def memory_model(
        self, hardware: Hardware, model: ModelSpec, version: Version | None, draft: ModelSpec | None = None
    ) -> MemoryModel:
        """The memory of each card, with the pool of its cache."""
        return memory_model(hardware, model, version, draft)

    def models(self, host: Host, references: tuple[str, ...], installation: Installation, in_force: InForce) -> Models:
        """The one model asked for, else the one that is served."""
        return choose_models(host, references, in_force)

    def draft(self, host: Host, reference: str) -> ModelSpec:
        """A checkpoint too."""
        return checkpoint(read_model(host, reference))

    def shaped(self, shape: Shape, model: ModelSpec, version: Version | None) -> Shape:
        """It does what it is told."""
        return shape

    def choices(self, hardware: Hardware, model: ModelSpec, version: Version | None, fixed: Fixed) -> Choices:
        """Its own cache types and batches, and the divisions of the model that its heads allow."""
        return choices(hardware, model, version, fixed)

    def uses_cards(self, hardware: Hardware, installation: Installation, fixed: Fixed) -> bool:
        """Where there are cards and the build is not for processors; a cache that is given is one of some card."""
        return installation.accelerators != () and uses_cards(hardware, fixed.kv_memory_bytes)

    def require_configurable(self, model: ModelSpec | None = None) -> None:
        """Raise Unsupported: plans yes, files no."""
        _refuse()

    def most_slots_of(self, model: ModelSpec, version: Version | None) -> int:
        """The same for every model."""
        return self.most_slots

    def prepare(self, host: Host, plan: Plan, in_force: InForce) -> bool:
        """It loads its model when it starts."""
        return False

    def model_name(self, plan: Plan) -> str | None:
        """Every request names its model."""
        return plan.model.reference

    def load_checks(self, host: Host, plan: Plan, in_force: InForce) -> tuple[Check, ...]:
        """Not yet."""
        _refuse()

    def served(self, in_force: InForce, installation: Installation) -> Served | None:
        """Not told: the values of a running server are not read yet."""
        return None

    def with_defaults(self, fixed: Fixed, model: ModelSpec, installation: Installation, hardware: Hardware) -> Fixed:
        """What this version chooses by itself on these cards for all that is not fixed."""
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
        """What follows `vllm serve`."""
        return arguments(plan, installation.version)

    def warnings(self, plan: Plan, installation: Installation, in_force: InForce | None = None) -> tuple[str, ...]:
        """What this version cannot be told."""
        return warnings(plan, installation)

    def files(self, plan: Plan, installation: Installation, in_force: InForce) -> tuple[RenderedFile, ...]:
        """Not yet."""
        _refuse()

    def contradictions(
        self, host: Host, plan: Plan, installation: Installation, in_force: InForce
    ) -> tuple[Contradiction, ...]:
        """Not yet."""
        _refuse()

    def expectations(
        self, plan: Plan, installation: Installation, in_force: InForce | None = None
    ) -> tuple[Expectation, ...]:
        """Not yet."""
        _refuse()

    def checks(
        self, expectations: tuple[Expectation, ...], installation: Installation, in_force: InForce
    ) -> tuple[Check, ...]:
        """Not yet."""
        _refuse()

    def health(self, host: Host, url: str) -> Health:
        """Not yet."""
        _refuse()

    def require_usable(self, installation: Installation) -> None:
        """Raise Unsupported: nothing that would start it exists yet."""
        _refuse()

    def launch(self, plan: Plan, installation: Installation, port: int) -> Launch:
        """Not yet."""
        _refuse()

    def last_words(self, exit_code: int, output: str) -> str:
        """Not yet."""
        _refuse()

    def port_was_taken(self, output: str) -> bool:
        """Not yet."""
        _refuse()

    def log_checks(self, plan: Plan, output: str) -> tuple[Check, ...]:
        """Not yet."""
        _refuse()


def _refuse() -> NoReturn:
    raise Unsupported(
        "this llmops sizes and plans for vLLM but cannot yet configure it",
        hint="llmops plan --engine vllm --output json gives data.plan.arguments: put them after `vllm serve`",
    )
