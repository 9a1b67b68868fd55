"""Hostile answers of Ollama's /api/show: values of other types and sizes, rows that are none, texts cut short."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from random import Random

from hypothesis import strategies as st

from tests.doubles import gguf_files as made
from tests.fuzz.trees import Entry, File

Case = tuple[str, Mapping[str, Entry]]

NAME = "show.json"
MOST_BYTES = 4 * 1024 * 1024  # what is read of a socket has a limit of its own
_TYPES = {made.F32_TENSOR: "F32", made.F16_TENSOR: "F16", made.Q4_K: "Q4_K"}
_BLOB = f"/usr/share/ollama/.ollama/models/blobs/sha256-{'a' * 64}"
VALUES: tuple[object, ...] = (
    None, True, -1, 0, 1, 2, 0.5, float("nan"), float("inf"), 2**31, 2**63, 2**64, 10**30, 10**4000, "", "llama",
    "gemma3", "\ud800", "\x1b[2J", "\u202e", "x" * 5_000, [], [1, 2], [0] * 1_025, [2**70], ["a"], [None], [[1]], {},
    {"a": 1},
)  # fmt: skip


def whole() -> dict[str, object]:
    """The answer for a small model, its arrays with their values."""
    info = {key: value for key, value in made.model_metadata(layers=2).items() if isinstance(value, (int, float, str))}
    rows = [
        {"name": tensor.name, "type": _TYPES[tensor.storage], "shape": list(tensor.dimensions)}
        for tensor in made.model_tensors(layers=2)
    ]
    modelfile = f"# Modelfile\nFROM {_BLOB}\nTEMPLATE x\n"
    return {"model_info": info, "tensors": rows, "modelfile": modelfile, "parameters": "num_ctx                8192"}


def _value(chance: Random) -> object:
    """One of the values; a copy, since it may be changed in its turn."""
    return copy.deepcopy(chance.choice(VALUES))


def _changed(chance: Random, document: dict[str, object]) -> None:
    """One change somewhere."""
    info, rows = document["model_info"], document["tensors"]
    kind = chance.choice(("value", "value", "value", "key", "row", "row", "row", "shape", "part", "many"))
    if kind == "value" and isinstance(info, dict):
        info[chance.choice(list(info) or ["a"])] = _value(chance)
    elif kind == "key" and isinstance(info, dict):
        info[chance.choice(("", "\x1b", "k" * 2_000, "tokenizer.ggml.tokens"))] = _value(chance)
    elif kind in {"row", "shape"} and isinstance(rows, list) and rows:
        row = chance.choice(rows)
        if kind == "shape" and isinstance(row, dict):
            row["shape"] = [_value(chance) for _ in range(chance.randint(0, 6))]
        elif isinstance(row, dict) and chance.random() < 0.8:
            row[chance.choice(("name", "type", "shape"))] = _value(chance)
        else:
            rows[0] = _value(chance)
    elif kind == "many":
        document["tensors"] = (
            [chance.choice(rows)] * chance.choice((3, 1_000, 40_000)) if isinstance(rows, list) and rows else 0
        )
    else:
        document[chance.choice(list(document))] = _value(chance)


def _answer(number: int) -> Case:
    chance = Random(number)
    document = whole()
    for _ in range(chance.choice((0, 1, 1, 1, 2, 4))):
        _changed(chance, document)
    text = json.dumps(document, ensure_ascii=chance.random() < 0.5).encode("utf-8", "surrogatepass")
    if chance.random() < 0.1:
        text = chance.choice((text[: chance.randint(0, len(text))], b"[" * 60_000, b"9" * 5_000, b"\xff" + text, b"[]"))
    return NAME, {NAME: File(text[:MOST_BYTES])}


# One number for each answer, as for the stores.
cases: st.SearchStrategy[Case] = st.integers(0, 2**64 - 1).map(_answer)
SEEDS = (json.dumps(whole()).encode(),)


def from_bytes(data: bytes) -> Case:
    """An answer as it is."""
    return NAME, {NAME: File(data)}
