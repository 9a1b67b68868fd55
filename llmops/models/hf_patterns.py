"""Which modules a checkpoint's lists name: whole names, parts of names, globs and simple regular expressions.

A pattern of a file is never run as a regular expression, for a hostile one need not end: what is not plain text in it
stands for any text. It then matches rather too much, and what a list excepts is counted as stored in 16 bits.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from llmops.models.hf_config import ConfigFacts

MOST_PATTERNS = 65_536
MOST_OPEN_PATTERNS = 256
MOST_LENGTH = 512
MOST_PARTS = 32  # real names have at most ten
# Names of the same part in different families and exporters.
_SAME = (("shared_experts", "shared_expert"), ("block_sparse_moe", "mlp"), ("feed_forward", "mlp"))
_MATRIX = re.compile(r"(?<=\.)w([123])$")  # Mixtral's names and those that came from them
_MATRICES = {"1": "gate_proj", "2": "down_proj", "3": "up_proj"}
_OUTER = ("model.", "language_model.", "backbone.")
_EXPERT = re.compile(r"(?<=\.experts\.)\d{1,6}(?=\.|$)")  # lists may name every expert; all of a layer are alike
_CLASSES = {"attention": "self_attn"}  # a class such as Llama4TextAttention stands for its modules
_LAYER = re.compile(r"(?:\w{1,64}\.){0,4}layers\.(\d{1,6})\.")
_ALTERNATIVES = re.compile(r"\((?:\?:)?([^()]{1,200})\)")


Pieces = tuple[str, ...]  # of a glob, between its stars


@dataclass(frozen=True)
class Patterns:
    """Names to be compared with modules; `everything` matches all (the class Linear).

    `globs` stand below the layer that they name, those that name none below the empty text.
    """

    names: frozenset[str]
    open_patterns: tuple[tuple[str, ...], ...]
    everything: bool = False
    globs: Mapping[str, tuple[Pieces, ...]] = field(default_factory=dict)

    def match(self, module: str) -> bool:
        """Whether a module is named, by itself or as a part of something that is."""
        if self.everything:
            return True
        name = _canonical(module)
        parts = name.split(".")[:MOST_PARTS] if self.names else ()
        if any(".".join(parts[i:j]) in self.names for i in range(len(parts)) for j in range(i + 1, len(parts) + 1)):
            return True
        if self.globs and any(_is_glob_of(name, pieces) for pieces in self._globs_for(name)):
            return True
        return any(_contains(name, fragments) for fragments in self.open_patterns)

    def _globs_for(self, name: str) -> tuple[Pieces, ...]:
        layer = _layer_of(name)
        return (*self.globs.get("", ()), *(self.globs.get(layer, ()) if layer else ()))


NONE = Patterns(frozenset(), ())
ALL = Patterns(frozenset(), (), everything=True)


def patterns(facts: ConfigFacts, key: str, items: Iterable[str]) -> Patterns:
    """The patterns of one list; UnreadableInput for more or longer ones than any exporter writes."""
    names: set[str] = set()
    opened: list[tuple[str, ...]] = []
    globs: dict[str, dict[Pieces, None]] = {}
    everything = False
    for count, item in enumerate(items):
        if count > MOST_PATTERNS or len(item) > MOST_LENGTH or _too_many(opened, globs):
            raise facts.wrong(key, f"{item[:40]}...")
        if item == "Linear":
            everything = True
        elif item.startswith("re:"):
            found = [_fragments(one) for one in _alternatives(item.removeprefix("re:"))]
            everything = everything or () in found
            opened += found
        elif "*" in item:
            everything = everything or not item.strip("*")
            name = _canonical(item)
            globs.setdefault(_layer_of(name.partition("*")[0]), {})[tuple(name.split("*"))] = None
        else:
            names.add(_canonical(_CLASSES.get(_class_part(item), item)))
    layered = {layer: tuple(found) for layer, found in globs.items()}
    return Patterns(frozenset(names), tuple(opened), everything, layered)


def _too_many(opened: list[tuple[str, ...]], globs: Mapping[str, Mapping[Pieces, None]]) -> bool:
    return len(opened) + max(map(len, globs.values()), default=0) > MOST_OPEN_PATTERNS


def _layer_of(name: str) -> str:
    """The number of the layer that a name is below, as a text; empty where it is below none."""
    found = _LAYER.match(name)
    return found.group(1) if found else ""


def _class_part(item: str) -> str:
    return next((word for word in _CLASSES if item.lower().endswith(word) and item[:1].isupper()), "")


def _canonical(name: str) -> str:
    for outer in (*_OUTER, *_OUTER):
        name = name.removeprefix(outer)
    name = _MATRIX.sub(lambda found: _MATRICES[found.group(1)], _EXPERT.sub("*", name))
    for other, same in _SAME:
        name = name.replace(other, same)
    return name


def _alternatives(pattern: str) -> tuple[str, ...]:
    """The first group of alternatives written out; others stay for _fragments, which takes them for any text."""
    found = _ALTERNATIVES.search(pattern)
    if found is None or "|" not in found.group(1):
        return (pattern,)
    before, after = pattern[: found.start()], pattern[found.end() :]
    return tuple(f"{before}{one}{after}" for one in found.group(1).split("|"))


def _fragments(pattern: str) -> tuple[str, ...]:
    """The plain texts of a pattern in their order; everything between them may be anything."""
    plain = pattern.removeprefix("^").removesuffix("$")
    parts = (
        part.replace("\\.", ".") for part in re.split(r"(?<!\\)\.(?=[*+?])|\\[a-zA-Z]|(?:(?!\\\.)[^\w.\-])+", plain)
    )
    return tuple(_canonical(part) for part in parts if part.strip("."))


def _is_glob_of(name: str, pieces: tuple[str, ...]) -> bool:
    """Whether a glob, split at its stars, is the whole name or that of something it is a part of."""
    first, *others, last = pieces
    at = _begin(name, first)
    for piece in others:
        if at < 0:
            return False
        found = name.find(piece, at)
        at = found + len(piece) if found >= 0 else -1
    return at >= 0 and (not last or f"{name}.".rfind(f"{last}.") >= at)


def _begin(name: str, piece: str) -> int:
    """Where a glob's first piece ends in a name: at the front, or after a dot, for exporters cut outer names off."""
    if name.startswith(piece):
        return len(piece)
    found = name.find(f".{piece}")
    return found + 1 + len(piece) if found >= 0 else -1


def _contains(name: str, fragments: tuple[str, ...]) -> bool:
    start = 0
    for fragment in fragments:
        found = name.find(fragment, start)
        if found < 0:
            return False
        start = found + len(fragment)
    return bool(fragments)
