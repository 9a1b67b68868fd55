"""The projector that a running llama-server loads beside its model."""

from __future__ import annotations

from llmops.core.errors import LlmopsError
from llmops.core.model import ModelSpec
from llmops.engines.found import InForce, Installation
from llmops.engines.llama_server import options
from llmops.engines.llama_server.arguments import program_length, read_arguments
from llmops.engines.llama_server.endpoint import said_value
from llmops.host import Host
from llmops.models.gguf_projector import read_projector, with_projectors


def with_its_projector(
    host: Host, model: ModelSpec, installation: Installation, in_force: InForce
) -> tuple[ModelSpec, tuple[str, ...]]:
    """The model with the file of `--mmproj`, which stays on its command line; a warning where it cannot be read."""
    path = _path(installation, in_force)
    if path is None:
        return model, ()
    try:
        return with_projectors(model, (read_projector(host, path),)), ()
    except LlmopsError as refusal:
        return model, (f"the projector of --mmproj is not counted: {refusal.message}",)


def _path(installation: Installation, in_force: InForce) -> str | None:
    words = in_force.arguments or in_force.configured_arguments or ()
    variables = dict(in_force.environment or in_force.configured_environment or ())
    arguments = read_arguments(words[program_length(words) or 0 :], installation.flags, installation.valued_flags)
    return said_value(arguments, variables, in_force.config_files, options.MMPROJ)
