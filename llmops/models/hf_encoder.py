"""The part of a config.json that describes what reads pictures or sound: its widths, and how patches become tokens."""

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
# Processors that cut into 16 tiles at most, the whole picture beside them (Llama 4, Idefics 3).
_SIXTEEN_TILES = 17
# Positions of Whisper's encoder that become one token (voxtral.py); another number of them is in the file.
_SOUND_RATIO = 4
# Positions of 500 seconds, the longest sound of Granite Speech (granite_speech.py: get_max_audio_len).
_CONFORMER_POSITIONS = 25_000
# MiniCPM-V 4.6 and later join so many patches (minicpmv4_6.py: downsample_mode).
_MODES = ("4", "16")
_LEAST_SHARE = 1 / 64
# Gemma 3n's MobileNet V5 (timm, mobilenetv5.py): a picture of 768 pixels a side is 256 tokens (gemma3n_mm.py), and
# widest where 192 by 192 positions have 768 channels.
_MOBILENET, _MOBILENET_WIDTH, _MOBILENET_POSITIONS, _MOBILENET_TOKENS = "mobilenetv5_300m_enc", 768, 192**2, 256
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
    """The shape of the encoder for pictures, or for sound alone; None where there is none or its sizes are not given.

    `processor` is preprocessor_config.json, which says how large pictures may be.
    """
    part = whole.part("vision_config")
    if part is None:
        sound = whole.part("audio_config") or whole.part("encoder_config")
        return None if sound is None else _listener(whole, sound)
    kind = str(part.values.get("model_type") or whole.values.get("model_type") or "")
    if part.values.get("architecture") == _MOBILENET:
        joined = _MOBILENET_POSITIONS // _MOBILENET_TOKENS
        return EncoderShape(_MOBILENET_WIDTH, _MOBILENET_WIDTH, joined, _MOBILENET_TOKENS, kind=kind)
    width = _integer(part, "embed_dim") or _integer(part, "hidden_size") or _integer(part, "vt_hidden_size")
    item = _largest_item(whole, part, processor)
    if not width or item is None:
        return None
    frames = _integer(part, "temporal_patch_size") or 1
    deep = part.values.get("deepstack_visual_indexes")
    # A projector that is wider than the encoder (cohere2_vision.py), for the patches that it joins.
    projector = _integer(whole, "alignment_intermediate_size") // item.patches_per_token
    return EncoderShape(
        width,
        max(_inner_width(part, kind, width), projector),
        *item,
        kind=kind,
        patch_length=_COLORS * frames * _integer(part, "patch_size") ** 2,
        positions=_integer(part, "position_embedding_size"),
        outputs=1 + (len(deep) if isinstance(deep, list) else 0),
    )


def _inner_width(part: ConfigFacts, kind: str, width: int) -> int:
    """GLM-4V's layers are as wide inside as the language model: intermediate_size is its merger's (glm4_1v.py)."""
    if kind.startswith("glm4v"):
        return _integer(part, "out_hidden_size") or width * _INNER_RATIO
    inner = _integer(part, "intermediate_size") or _integer(part, "vt_intermediate_size")
    return inner or width * (_integer(part, "mlp_ratio") or _INNER_RATIO)


def _listener(whole: ConfigFacts, part: ConfigFacts) -> EncoderShape | None:
    """An encoder like Whisper's or a conformer; None for another one."""
    width = _integer(part, "d_model") or _integer(part, "hidden_size") or _integer(part, "hidden_dim")
    times = _integer(part, "feedforward_mult")
    inner = _integer(part, "encoder_ffn_dim") or _integer(part, "intermediate_size") or width * times
    positions = _integer(part, "max_source_positions") or (_CONFORMER_POSITIONS if times else 0)
    if not (width and inner and positions):
        return None
    ratio = _integer(whole, "stack_factor") or _integer(whole, "downsample_rate") or _SOUND_RATIO
    kind = str(part.values.get("model_type") or "")
    return EncoderShape(width, inner, ratio, max(-(-positions // ratio), 1), kind=kind)


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
    """Encoders of one size: large pictures are cut into tiles, and several patches of a tile may become one token."""
    side, patch = _integer(whole, "image_size"), _integer(part, "patch_size")
    queries = _integer(whole, "query_num") or _integer(whole, "num_query_tokens")
    if side and patch and queries:  # MiniCPM-V's slices are smaller than the encoder could read
        patches = (side // patch) ** 2
    patches = patches or _integer(part, "num_patches")
    if not patches:
        return None
    ratio = patches // queries if queries else _joined(whole, part)
    ratio = min(max(ratio, 1), patches)
    tiles = _TILES
    if _integer(whole, "max_dynamic_patch"):
        tiles = _integer(whole, "max_dynamic_patch") + 1
    elif "pixel_shuffle_ratio" in part.values or "scale_factor" in whole.values:
        tiles = _SIXTEEN_TILES
    return _Item(ratio, max(patches * tiles // ratio, 1))


def _joined(whole: ConfigFacts, part: ConfigFacts) -> int:
    """Patches that become one token, as each family calls it: of the whole (16x), or a factor or a share of a side."""
    mode = str(whole.values.get("downsample_mode", "")).removesuffix("x")
    if mode in _MODES:
        return int(mode)
    factor = _integer(whole, "downsample_factor") or _integer(whole, "scale_factor")
    if factor:
        return int(factor**2)
    share = whole.values.get("downsample_ratio", part.values.get("pixel_shuffle_ratio"))
    if isinstance(share, (int, float)) and not isinstance(share, bool) and _LEAST_SHARE <= share <= 1:
        return round(1 / share**2)
    return 1


def _integer(facts: ConfigFacts, key: str, most: int = _MOST) -> int:
    """A whole number that can be a size, or the first of a pair; 0 for anything else: nothing else depends on it."""
    value = facts.values.get(key)
    if isinstance(value, list) and value:
        value = value[0]
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 < value <= most else 0
