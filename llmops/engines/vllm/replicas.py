"""One of several equal servers behind a front: a unit that listens at the machine's own address for the front alone."""

from __future__ import annotations

from llmops.core.errors import UsageError
from llmops.core.files import RenderedFile
from llmops.core.plan import Plan
from llmops.engines.base import Setting, setting_words
from llmops.engines.found import InForce, Installation
from llmops.engines.inventory import Place
from llmops.engines.vllm.command import CommandLine, planned_settings, serve_words, url_of
from llmops.engines.vllm.files import NEW_UNIT, complete_unit
from llmops.engines.vllm.machines import model_setting, require_own_unit


def replica_files(plan: Plan, installation: Installation, in_force: InForce, place: Place) -> tuple[RenderedFile, ...]:
    """Raise UsageError for one server on several machines, Misconfigured or TooOld where no unit could start it."""
    if plan.nodes > 1:
        raise UsageError(
            f"one server on {plan.nodes} machines is not several servers",
            hint="leave --nodes out; or without --front, and then apply a front on the first of them",
        )
    require_own_unit(installation, in_force)
    address = (Setting("--host", place.address), Setting("--port", str(place.port)))
    settings = (model_setting(plan, installation), *address, *planned_settings(plan, installation))
    words = (*serve_words(installation.command), *setting_words(settings))
    command = CommandLine(words, settings, plan.model.reference, url_of(place.address, str(place.port)))
    return (complete_unit(plan, command, NEW_UNIT, in_force, clients=place.clients),)
