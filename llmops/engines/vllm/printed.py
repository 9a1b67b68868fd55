"""The tokens of the cache as the start of a vLLM prints them."""

from __future__ import annotations

import re

# What finds the line in a journal.
CACHE_WORDS = "KV cache size:"
# One line with the concurrency since 0.28.0, two before; the first word is the device since 0.30.0
# (vllm/v1/core/kv_cache_utils.py).
_CACHE = re.compile(rf"\w+ {CACHE_WORDS} ([\d,]+) tokens")


def printed_cache_tokens(log: str) -> int | None:
    """The least of several engines; None where the log does not say."""
    return min((int(text.replace(",", "")) for text in _CACHE.findall(log)), default=None)
