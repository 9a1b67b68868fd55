"""Ways to serve a model that each change what lies beside the weights: slots, context, pools, batches, cache types."""

from __future__ import annotations

from dataclasses import replace

from llmops.core.memory.ggml_settings import GgmlSettings

ONE = GgmlSettings(slots=1, context_tokens_per_slot=8192, prompt_cache_bytes=0, context_checkpoints=0)
SETTINGS = {
    "1 x 8192": ONE,
    "4 x 8192": replace(ONE, slots=4),
    "4 x 8192 in one pool": replace(ONE, slots=4, kv_unified=True),
    "1 x 32768, batches of 2048": replace(ONE, context_tokens_per_slot=32_768, ubatch_tokens=2048),
    "2 x 4096, no flash attention": replace(ONE, slots=2, context_tokens_per_slot=4096, flash_attention=False),
    "3 x 3000, 8 bit, batches of 256": replace(
        ONE, slots=3, context_tokens_per_slot=3000, cache_type_k="q8_0", cache_type_v="q8_0", ubatch_tokens=256
    ),
    "16 x 1024, batches of 64": replace(ONE, slots=16, context_tokens_per_slot=1024, ubatch_tokens=64),
    "1 x 32768, no flash attention": replace(ONE, context_tokens_per_slot=32_768, flash_attention=False),
}
