"""What the profiled pass of a picture encoder takes on one card, from its largest inputs and the rows of a patch."""

from __future__ import annotations

from dataclasses import dataclass

from llmops.core.memory.vllm_defaults import Batch, CardFacts, longest_request
from llmops.core.memory.vllm_encoder_facts import (
    GEMMA4_BY_CHUNKS,
    GEMMA4_COUNTED_BYTES,
    GEMMA4_FRAME_TOKENS,
    GEMMA4_FRAMES,
    GLM4V_IMAGE_TOKENS,
    GLM4V_VIDEO_TOKENS,
    LISTENS_TO_THE_END,
    MASKS_PICTURES,
    OTHER_INNER_ROWS,
    OTHER_ROWS,
    OTHER_SHARE,
    PADS_OUTPUTS,
    PLAIN_ATTENTION_ROWS,
    POSITION_BYTES,
    QWEN3_BY_VIDEO,
    QWEN3_VIDEO_FACTOR,
    QWEN3_VIDEO_TOKENS,
    ROTATES_IN_FLOAT,
    SHARE,
    TOWERS,
    VIDEO_PAIRS,
    Tower,
)
from llmops.core.memory.vllm_settings import VllmSettings
from llmops.core.model import EncoderShape, ModelSpec


@dataclass(frozen=True)
class EncoderPass:
    """Bytes at the widest point of the pass, and of what it made, which stays while the model's own pass runs."""

    low: int
    high: int
    kept: int
    reason: str


@dataclass(frozen=True)
class _Inputs:
    """Patches of all profiled inputs, their tokens, and the tokens that their cache is made for."""

    patches: int
    tokens: int
    cached_tokens: int


def encoder_pass(model: ModelSpec, settings: VllmSettings, batch: Batch, card: CardFacts) -> EncoderPass | None:
    """The profiled pass with as many of the largest inputs as a step holds, at least one; None without an encoder."""
    shape = model.encoder
    if shape is None:
        return None
    inputs = _inputs(shape, model, settings, batch)
    kept = 2 * inputs.cached_tokens * model.embedding_length * shape.outputs
    tower = TOWERS.get(shape.kind)
    if tower is None:
        most = 2 * (OTHER_ROWS * shape.embedding_length + OTHER_INNER_ROWS * shape.feed_forward_length) * OTHER_SHARE
        return EncoderPass(0, int(inputs.patches * most) + kept, kept, "the largest pictures in the encoder")
    if shape.kind == "gemma4_vision":
        low, high = _gemma4(shape, tower, inputs, settings, card)
    else:
        low, high = _patches(shape, tower, inputs.patches, settings)
    if shape.kind == "pixtral" and MASKS_PICTURES.at(settings.version):
        high += 4 * inputs.patches**2
    reason = f"the encoder with pictures of {inputs.tokens} tokens, by what its attention and activations copy"
    return EncoderPass(low, high + kept, kept, reason)


def _inputs(shape: EncoderShape, model: ModelSpec, settings: VllmSettings, batch: Batch) -> _Inputs:
    longest = longest_request(model, settings)
    tokens = cached = _largest(shape, longest, settings)
    if shape.kind.startswith("qwen3_vl") and QWEN3_BY_VIDEO.at(settings.version):
        tokens, cached = QWEN3_VIDEO_TOKENS, int(QWEN3_VIDEO_TOKENS * QWEN3_VIDEO_FACTOR)
    budget = max(batch.tokens, cached)
    items = max(min(budget // cached, batch.requests * max(longest // cached, 1)), 1)
    made = budget if PADS_OUTPUTS.at(settings.version) else tokens
    return _Inputs(items * tokens * shape.patches_per_token, items * tokens, items * made)


def _largest(shape: EncoderShape, longest: int, settings: VllmSettings) -> int:
    """Tokens of the largest input that a request of `longest` tokens may hold."""
    tokens = shape.largest_tokens
    pairs = VIDEO_PAIRS.get(shape.kind)
    if pairs is not None:
        return tokens * max(min(longest // tokens, pairs.at(settings.version)), 1)
    if shape.kind.startswith("intern"):
        return max(tokens, longest - tokens)
    if shape.kind.startswith("glm4v"):
        picture = GLM4V_IMAGE_TOKENS.at(settings.version)
        room = longest - picture
        return GLM4V_VIDEO_TOKENS if room >= GLM4V_VIDEO_TOKENS else picture * max(room // picture, 1)
    return max(longest, tokens) if shape.kind in LISTENS_TO_THE_END else tokens


def _patches(shape: EncoderShape, tower: Tower, patches: int, settings: VllmSettings) -> tuple[int, int]:
    """Least and most bytes of a pass over so many patches."""
    ranks = settings.tensor_parallel
    width, inner = shape.embedding_length, shape.feed_forward_length
    turned = 2 if tower.rotates and ROTATES_IN_FLOAT.at(settings.version) else 1
    ends = []
    for divided, steps in (
        (tower.divided, tower.inner[0]),
        (turned * tower.divided + PLAIN_ATTENTION_ROWS, tower.inner[1]),
    ):
        attention = tower.whole * width + divided * width // ranks
        ends.append(shape.patch_length + max(attention, tower.whole * width + steps * inner // ranks))
    return int(2 * patches * ends[0] * SHARE[0]), int(2 * patches * ends[1] * SHARE[1])


def _gemma4(
    shape: EncoderShape, tower: Tower, inputs: _Inputs, settings: VllmSettings, card: CardFacts
) -> tuple[int, int]:
    """All frames lie there; the encoder takes one after the other, or as many as their positions leave room for."""
    frame = GEMMA4_FRAME_TOKENS * shape.patches_per_token
    frames = max(-(-inputs.tokens // shape.largest_tokens) * GEMMA4_FRAMES, 1)
    at_once = 1
    if GEMMA4_BY_CHUNKS.at(settings.version):
        at_once = max(card.total_bytes // 10 // max(frame * GEMMA4_COUNTED_BYTES * shape.positions, 1), 1)
    at_once = min(at_once, frames)
    laid = 2 * frames * frame * shape.patch_length
    low, high = _patches(shape, tower, at_once * frame, settings)
    positions = at_once * frame * POSITION_BYTES.at(settings.version) * shape.positions
    return laid + low, 2 * laid + max(high, positions)
