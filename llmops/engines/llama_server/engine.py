"""llama-server behind the engine protocol; what only some commands need is imported where it is used."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from llmops.core.errors import UsageError
from llmops.core.hardware import Hardware
from llmops.core.model import ModelSpec
from llmops.core.plan import Fixed, MemoryModel, Plan, Shape
from llmops.core.version import Version
from llmops.engines.base import GGML_CACHE_TYPES, VLLM_OPTIONS, Contradiction, Health, Launch, Models, Setting
from llmops.engines.found import InForce, Installation, Served
from llmops.engines.llama_server.arguments import PROGRAM
from llmops.host import Host

_LOADING = 503  # every route answers it while the model loads (tools/server/server-http.cpp)
_READY = 200

if TYPE_CHECKING:
    from llmops.core.files import RenderedFile
    from llmops.core.problem import Choices
    from llmops.core.verification import Check, Expectation
    from llmops.engines.inventory import Inventory, Place


class LlamaServer:
    """llama.cpp's HTTP server, as a binary or embedded in llmops."""

    name = PROGRAM
    cache_types = GGML_CACHE_TYPES
    forms = frozenset({"gguf"})
    foreign_options = VLLM_OPTIONS
    can_be_configured = True
    most_slots = 256  # LLAMA_MAX_SEQ (src/llama-cparams.h); more is refused at the start
    install_steps: tuple[str, ...] = (
        "a package: brew install llama.cpp, or nix profile install nixpkgs#llama-cpp",
        "a release for Linux: https://github.com/ggml-org/llama.cpp/releases",
        "from source: cmake -B build && cmake --build build --target llama-server (in a checkout of llama.cpp)",
        "without any of them: pipx inject llmops 'llmops[embedded]', then llmops tune --trial",
    )

    def memory_model(
        self,
        hardware: Hardware,
        model: ModelSpec,
        version: Version | None,
        draft: ModelSpec | None = None,
        served: Served | None = None,
    ) -> MemoryModel:
        """The memory of a ggml server, with a draft model that it loads beside its own."""
        from llmops.engines.llama_server.memory import memory_model

        return memory_model(hardware, model, version, draft)

    def choices(self, hardware: Hardware, model: ModelSpec, version: Version | None, fixed: Fixed) -> Choices:
        """Those of the policy; UsageError for values that the model or the machine has no place for."""
        from llmops.core.problem import Choices
        from llmops.engines.ggml import require_one_cache_type, require_placeable
        from llmops.engines.llama_server.defaults import FITS_BY_ITSELF

        require_one_cache_type(model, version, fixed)
        require_placeable(model, hardware, fixed)
        return Choices(splits_with_host=True, fits_by_itself=FITS_BY_ITSELF.at(version))

    def uses_cards(self, hardware: Hardware, installation: Installation, fixed: Fixed) -> bool:
        """Where there are cards and the build is not for processors."""
        return bool(hardware.gpus) and installation.accelerators != ()

    def draft(self, host: Host, reference: str) -> ModelSpec:
        """A GGUF file, or a checkpoint as it would be converted."""
        from llmops.engines.converted import read_converted
        from llmops.models import stores_for

        model, _ = read_converted(host, reference, stores_for(host, reference))
        return model

    def require_configurable(self, model: ModelSpec | None = None) -> None:
        """Raise Unsupported for a model that is no GGUF file."""
        from llmops.engines.converted import require_converted

        require_converted(self.name, model)

    def why_not(self, model: ModelSpec) -> str | None:
        """None: what it can be sized for it can load, once it is converted."""
        return None

    def models(self, host: Host, references: tuple[str, ...], installation: Installation, in_force: InForce) -> Models:
        """The one model asked for, else the one that is served."""
        from llmops.engines.converted import read_converted
        from llmops.models import stores_for

        if len(references) > 1:
            raise UsageError(f"{self.name} serves one model per server", hint="give --model once")
        reference = references[0] if references else in_force.model_path
        if reference is None:
            raise UsageError(
                f"no model is given and no running {self.name} serves one", hint="give --model /path/to/model.gguf"
            )
        model, warnings = read_converted(host, reference, stores_for(host, reference))
        if in_force.arguments or in_force.configured_arguments:
            from llmops.engines.llama_server.projector import with_its_projector

            model, said = with_its_projector(host, model, installation, in_force)
            warnings += said
        return Models((model,), warnings=warnings)

    def shaped(self, shape: Shape, model: ModelSpec, version: Version | None) -> Shape:
        """It does what it is told."""
        return shape

    def most_slots_of(self, model: ModelSpec, version: Version | None) -> int:
        """The same for every model."""
        return self.most_slots

    def prepare(self, host: Host, plan: Plan, in_force: InForce) -> bool:
        """It loads its model when it starts."""
        return False

    def model_name(self, plan: Plan, in_force: InForce | None = None) -> str | None:
        """It serves one model, whatever the request names."""
        return None

    def load_checks(self, host: Host, plan: Plan, in_force: InForce) -> tuple[Check, ...]:
        """Its events tell all that it knows."""
        return ()

    def served(self, in_force: InForce, installation: Installation) -> Served | None:
        """What runs now in a plan's own terms."""
        from llmops.engines.llama_server.served import served

        return served(in_force, installation)

    def with_defaults(self, fixed: Fixed, model: ModelSpec, installation: Installation, hardware: Hardware) -> Fixed:
        """What this build chooses by itself for all that is not fixed."""
        from llmops.engines.llama_server.defaults import with_defaults

        return with_defaults(fixed, model, installation)

    def detect(self, host: Host) -> tuple[Installation, ...]:
        """Every llama-server on the machine, best candidate first."""
        from llmops.engines.llama_server.detect import detect

        return detect(host)

    def in_force(self, host: Host, installation: Installation) -> InForce:
        """What is configured and what really runs."""
        from llmops.engines.llama_server.observe import observe

        return observe(host, installation)

    def settings(self, plan: Plan, installation: Installation, in_force: InForce | None = None) -> tuple[Setting, ...]:
        """Model, address and every planned option in the words of this binary."""
        from llmops.engines.llama_server.command import build

        return build(plan, installation, in_force).settings

    def warnings(self, plan: Plan, installation: Installation, in_force: InForce | None = None) -> tuple[str, ...]:
        """What could not be set, was translated or works against the plan."""
        from llmops.engines.llama_server.command import build

        return build(plan, installation, in_force).warnings

    def files(self, plan: Plan, installation: Installation, in_force: InForce) -> tuple[RenderedFile, ...]:
        """Our drop-in for an existing unit, a complete unit where there is none.

        Raises Misconfigured for a server that systemd does not manage, with the lines for its own configuration.
        """
        from llmops.engines.llama_server.files import render_files

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
        """A complete unit: nothing of a person is kept, since it must hold on every machine."""
        from llmops.engines.llama_server.replicas import replica_files

        return replica_files(plan, installation, in_force, place)

    def contradictions(
        self, host: Host, plan: Plan, installation: Installation, in_force: InForce
    ) -> tuple[Contradiction, ...]:
        """What a person's drop-ins and environment files set to another value than the plan does."""
        from llmops.engines.llama_server.contradictions import contradictions
        from llmops.engines.unit import drop_in_path

        if installation.unit is None:
            return ()
        managed = (drop_in_path(installation.unit),)
        settings = self.settings(plan, installation, in_force)
        return contradictions(host, settings, installation.unit, in_force, managed)

    def expectations(
        self, plan: Plan, installation: Installation, in_force: InForce | None = None
    ) -> tuple[Expectation, ...]:
        """What must be seen once the plan is live."""
        from llmops.engines.llama_server.expectations import expectations

        return expectations(plan, installation, in_force)

    def checks(
        self, expectations: tuple[Expectation, ...], installation: Installation, in_force: InForce
    ) -> tuple[Check, ...]:
        """Each expectation compared with what was seen."""
        from llmops.engines.llama_server.checks import checks

        return checks(expectations, installation, in_force)

    def health(self, host: Host, url: str) -> Health:
        """/health: 503 while the model loads, 200 when ready; it needs no API key."""
        try:
            answer = host.get(f"{url}/health", timeout_seconds=2.0)
        except (ConnectionRefusedError, TimeoutError):
            return Health.DOWN
        except ConnectionError:  # somebody listens and speaks no HTTP, or never stops
            return Health.NONSENSE
        try:
            document = json.loads(answer.body)
        except (ValueError, RecursionError):
            return Health.NONSENSE
        if answer.status == _READY and isinstance(document, dict) and document.get("status") == "ok":
            return Health.READY
        return Health.LOADING if answer.status == _LOADING else Health.NONSENSE

    def require_usable(self, installation: Installation) -> None:
        """Raise Misconfigured for a program that does not run, TooOld for one that lacks what every plan needs."""
        from llmops.engines.llama_server.settings import require_usable

        require_usable(installation)

    def launch(self, plan: Plan, installation: Installation, port: int) -> Launch:
        """The same settings as a child process on loopback."""
        from llmops.engines.llama_server.launch import launch

        return launch(plan, installation, port)

    def last_words(self, exit_code: int, output: str) -> str:
        """Why a child that ended early did so, and what to do."""
        from llmops.engines.llama_server.failures import last_words

        return last_words(exit_code, output)

    def port_was_taken(self, output: str) -> bool:
        """Whether the log of a child that ended says that another program has its port."""
        from llmops.engines.llama_server.log import port_was_taken

        return port_was_taken(output)

    def log_checks(self, plan: Plan, output: str) -> tuple[Check, ...]:
        """Cache really allocated against the budget, and the layers that went to cards."""
        from llmops.engines.llama_server.log import log_checks

        return log_checks(plan, output)
