"""A plan as `ollama serve` on a loopback port, for a trial."""

from __future__ import annotations

from pathlib import PurePosixPath

from llmops.core.plan import Plan
from llmops.engines.base import Launch
from llmops.engines.found import Installation
from llmops.engines.ollama.files import require_registered
from llmops.engines.ollama.settings import compose, require_usable

_BLOBS = "blobs"


def launch(plan: Plan, installation: Installation, port: int) -> Launch:
    """The same variables, on the store that holds the model; nothing in the store is removed.

    Raise Misconfigured or TooOld where the program cannot be used.
    """
    require_usable(installation)
    require_registered(plan)
    variables = {setting.name: setting.value or "" for setting in compose(plan, installation.version)}
    variables["OLLAMA_HOST"] = f"127.0.0.1:{port}"
    variables["OLLAMA_NOPRUNE"] = "1"  # a server removes blobs without a manifest when it starts
    store = _store(plan)
    if store is not None:
        variables["OLLAMA_MODELS"] = store
    return Launch((*installation.command, "serve"), variables, f"http://127.0.0.1:{port}")


def _store(plan: Plan) -> str | None:
    """The store that the planned model was read from."""
    if not plan.model.source_paths:
        return None
    path = PurePosixPath(plan.model.source_paths[0])
    return str(path.parent.parent) if path.parent.name == _BLOBS else None
