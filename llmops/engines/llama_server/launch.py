"""A plan as a child process on a loopback port, for a trial."""

from __future__ import annotations

from llmops.core.plan import Plan
from llmops.engines.base import Launch, Setting, setting_words
from llmops.engines.found import Installation
from llmops.engines.llama_server.command import model_path, variables
from llmops.engines.llama_server.endpoint import DEFAULT_HOST, url_of
from llmops.engines.llama_server.settings import compose, require_usable

# At the default verbosity newer builds do not say where layers and caches went (llama.cpp PR 23021).
_ENVIRONMENT = {"LLAMA_ARG_LOG_VERBOSITY": "4"}


def launch(plan: Plan, installation: Installation, port: int) -> Launch:
    """Raise Misconfigured or TooOld where the program cannot be used. A person's other arguments are left out."""
    require_usable(installation)
    settings = launch_settings(plan, installation, port)
    url = url_of(DEFAULT_HOST, str(port)) or ""
    return Launch((*installation.command, *setting_words(settings)), {**_ENVIRONMENT, **dict(variables(settings))}, url)


def launch_settings(plan: Plan, installation: Installation, port: int) -> tuple[Setting, ...]:
    """The planned settings with the plan's model on a loopback port."""
    own = (Setting("--model", model_path(plan)), Setting("--host", DEFAULT_HOST), Setting("--port", str(port)))
    return (*own, *compose(plan, installation).settings)
