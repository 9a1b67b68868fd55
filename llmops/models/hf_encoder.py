"""The part of a config.json that describes what reads pictures: how wide it is and how many patches become a token."""

from __future__ import annotations

from typing import NamedTuple

from llmops.core.model import EncoderShape
from llmops.models.hf_config import ConfigFacts

# Processors without a fixed picture size cut the largest one to so many tokens (16,777,216 pixels in squares of 32).
_FREE_SIZE_TOKENS = 16_384
# vllm/model_executor/models/gemma4_mm.py: 32 frames of a video, each 70 tokens and 8 between them.
_VIDEO_TOKENS = 32 * 78
# Pictures larger than the encoder's own size are cut into as many tiles, the whole one beside them.
_TILES = 5
# Llama 4's processor cuts into 16 tiles at most (max_patches), the whole picture beside them.
_LLAMA4_TILES = 17
_INNER_RATIO = 4
_COLORS = 3
_MOST = 1 << 20
_MOST_PIXELS = 1 << 31


class _Item(NamedTuple):
    """Patches for a token, tokens of the largest input, and those that one step must hold together."""

    patches_per_token: int
    largest_tokens: int
    whole_tokens: int = 0


def encoder_shape(whole: ConfigFacts, processor: ConfigFacts | None = None) -> EncoderShape | None:
    """The shape of the encoder for pictures; None where there is none or its sizes are not given.

    `processor` is preprocessor_config.json, which says how large pictures may be.
    """
    part = whole.part("vision_config")
    if part is None:
        return None
    width = _integer(part, "embed_dim") or _integer(part, "hidden_size") or _integer(part, "vt_hidden_size")
    item = _largest_item(whole, part, processor)
    if not width or item is None:
        return None
    inner = _integer(part, "intermediate_size") or _integer(part, "vt_intermediate_size")
    inner = inner or width * (_integer(part, "mlp_ratio") or _INNER_RATIO)
    frames = _integer(part, "temporal_patch_size") or 1
    deep = part.values.get("deepstack_visual_indexes")
    return EncoderShape(
        width,
        inner,
        *item,
        kind=str(part.values.get("model_type") or whole.values.get("model_type") or ""),
        patch_length=_COLORS * frames * _integer(part, "patch_size") ** 2,
        positions=_integer(part, "position_embedding_size"),
        outputs=1 + (len(deep) if isinstance(deep, list) else 0),
    )


def _largest_item(whole: ConfigFacts, part: ConfigFacts, processor: ConfigFacts | None) -> _Item | None:
    side, patch = _integer(part, "image_size"), _integer(part, "patch_size")
    patches = (side // patch) ** 2 if side and patch and side >= patch else 0
    merge = _integer(part, "spatial_merge_size") or _integer(whole, "spatial_merge_size")
    pooled, pool = _integer(part, "default_output_length"), _integer(part, "pooling_kernel_size")
    fixed = _integer(whole, "mm_tokens_per_image")
    if pooled and pool:
        looks_both_ways = whole.language().values.get("use_bidirectional_attention") == "vision"
        return _Item(pool**2, max(pooled, _VIDEO_TOKENS), _VIDEO_TOKENS if looks_both_ways else 0)
    if fixed and patches:
        return _Item(max(patches // fixed, 1), fixed, fixed)
    if merge:
        free = _tokens_of(processor, patch * merge) or _FREE_SIZE_TOKENS
        return _Item(merge**2, max(patches // merge**2, 1) if patches else free)
    return _tiles(whole, part, patches)


def _tokens_of(processor: ConfigFacts | None, square: int) -> int:
    """Tokens of the largest picture that the processor makes, a square of so many pixels for each; 0 if not said."""
    size = processor.part("size") if processor is not None else None
    if processor is None or not square:
        return 0
    pixels = _integer(processor, "max_pixels", _MOST_PIXELS)
    pixels = pixels or (_integer(size, "longest_edge", _MOST_PIXELS) if size is not None else 0)
    return pixels // square**2 if pixels >= square**2 else 0


def _tiles(whole: ConfigFacts, part: ConfigFacts, patches: int) -> _Item | None:
    """Encoders of one size: large pictures are cut into tiles, and four patches of a tile may become one token."""
    if not patches:
        return None
    tiles = _integer(whole, "max_dynamic_patch")
    if tiles and "downsample_ratio" in whole.values:
        return _Item(4, patches * (tiles + 1) // 4)
    if "pixel_shuffle_ratio" in part.values:
        return _Item(4, patches * _LLAMA4_TILES // 4)
    return _Item(1, patches * _TILES)


def _integer(facts: ConfigFacts, key: str, most: int = _MOST) -> int:
    """A whole number that can be a size; 0 for anything else, since nothing else depends on it."""
    value = facts.values.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 < value <= most else 0
