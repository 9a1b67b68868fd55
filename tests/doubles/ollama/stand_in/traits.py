"""What the pretended version does differently from the others."""

from __future__ import annotations

import re
from dataclasses import dataclass

DEFAULT_VERSION = "0.32.15"

# Families that Ollama gives one slot whatever is asked, with the version that began it.
ONE_SLOT_FAMILIES = {
    "mllama": (0, 5, 0),
    "qwen3vl": (0, 12, 7),
    "qwen3vlmoe": (0, 12, 7),
    "qwen3next": (0, 15, 5),
    "lfm2": (0, 15, 5),
    "lfm2moe": (0, 15, 5),
    "nemotron_h": (0, 17, 1),
    "nemotron_h_moe": (0, 17, 1),
    "qwen35": (0, 17, 1),
    "qwen35moe": (0, 17, 1),
    "nemotron_h_omni": (0, 22, 1),
}


@dataclass(frozen=True)
class Traits:
    """The behaviour of one version."""

    version: str

    @property
    def number(self) -> tuple[int, ...]:
        """The version as numbers."""
        return tuple(int(part) for part in re.findall(r"\d+", self.version)[:3])

    @property
    def wraps_llama_server(self) -> bool:
        """From 0.30 on, one llama-server runs for each loaded model; before, a runner of Ollama's own."""
        return self.number >= (0, 30, 0)

    @property
    def loaded_model_bypasses_queue(self) -> bool:
        """Whether a request for a loaded model goes past the queue of loads."""
        return self.number >= (0, 11, 5)

    @property
    def tells_context(self) -> bool:
        """Whether /api/ps has context_length."""
        return self.number >= (0, 10, 0)

    @property
    def loads_by_message(self) -> bool:
        """Whether the old runner is told its settings by a message and not on its command line."""
        return self.number >= (0, 11, 5)

    def default_parallel(self) -> int:
        """OLLAMA_NUM_PARALLEL where it is not set, on a machine without a GPU."""
        if self.number >= (0, 10, 0):
            return 1
        return 2 if self.number >= (0, 6, 7) else 4

    def default_context(self, total_vram_bytes: int) -> int:
        """Tokens of one slot where OLLAMA_CONTEXT_LENGTH is not set."""
        if self.number < (0, 15, 5):
            return 4096 if self.number >= (0, 6, 7) else 2048
        gib = total_vram_bytes / (1 << 30)
        if gib >= 47:
            return 262144
        return 32768 if gib >= 23 else 4096

    def has_one_slot(self, family: str) -> bool:
        """Whether this family is forced to one slot."""
        return self.number >= ONE_SLOT_FAMILIES.get(family, (1 << 30,))

    def cut_to(self, context: int, keep: int, *, shift: bool) -> tuple[int, int] | None:
        """(limit, tokens that stay) of a prompt that is too long; None where it is refused."""
        if not self.wraps_llama_server:
            return context, context
        if self.number < (0, 30, 9):
            return context, context - 1
        if not shift:
            return None
        if self.number < (0, 30, 11):
            return context - 1, context - 1
        room = context - max((context - keep) // 2, 1)
        return room, room
