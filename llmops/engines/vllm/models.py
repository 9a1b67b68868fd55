"""Which model a vLLM is planned for: a Hugging Face directory, or a repository in the local cache."""

from __future__ import annotations

from pathlib import PurePosixPath

from llmops.core.errors import UsageError
from llmops.core.model import ModelSpec
from llmops.engines.base import Models
from llmops.engines.found import InForce, Installation
from llmops.engines.vllm.quantizations import check_quantization
from llmops.engines.vllm.supported import check_served
from llmops.host import Host
from llmops.models import read_model

# How the files begin that hold a vocabulary, of transformers, sentencepiece, tiktoken and Mistral.
_TOKENIZERS = ("tokenizer.", "vocab.", "spiece.", "sentencepiece.", "tekken.", "tiktoken.", "qwen.tiktoken")


def choose_models(host: Host, references: tuple[str, ...], installation: Installation, in_force: InForce) -> Models:
    """The one model asked for, else the one that is served.

    Raise UsageError for a GGUF file, Unsupported for an architecture that this vLLM does not have.
    """
    if len(references) > 1:
        raise UsageError("vllm serves one model per server", hint="give --model once")
    reference = references[0] if references else in_force.model_path
    if reference is None:
        raise UsageError(
            "no model is given and no running vllm serves one",
            hint="give --model a directory with config.json, or a repository id that is in the local cache",
        )
    model = checkpoint(read_model(host, reference))
    if reference == in_force.model_path:  # it serves it: what a list says counts no more
        return Models((model,))
    said = (*check_served(host, model, installation, in_force), *check_quantization(host, model, installation))
    return Models((model,), warnings=(*said, *_missing(host, model)))


def _missing(host: Host, model: ModelSpec) -> tuple[str, ...]:
    """What a download lacks that is no part of the weights; nothing of one without weights, which is planned for."""
    if model.weights_basis != "tensors" or not model.source_paths:
        return ()
    lines = []
    if not model.has_chat_template:
        lines.append(
            "no chat template is beside the model: vLLM then refuses chats, with which a plan is verified, unless it"
            " knows one itself or is given --chat-template FILE"
        )
    try:
        names = host.list_directory(PurePosixPath(model.source_paths[0]).parent)
    except OSError:
        return tuple(lines)
    if not any(name.startswith(_TOKENIZERS) for name in names):
        lines.append("no tokenizer is beside the model: download its tokenizer files too")
    return tuple(lines)


def checkpoint(model: ModelSpec) -> ModelSpec:
    """The model itself; raise UsageError for one in a file of llama.cpp."""
    if model.format == "gguf":
        raise UsageError(
            f"{model.reference} is a GGUF file, and vLLM serves Hugging Face checkpoints",
            hint="give --model the checkpoint that it was made from, or plan with --engine llama-server",
        )
    return model
