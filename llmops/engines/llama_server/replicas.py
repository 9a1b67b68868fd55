"""One of several equal servers behind a front: a unit that listens at the machine's own address for the front alone."""

from __future__ import annotations

from llmops.core.errors import Misconfigured
from llmops.core.files import RenderedFile
from llmops.core.plan import Plan
from llmops.engines.base import Setting, setting_words
from llmops.engines.found import FOREIGN, InForce, Installation
from llmops.engines.inventory import Place
from llmops.engines.llama_server.command import model_path
from llmops.engines.llama_server.files import NEW_UNIT, complete_unit, foreign
from llmops.engines.llama_server.settings import compose, require_usable


def replica_files(plan: Plan, installation: Installation, in_force: InForce, place: Place) -> tuple[RenderedFile, ...]:
    """Raise Misconfigured or TooOld where no unit could start it on every machine."""
    if installation.managed_by in FOREIGN:
        raise foreign(plan, installation)
    require_usable(installation)
    if installation.unit is not None and not in_force.unit_file_managed:
        raise Misconfigured(
            f"{installation.unit} starts llama-server here with words of its own, which no other machine would get",
            hint="put --host and --port into the unit of each machine, and apply the plan there: llmops tune --apply",
        )
    address = (Setting("--host", place.address), Setting("--port", str(place.port)))
    settings = (Setting("--model", model_path(plan)), *address, *compose(plan, installation).settings)
    words = (*installation.command, *setting_words(settings))
    return (complete_unit(plan, words, settings, NEW_UNIT, clients=place.clients),)
