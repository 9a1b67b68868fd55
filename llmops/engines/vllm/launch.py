"""A plan as a child process on a loopback port, for a trial."""

from __future__ import annotations

from llmops.core.plan import Plan
from llmops.engines.base import Launch, Setting, setting_words
from llmops.engines.found import Installation
from llmops.engines.vllm.arguments import variables
from llmops.engines.vllm.command import (
    DEFAULT_HOST,
    cached_repository,
    planned_settings,
    serve_words,
    url_of,
)
from llmops.engines.vllm.words import MODULE

# The model is on this disk: nothing is looked for elsewhere, and nobody is told. The size of the cache is in the log at
# this level; engine and workers talk to each other over loopback.
ENVIRONMENT = {
    "DO_NOT_TRACK": "1",
    "HF_HUB_OFFLINE": "1",
    "VLLM_HOST_IP": "127.0.0.1",
    "VLLM_LOGGING_LEVEL": "INFO",
    "VLLM_NO_USAGE_STATS": "1",
}
# Three processes end one after the other; killed before that they leave shared memory behind.
STOP_SECONDS = 30.0


def launch(plan: Plan, installation: Installation, port: int) -> Launch:
    """The same settings on loopback; raise TooOld where the program lacks one. A person's other words are left out."""
    program = serve_words(installation.command)
    named = Setting("--model", plan.model.reference) if program[-1] == MODULE else Setting(plan.model.reference, None)
    address = (Setting("--host", DEFAULT_HOST), Setting("--port", str(port)))
    words = setting_words((named, *address, *planned_settings(plan, installation)))
    environment = {"OMP_WAIT_POLICY": "passive"} if plan.passive_waiting else {}
    repository = cached_repository(plan)
    if repository is not None:
        environment["HF_HUB_CACHE"] = str(repository.parent)
    environment |= variable_pairs(plan)
    return Launch((*program, *words), {**ENVIRONMENT, **environment}, url_of(DEFAULT_HOST, str(port)), STOP_SECONDS)


def variable_pairs(plan: Plan) -> dict[str, str]:
    """The planned variables by name."""
    return {one.name: one.value or "" for one in variables(plan)}
