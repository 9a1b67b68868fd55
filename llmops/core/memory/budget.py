"""A memory budget of one device or of the host: named parts that sum to what is available."""

from __future__ import annotations

from dataclasses import dataclass

PARTS = (
    "weights_bytes",
    "cache_bytes",
    "state_bytes",
    "compute_bytes",
    "output_bytes",
    "runtime_bytes",
    "prompt_cache_bytes",
    "reserve_bytes",
)


@dataclass(frozen=True)
class MemoryBudget:
    """Parts of one device's memory, in bytes; parts + free = available (free is negative where it does not fit).

    `ranges` gives (part, low, high, why it is a range); the part itself then holds the high end. A paged cache also
    has `cache_tokens` as its engine prints it, those of them that requests can use, how many requests of the longest
    length fit at once, and what all slots, and one alone, need of it when full; its `cache_bytes` are the whole pool.
    """

    device: str
    total_bytes: int
    available_bytes: int
    weights_bytes: int = 0
    cache_bytes: int = 0
    state_bytes: int = 0
    compute_bytes: int = 0
    output_bytes: int = 0
    runtime_bytes: int = 0
    prompt_cache_bytes: int = 0
    reserve_bytes: int = 0
    ranges: tuple[tuple[str, int, int, str], ...] = ()
    cache_tokens: int | None = None
    usable_cache_tokens: int | None = None
    max_concurrency: float | None = None
    needed_cache_bytes: int | None = None
    request_cache_bytes: int | None = None

    @property
    def used_bytes(self) -> int:
        """The sum of all parts."""
        return sum(getattr(self, part) for part in PARTS)

    @property
    def required_bytes(self) -> int:
        """What must be there at least: of a pool of pages only what full slots need."""
        if self.needed_cache_bytes is None:
            return self.used_bytes
        return self.used_bytes - self.cache_bytes + self.needed_cache_bytes

    @property
    def free_bytes(self) -> int:
        """What is left; negative when the plan does not fit."""
        return self.available_bytes - self.used_bytes
