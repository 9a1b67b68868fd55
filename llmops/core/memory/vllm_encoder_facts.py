"""The tables of vLLM's picture encoders: rows alive for a patch, what is profiled, and what changed between versions.

Rows were counted while vLLM 0.32.0's own modules ran on a processor with every live tensor watched; inputs and budgets
are those of vllm/multimodal/encoder_budget.py and of each family's get_mm_max_tokens_per_item.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from llmops.core.memory.vllm_facts import FIRST
from llmops.core.version import Since, Timeline, Version

_MODELS = "vllm/model_executor/models"


@dataclass(frozen=True)
class Tower:
    """Rows alive for one patch at the widest point of a layer, in 16 bit.

    `whole` and `divided` are as wide as the encoder (the second are divided over a tensor-parallel group), `inner` as
    its inner width: least and most, as activations run as one kernel or step by step.
    """

    whole: int
    divided: int
    inner: tuple[int, int]
    rotates: bool = True


_QWEN2, _QWEN25, _QWEN3 = Tower(4, 8, (2, 3)), Tower(4, 8, (3, 4)), Tower(4, 8, (2, 2))
# Releases of transformers add _vision to the name that a checkpoint gives its encoder.
_QWEN3_NAMES = ("qwen3_vl", "qwen3_vl_moe", "qwen3_5", "qwen3_5_moe")
_SIGLIP = Tower(4, 4, (2, 2), rotates=False)
TOWERS: Mapping[str, Tower] = {
    **dict.fromkeys(("qwen2_vl", "qwen2_vl_vision"), _QWEN2),
    **dict.fromkeys(("qwen2_5_vl", "qwen2_5_vl_vision"), _QWEN25),
    **dict.fromkeys((f"{name}{end}" for name in _QWEN3_NAMES for end in ("", "_vision")), _QWEN3),
    **dict.fromkeys(("glm4v", "glm4v_moe", "glm4v_vision", "glm4v_moe_vision"), _QWEN25),
    **dict.fromkeys(("siglip_vision_model", "siglip", "intern_vit_6b", "internvl_vision"), _SIGLIP),
    **dict.fromkeys(("idefics3", "idefics3_vision", "smolvlm_vision"), _SIGLIP),
    "clip_vision_model": Tower(4, 4, (2, 3), rotates=False),
    "pixtral": Tower(6, 8, (3, 4)),
    "llama4_vision_model": Tower(4, 12, (2, 2)),
    "moonvit": Tower(4, 20, (2, 2)),
    "gemma4_vision": Tower(4, 8, (3, 4)),
    # No attention: 180 MiB for a picture, and what cuDNN's convolutions keep beside it, on every card.
    "gemma3n_vision": Tower(3, 0, (0, 0), rotates=False),
}
# Rows that some attention kernels add: queries, keys and values laid out anew. One card with a flash kernel took them.
PLAIN_ATTENTION_ROWS = 3
# A vision model compiled against the count, and what kernels keep beside it.
SHARE = (0.9, 1.1)
# Rotated queries and keys were copied and turned in 32 bits: twice the divided rows.
ROTATES_IN_FLOAT = Timeline(
    (
        Since(FIRST, value=True, source=f"{_MODELS}/qwen2_vl.py: apply_rotary_pos_emb_vision, t.float()"),
        Since(Version((0, 13, 0)), value=False, source=f"{_MODELS}/qwen2_5_vl.py: ApplyRotaryEmb"),
    )
)
# Pairs of frames of the longest video, each as large as the largest picture, as far as the context holds them.
_QWEN2_PAIRS = Timeline(
    (
        Since(FIRST, 8, f"{_MODELS}/qwen2_vl.py: _MAX_FRAMES_PER_VIDEO = 16"),
        Since(Version((0, 11, 0)), 7, f"{_MODELS}/qwen2_vl.py: _MAX_FRAMES_PER_VIDEO = 14"),
    )
)
VIDEO_PAIRS = dict.fromkeys(("qwen2_vl", "qwen2_5_vl", "qwen2_vl_vision", "qwen2_5_vl_vision"), _QWEN2_PAIRS)
# GLM-4V: a video of the largest pictures as far as the context holds it beside one, or of 30,000 tokens at most.
GLM4V_IMAGE_TOKENS = Timeline(
    (
        Since(FIRST, 3_750, f"{_MODELS}/glm4_1v.py: the largest picture of 16 frames"),
        Since(Version((0, 17, 0)), 6_144, f"{_MODELS}/glm4_1v.py: num_frames=1, _get_image_max_pixels"),
    )
)
GLM4V_VIDEO_TOKENS = 30_000
# Sound as long as the longest request (voxtral.py: get_max_audio_tokens).
LISTENS_TO_THE_END = ("voxtral_encoder",)
# Qwen3-VL was profiled with a video of 25,165,824 pixels, its cache with 12.5 tokens for each of them.
QWEN3_VIDEO_TOKENS, QWEN3_VIDEO_FACTOR = 12_288, 12.5
QWEN3_BY_VIDEO = Timeline(
    (
        Since(FIRST, value=True, source=f"{_MODELS}/qwen3_vl.py: formatted_video_soft_tokens"),
        Since(Version((0, 13, 0)), value=False, source=f"{_MODELS}/qwen3_vl.py: the largest picture has more"),
    )
)
# Whether what the encoder made was padded to the whole budget of its cache, for each input.
PADS_OUTPUTS = Timeline(
    (
        Since(FIRST, value=False, source="vllm/v1/worker/gpu_model_runner.py: kept as it is"),
        Since(Version((0, 11, 0)), value=True, source="vllm/v1/worker/gpu_model_runner.py: expanded to encoder_budget"),
        Since(Version((0, 12, 0)), value=False, source="vllm/v1/worker/gpu_model_runner.py: kept as it is"),
    )
)
# Whether pictures were kept apart by a square of all their patches where xformers is absent.
MASKS_PICTURES = Timeline(
    (
        Since(FIRST, value=True, source=f"{_MODELS}/pixtral.py: generate_block_attention_mask"),
        Since(Version((0, 32, 0)), value=False, source=f"{_MODELS}/pixtral.py: MMEncoderAttention"),
    )
)
# Gemma 4: frames of a video one by one, or as many as a tenth of the card holds of their positions.
GEMMA4_BY_CHUNKS = Timeline(
    (
        Since(FIRST, value=False, source=f"{_MODELS}/gemma4_mm.py: for i in range(pv_chunk.shape[0])"),
        Since(Version((0, 22, 0)), value=True, source=f"{_MODELS}/gemma4_mm.py: _encoder_chunk"),
    )
)
GEMMA4_FRAMES, GEMMA4_FRAME_TOKENS, GEMMA4_COUNTED_BYTES = 32, 70, 32
# A position of each axis became a row as long as their table, of 8 bytes and again of 2 (F.one_hot), up to transformers
# 5.9; 5.10 of 2026-06-03 takes rows of the table itself. 0.23.0 is the first release after it.
POSITION_BYTES = Timeline(
    (
        Since(FIRST, 2 * (8 + 2), "transformers 5.9, modeling_gemma4.py: one_hot @ position_embedding_table"),
        Since(Version((0, 23, 0)), 0, "transformers 5.10, modeling_gemma4.py: F.embedding"),
    )
)
# Another encoder: rows of a layer, and what may be alive against them.
OTHER_ROWS, OTHER_INNER_ROWS, OTHER_SHARE = 6, 3, 1.6
