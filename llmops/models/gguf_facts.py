"""Typed look-ups in GGUF metadata; a missing or wrong value is an UnreadableInput that names its key."""

from __future__ import annotations

from collections.abc import Mapping
from reprlib import repr as brief

from llmops.core.errors import UnreadableInput
from llmops.models.gguf_file import Skipped, Value
from llmops.models.gguf_reader import unreadable

MAX_LAYERS = 512  # LLAMA_MAX_LAYERS of llama.cpp b11434
MAX_VALUE = 2**31 - 1
# Families that run all layers of the file several times over, each time with caches of their own, and the key that says
# how often (src/models/nanbeige.cpp, b11434).
LOOPS = {"nanbeige": "num_loops"}
# Families with one layer more than the file says, behind the last one (src/models/granite-switch.cpp, b11434).
ROUTED = frozenset({"graniteswitch"})


class Facts:
    """The metadata of one model; keys without `general.` or `tokenizer.` are those of its architecture."""

    def __init__(self, path: str, metadata: Mapping[str, Value]) -> None:
        self.path = path
        self._metadata = metadata
        self.architecture = self.text("general.architecture") or ""
        if not self.architecture:
            raise unreadable(path, "does not say its architecture (general.architecture)")

    @property
    def blocks(self) -> int:
        """Every layer that the engine counts: those of draft heads too, looped ones as often as they run."""
        count = self._stored_blocks * self._loops + (self.architecture in ROUTED)
        if count > MAX_LAYERS:
            raise self.wrong("block_count", count)
        return count

    @property
    def _stored_blocks(self) -> int:
        return self.integer("block_count", least=1)

    @property
    def _loops(self) -> int:
        key = LOOPS.get(self.architecture)
        return self.integer(key, 1, least=1) if key else 1

    @property
    def layers(self) -> int:
        """The layers of the main model, without those that only predict further tokens or route them."""
        draft = int(self.architecture in ROUTED) or self.integer("nextn_predict_layers", 0)
        if draft >= self.blocks:
            raise self.wrong("nextn_predict_layers", draft)
        return self.blocks - draft

    def _find(self, key: str) -> Value | None:
        if key.startswith(("general.", "tokenizer.", "split.")):
            return self._metadata.get(key)
        return self._metadata.get(f"{self.architecture}.{key}")

    def wrong(self, key: str, value: object) -> UnreadableInput:
        """The complaint about a value that cannot be true."""
        return unreadable(self.path, f"{key} of {self.architecture} is {brief(value)}, which cannot be")

    def has(self, key: str) -> bool:
        """Whether the key is there at all."""
        return self._find(key) is not None

    def items(self, key: str) -> int:
        """How many items an array has, 0 where there is none."""
        value = self._find(key)
        if isinstance(value, Skipped):
            return value.items
        return len(value) if isinstance(value, tuple) else 0

    def shown(self, key: str) -> str:
        """A value as it is written in a message; lists by their least and greatest number."""
        value = self._find(key)
        if isinstance(value, Skipped) or value == ():
            return f"a list of {self.items(key)}"
        return f"{min(value)} to {max(value)}" if isinstance(value, tuple) else brief(value)

    def text(self, key: str) -> str | None:
        """A string, or None."""
        value = self._find(key)
        return value if isinstance(value, str) else None

    def integer(self, key: str, default: int | None = None, *, least: int = 0) -> int:
        """One whole number of at least `least`; the default where the key is absent, required without one."""
        value = self._find(key)
        if value is None:
            if default is None:
                raise unreadable(self.path, f"{key} of {self.architecture} is missing from its metadata")
            return default
        return self._whole(key, value, least)

    def _whole(self, key: str, value: object, least: int = 0) -> int:
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= MAX_VALUE:
            raise self.wrong(key, value)
        return value

    def per_layer(self, key: str, default: tuple[int, ...] | None = None) -> tuple[int, ...]:
        """One whole number for each block: an array as long as the file's blocks, or one number for all."""
        value = self._find(key)
        if value is None and default is not None:
            return default
        if not isinstance(value, tuple):
            return (self.integer(key),) * self.blocks
        stored = self._stored_blocks
        if isinstance(value, Skipped) or len(value) != stored:
            raise unreadable(
                self.path, f"{key} of {self.architecture} has {self.items(key)} values for {stored} layers"
            )
        found = tuple(self._whole(key, item) for item in value) * self._loops
        return found + found[-1:] * (self.blocks - len(found))

    def switches(self, key: str) -> tuple[bool, ...] | None:
        """An array of yes and no, of any length up to the limit of layers; None where the key holds no array."""
        value = self._find(key)
        if not isinstance(value, tuple):
            return None
        if isinstance(value, Skipped) or len(value) > MAX_LAYERS:
            raise unreadable(self.path, f"{key} of {self.architecture} is not a list of at most {MAX_LAYERS} layers")
        return tuple(bool(item) for item in value)
