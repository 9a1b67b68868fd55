"""The readers that are fuzzed: how their inputs are made, and how one input is read under the limits."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from hypothesis import strategies as st

from llmops.core.errors import LlmopsError
from llmops.host.local import LocalHost
from llmops.models import hf_cache, hf_directory, hf_estimate, read_model
from llmops.models.gguf import read_gguf, spec_of_files
from llmops.models.gguf_reader import unreadable
from llmops.models.ollama_api import file_of_show, hidden_arrays, own_context_tokens
from llmops.models.ollama_store import list_models, read_manifest, read_stored_model
from tests.fuzz import checkpoint_inputs, gguf_inputs, show_inputs, store_inputs
from tests.fuzz.limits import Outcome, peak_bytes, under_limits
from tests.fuzz.trees import Entry, File, lay_out

Case = tuple[str, Mapping[str, Entry]]


@dataclass(frozen=True)
class Target:
    """One reader: `cases` for hypothesis; `from_bytes` and its `seeds` for a fuzzer that changes bytes.

    `read` gets the root of the tree and the name that the case asks for.
    """

    name: str
    cases: st.SearchStrategy[Case]
    from_bytes: Callable[[bytes], Case]
    seeds: tuple[bytes, ...]
    read: Callable[[Path, str], object]

    def run(self, root: Path, case: Case) -> Outcome:
        """Lay the case out and read it; raises Finding."""
        name, tree = case
        lay_out(root, tree)
        return under_limits(lambda: self.read(root, name))

    def weigh(self, root: Path, case: Case) -> int:
        """The peak of what Python holds while reading, in bytes; slower; raises Finding."""
        name, tree = case
        lay_out(root, tree)
        return peak_bytes(lambda: self.read(root, name))


def _gguf_from_bytes(data: bytes) -> Case:
    """The last byte is the size of the hole that follows the header: 0 for none, n for 2^n bytes."""
    hole = data[-1] % 41 if data else 0
    return "m.gguf", {"m.gguf": File(data[:-1], 1 << hole if hole else 0)}


GGUF = Target(
    name="gguf",
    cases=gguf_inputs.cases,
    from_bytes=_gguf_from_bytes,
    seeds=tuple(seed + b"\x16" for seed in gguf_inputs.SEEDS),
    read=lambda root, name: read_gguf(LocalHost(), str(root / name)),
)


def _read_store(root: Path, name: str) -> object:
    """Everything that is asked of a store: its names, and each model as far as it can be read."""
    host, store = LocalHost(), str(root / name)
    models: list[object] = []
    refused: LlmopsError | None = None
    for listed in list_models(host, store)[:4]:
        try:
            stored = read_manifest(host, store, listed)
            models.append((str(stored.own_context_tokens), read_stored_model(host, stored)))
        except LlmopsError as problem:
            refused = problem
    if refused is not None:
        raise refused
    return models


STORE = Target(
    name="store",
    cases=store_inputs.cases,
    from_bytes=store_inputs.from_bytes,
    seeds=(*(b"\0" + seed for seed in store_inputs.SEEDS), b'\1{"num_ctx": 8192, "stop": ["a"]}'),
    read=_read_store,
)


def _read_show(root: Path, name: str) -> object:
    """Everything that is made of an answer of /api/show."""
    try:
        document = json.loads((root / name).read_bytes())
    except (ValueError, RecursionError):
        raise unreadable(name, "is not JSON") from None
    hidden = hidden_arrays(document)
    file = file_of_show("m:latest", document, 0)
    return hidden, own_context_tokens(document), spec_of_files("m:latest", (file,))


SHOW = Target(
    name="show",
    cases=show_inputs.cases,
    from_bytes=show_inputs.from_bytes,
    seeds=show_inputs.SEEDS,
    read=_read_show,
)


# Loaded when a model is read; a fuzzer that follows coverage must have them before.
LOADED = (hf_cache, hf_directory, hf_estimate)


def _read_checkpoint(root: Path, name: str) -> object:
    """A directory as one model."""
    return read_model(LocalHost(), str(root / name))


def _read_cached(root: Path, name: str) -> object:
    """A repository id in a cache."""
    return read_model(LocalHost(), name, caches=(str(root / "hub"),))


SAFETENSORS = Target(
    name="safetensors",
    cases=checkpoint_inputs.tensors_cases,
    from_bytes=checkpoint_inputs.tensors_from_bytes,
    seeds=checkpoint_inputs.TENSORS_SEEDS,
    read=_read_checkpoint,
)
HF_CONFIG = Target(
    name="hf-config",
    cases=checkpoint_inputs.config_cases,
    from_bytes=checkpoint_inputs.config_from_bytes,
    seeds=checkpoint_inputs.CONFIG_SEEDS,
    read=_read_checkpoint,
)
HF_CACHE = Target(
    name="hf-cache",
    cases=checkpoint_inputs.cache_cases,
    from_bytes=checkpoint_inputs.cache_from_bytes,
    seeds=checkpoint_inputs.CACHE_SEEDS,
    read=_read_cached,
)
TARGETS = {target.name: target for target in (GGUF, STORE, SHOW, SAFETENSORS, HF_CONFIG, HF_CACHE)}
