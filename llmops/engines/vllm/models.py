"""Which model a vLLM is planned for: a Hugging Face directory, or a repository in the local cache."""

from __future__ import annotations

from llmops.core.errors import UsageError
from llmops.core.model import ModelSpec
from llmops.engines.base import Models
from llmops.engines.found import InForce
from llmops.host import Host
from llmops.models import read_model


def choose_models(host: Host, references: tuple[str, ...], in_force: InForce) -> Models:
    """The one model asked for, else the one that is served; raise UsageError for a GGUF file."""
    if len(references) > 1:
        raise UsageError("vllm serves one model per server", hint="give --model once")
    reference = references[0] if references else in_force.model_path
    if reference is None:
        raise UsageError(
            "no model is given and no running vllm serves one",
            hint="give --model a directory with config.json, or a repository id that is in the local cache",
        )
    return Models((checkpoint(read_model(host, reference)),))


def checkpoint(model: ModelSpec) -> ModelSpec:
    """The model itself; raise UsageError for one in a file of llama.cpp."""
    if model.format == "gguf":
        raise UsageError(
            f"{model.reference} is a GGUF file, and vLLM serves Hugging Face checkpoints",
            hint="give --model the checkpoint that it was made from, or plan with --engine llama-server",
        )
    return model
