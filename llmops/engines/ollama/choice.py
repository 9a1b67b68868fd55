"""Which models an Ollama is planned for: those named, or every installed one that can chat; its settings are global."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from llmops.core.errors import LlmopsError, NoPermission, UnreadableInput, UsageError
from llmops.core.model import ModelSpec
from llmops.engines.base import Models
from llmops.engines.converted import read_converted
from llmops.engines.found import InForce, Installation
from llmops.engines.ollama.shape import most_slots_of
from llmops.engines.seeing import whole
from llmops.host import Host
from llmops.models import SUPPORTED, is_path
from llmops.models import ollama_store as store
from llmops.models.gguf import is_embedding, spec_of_files
from llmops.models.ollama_api import file_of_show, hidden_arrays, own_context_tokens
from llmops.models.ollama_names import OllamaName, parse_name

_ASK_SECONDS = 30.0


@dataclass
class _Found:
    """What was read so far."""

    chat: list[ModelSpec] = field(default_factory=list)
    companions: list[tuple[str, int]] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    refusals: list[LlmopsError] = field(default_factory=list)


def choose_models(host: Host, references: tuple[str, ...], installation: Installation, in_force: InForce) -> Models:
    """The models to plan for, the one whose tokens cost most first.

    Raise UsageError where none is installed or one that was named is not, and what reading a named model raises; of
    the models that nobody named, those that cannot be read are left out with a warning.
    """
    stores = stores_of(host, in_force)
    found = _Found()
    if references:
        for reference in dict.fromkeys(references):
            _add_named(host, reference, stores, in_force, found)
    else:
        _add_installed(host, stores, in_force, found)
    if not found.chat:
        raise _nothing(found)
    chat = sorted(found.chat, key=lambda model: (model.active_weights_bytes, model.weights_bytes), reverse=True)
    alone = [model.reference for model in chat[1:] if most_slots_of(model, installation.version) == 1]
    if alone:
        names = ", ".join(alone)
        found.warnings.append(f"Ollama serves {names} one request at a time, whatever OLLAMA_NUM_PARALLEL says")
    return Models(tuple(chat), tuple(found.companions), tuple(found.warnings))


def stores_of(host: Host, in_force: InForce) -> tuple[str, ...]:
    """The store of the server, else those where one usually lies."""
    variables = dict(in_force.environment or in_force.configured_environment or ())
    own = variables.get("OLLAMA_MODELS", "").strip().strip("\"'")
    if own.startswith("/"):
        return (own,)
    home = variables.get("HOME", "")
    beside = f"{home}/.ollama/models" if home.startswith("/") else ""
    if in_force.environment is not None and beside:
        return (beside,)
    return tuple(dict.fromkeys(place for place in (beside, *store.usual_stores(host)) if place))


def _add_named(host: Host, reference: str, stores: tuple[str, ...], in_force: InForce, found: _Found) -> None:
    if is_path(host, reference):
        model, assumed = read_converted(host, reference)
        found.chat.append(model)
        found.warnings += assumed
        found.warnings.append(f"{reference} is not registered in Ollama: ollama create NAME with FROM {reference}")
        return
    name = parse_name(reference)
    if name is None:
        raise UsageError(f"{reference!r} is not a model that llmops can read", hint=f"give --model {SUPPORTED}")
    where = next((place for place in stores if store.holds(host, place, name)), None)
    if where is not None:
        _add_stored(host, where, name, found)
        return
    if not _add_told(host, name, in_force, found):
        raise UsageError(
            f"Ollama has no model {name} in {' or '.join(stores) or 'any store'}", hint=f"get it: ollama pull {name}"
        )


def _add_stored(host: Host, place: str, name: OllamaName, found: _Found) -> None:
    stored = store.read_manifest(host, place, name)
    files = store.read_stored_files(host, stored)
    if is_embedding(files[0].metadata):
        found.companions.append((str(name), sum(file.size_bytes for file in files)))
        return
    found.chat.append(store.stored_spec(host, stored, files))
    _tell_context(str(name), stored.own_context_tokens, found)


def _tell_context(name: str, tokens: int | None, found: _Found) -> None:
    if tokens is not None:
        found.warnings.append(
            f"the Modelfile of {name} sets num_ctx {tokens}, which beats OLLAMA_CONTEXT_LENGTH: its memory is another"
        )


def _add_installed(host: Host, stores: tuple[str, ...], in_force: InForce, found: _Found) -> None:
    """Every model of the first store that has any; by the server's own word where the store may not be read."""
    try:
        for place in stores:
            names = store.list_models(host, place)
            if names:
                for name in names:
                    _add_if_readable(host, place, name, found)
                return
    except NoPermission as refused:
        found.refusals.append(refused)
    for row in _rows(host, in_force):
        told = parse_name(str(row.get("name") or row.get("model")))
        if told is not None and not row.get("remote_host"):
            try:
                _add_told(host, told, in_force, found, size_bytes=whole(row.get("size")) or 0)
            except LlmopsError as refusal:
                _leave_out(told, refusal, found)


def _add_if_readable(host: Host, place: str, name: OllamaName, found: _Found) -> None:
    try:
        _add_stored(host, place, name, found)
    except NoPermission:
        raise
    except LlmopsError as refusal:
        _leave_out(name, refusal, found)


def _leave_out(name: OllamaName, refusal: LlmopsError, found: _Found) -> None:
    found.refusals.append(refusal)
    found.warnings.append(f"{name} is left out of the plan: {refusal.message}")


def _rows(host: Host, in_force: InForce) -> Iterator[Mapping[str, Any]]:
    """The models of /api/tags."""
    if in_force.url is None or in_force.pid is None:
        return
    try:
        document = json.loads(host.get(f"{in_force.url}/api/tags", timeout_seconds=_ASK_SECONDS).body)
    except (ConnectionError, TimeoutError, ValueError, RecursionError):
        return
    rows = document.get("models") if isinstance(document, dict) else None
    for row in rows[: store.MAX_MODELS] if isinstance(rows, list) else ():
        if isinstance(row, dict):
            yield row


def _add_told(host: Host, name: OllamaName, in_force: InForce, found: _Found, size_bytes: int = 0) -> bool:
    """Add what /api/show says; False where the server does not have the model or nobody answers."""
    document = _show(host, in_force, name, verbose=False)
    if document is not None and hidden_arrays(document):
        document = _show(host, in_force, name, verbose=True)
    if document is None:
        return False
    file = file_of_show(str(name), document, size_bytes)
    if is_embedding(file.metadata):
        found.companions.append((str(name), sum(tensor.stored_bytes for tensor in file.tensors)))
        return True
    found.chat.append(replace(spec_of_files(str(name), (file,)), reference=str(name)))
    _tell_context(str(name), own_context_tokens(document), found)
    return True


def _show(host: Host, in_force: InForce, name: OllamaName, *, verbose: bool) -> dict[str, Any] | None:
    if in_force.url is None or in_force.pid is None:
        return None
    question = {"model": str(name), "verbose": verbose}
    try:
        answer = host.post(f"{in_force.url}/api/show", question, timeout_seconds=_ASK_SECONDS)
        document = json.loads(answer.body) if answer.status == 200 else None
    except (ConnectionError, TimeoutError):
        return None
    except (ValueError, RecursionError):
        raise UnreadableInput(
            f"{in_force.url}/api/show answered something that is not JSON",
            hint=f"is it Ollama that listens there? try: curl {in_force.url}/api/version",
        ) from None
    return document if isinstance(document, dict) else None


def _nothing(found: _Found) -> LlmopsError:
    if found.companions:
        names = ", ".join(name for name, _ in found.companions)
        return UsageError(f"no model that can chat: {names} only makes embeddings", hint="give --model NAME")
    if found.refusals:
        return found.refusals[0]
    return UsageError("no model is given and Ollama has none", hint="get one: ollama pull NAME; or give --model REF")
