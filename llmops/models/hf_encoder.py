"""The part of a config.json that describes what reads pictures: how wide it is and how many patches become a token."""

from __future__ import annotations

from llmops.core.model import EncoderShape
from llmops.models.hf_config import ConfigFacts

# Processors without a fixed picture size cut the largest one to so many tokens (16,777,216 pixels in squares of 32).
_FREE_SIZE_TOKENS = 16_384
# vllm/model_executor/models/gemma4_mm.py: 32 frames of a video, each 70 tokens and 8 between them.
_VIDEO_TOKENS = 32 * 78
# Pictures larger than the encoder's own size are cut into as many tiles, the whole one beside them.
_TILES = 5
_INNER_RATIO = 4
_MOST = 1 << 20


def encoder_shape(whole: ConfigFacts) -> EncoderShape | None:
    """The shape of the encoder for pictures; None where there is none or its sizes are not given."""
    part = whole.part("vision_config")
    if part is None:
        return None
    width = _integer(part, "embed_dim") or _integer(part, "hidden_size")
    item = _largest_item(whole, part)
    if not width or item is None:
        return None
    inner = _integer(part, "intermediate_size") or width * (_integer(part, "mlp_ratio") or _INNER_RATIO)
    return EncoderShape(width, inner, *item)


def _largest_item(whole: ConfigFacts, part: ConfigFacts) -> tuple[int, int, int] | None:
    """Patches for a token, tokens of the largest input, and those that one step must hold together."""
    side, patch = _integer(part, "image_size"), _integer(part, "patch_size")
    patches = (side // patch) ** 2 if side and patch and side >= patch else 0
    merge = _integer(part, "spatial_merge_size") or _integer(whole, "spatial_merge_size")
    pooled, pool = _integer(part, "default_output_length"), _integer(part, "pooling_kernel_size")
    fixed = _integer(whole, "mm_tokens_per_image")
    if pooled and pool:
        looks_both_ways = whole.language().values.get("use_bidirectional_attention") == "vision"
        return pool**2, max(pooled, _VIDEO_TOKENS), _VIDEO_TOKENS if looks_both_ways else 0
    if fixed and patches:
        return max(patches // fixed, 1), fixed, fixed
    if merge:
        return merge**2, max(patches // merge**2, 1) if patches else _FREE_SIZE_TOKENS, 0
    return (1, patches * _TILES, 0) if patches else None


def _integer(facts: ConfigFacts, key: str) -> int:
    """A whole number that can be a size; 0 for anything else, since nothing else depends on it."""
    value = facts.values.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 < value <= _MOST else 0
