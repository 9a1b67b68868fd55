"""One layer's share of vLLM's pages: what attention layers and layers with states have in common."""

from __future__ import annotations

from dataclasses import dataclass

DTYPE_BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}


@dataclass(frozen=True)
class CacheLayer:
    """One layer's share of a page table on one card.

    `kind` is full, window, chunked, latent, state or states; `window_tokens` is the window or chunk. `token_bytes` is 0
    for a state, which takes `state_blocks` pages of `page_bytes` for each request instead; of states there is one more
    for each block.
    """

    kind: str
    token_bytes: int
    block_tokens: int
    page_bytes: int
    window_tokens: int | None = None
    state_blocks: int = 0
    layer: int | None = None
