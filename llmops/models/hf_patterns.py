"""Which modules a checkpoint's lists name: whole names, parts of names, globs and simple regular expressions.

A pattern of a file is never run as a regular expression, for a hostile one need not end: what is not plain text in it
stands for any text. It then matches rather too much, and what a list excepts is counted as stored in 16 bits.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from llmops.models.hf_config import ConfigFacts

MOST_PATTERNS = 65_536
MOST_OPEN_PATTERNS = 256
MOST_LENGTH = 512
MOST_PARTS = 32  # real names have at most ten
# Names of the same part in different families and exporters.
_SAME = (("shared_experts", "shared_expert"), ("block_sparse_moe", "mlp"), ("feed_forward", "mlp"))
_OUTER = ("model.", "language_model.")
_CLASSES = {"attention": "self_attn"}  # a class such as Llama4TextAttention stands for its modules
_ALTERNATIVES = re.compile(r"\((?:\?:)?([^()]{1,200})\)")


@dataclass(frozen=True)
class Patterns:
    """Names to be compared with modules; `everything` matches all (the class Linear)."""

    names: frozenset[str]
    open_patterns: tuple[tuple[str, ...], ...]
    everything: bool = False

    def match(self, module: str) -> bool:
        """Whether a module is named, by itself or as a part of something that is."""
        if self.everything:
            return True
        name = _canonical(module)
        parts = name.split(".")[:MOST_PARTS] if self.names else ()
        if any(".".join(parts[i:j]) in self.names for i in range(len(parts)) for j in range(i + 1, len(parts) + 1)):
            return True
        return any(_contains(name, fragments) for fragments in self.open_patterns)


NONE = Patterns(frozenset(), ())
ALL = Patterns(frozenset(), (), everything=True)


def patterns(facts: ConfigFacts, key: str, items: Iterable[str]) -> Patterns:
    """The patterns of one list; UnreadableInput for more or longer ones than any exporter writes."""
    names: set[str] = set()
    opened: list[tuple[str, ...]] = []
    everything = False
    for count, item in enumerate(items):
        if count > MOST_PATTERNS or len(item) > MOST_LENGTH or len(opened) > MOST_OPEN_PATTERNS:
            raise facts.wrong(key, f"{item[:40]}...")
        if item == "Linear":
            everything = True
        elif item.startswith("re:") or "*" in item:
            found = [_fragments(one) for one in _alternatives(item.removeprefix("re:"))]
            everything = everything or () in found
            opened += found
        else:
            names.add(_canonical(_CLASSES.get(_class_part(item), item)))
    return Patterns(frozenset(names), tuple(opened), everything)


def _class_part(item: str) -> str:
    return next((word for word in _CLASSES if item.lower().endswith(word) and item[:1].isupper()), "")


def _canonical(name: str) -> str:
    for outer in (*_OUTER, *_OUTER):
        name = name.removeprefix(outer)
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
    plain = pattern.replace(r"\.", ".").removeprefix("^").removesuffix("$")
    parts = (part.strip(".") for part in re.split(r"[^\w.\-]+|\.(?=[*+?])|\\[a-zA-Z]", plain))
    return tuple(_canonical(part) for part in parts if part)


def _contains(name: str, fragments: tuple[str, ...]) -> bool:
    start = 0
    for fragment in fragments:
        found = name.find(fragment, start)
        if found < 0:
            return False
        start = found + len(fragment)
    return bool(fragments)
