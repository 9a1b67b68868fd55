"""Models at their published sizes, one or more of every family, for files that hold shapes only."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from tests.truth.shapes import attention, hybrid, latent, looped
from tests.truth.shapes.shape import Shape
from tests.truth.shapes.sizes import DEEPSEEK_V2_LITE, GEMMA_2_9B, GLM_5, QWEN_3_5_9B

PUBLISHED: dict[str, Callable[[], Shape]] = {
    "qwen3-8b": attention.qwen3,
    "gemma3-12b": attention.gemma,
    "gpt-oss-20b": attention.gpt_oss,
    "qwen3-next-80b": hybrid.qwen_hybrid,
    "deepseek-v3": latent.deepseek2,
    "llama-3.1-8b": attention.llama,
    "qwen3-30b-a3b": attention.qwen3moe,
    "gemma2-9b": GEMMA_2_9B,
    "gemma3n-e4b": attention.gemma3n,
    "gemma4-e4b": attention.gemma4,
    "gemma4-26b-a4b": partial(
        attention.gemma4,
        layers=30,
        embedding=2816,
        count=16,
        kv_heads=(2, 8),
        width=2112,
        window=1024,
        shared=0,
        inner=0,
        expert_count=128,
        context=262_144,
    ),
    "command-r7b": attention.cohere2,
    "llama-4-scout": attention.llama4,
    "phi-3-mini-4k": attention.phi3,
    "glm-4.5-air": attention.glm4moe,
    "openelm-1.1b": attention.openelm,
    "nemotron-49b-like": attention.deci,
    "deepseek-v2-lite": DEEPSEEK_V2_LITE,
    "deepseek-v2-lite-old": partial(DEEPSEEK_V2_LITE, split=False),
    "kimi-k2": partial(latent.deepseek2, count=64, expert_count=384, dense=1, vocabulary=163_840, context=131_072),
    "glm-4.7-flash": partial(
        latent.deepseek2,
        layers=47,
        embedding=2048,
        count=20,
        plain=192,
        value=256,
        query_rank=768,
        expert_count=64,
        used=4,
        expert_width=1536,
        width=10_240,
        dense=1,
        vocabulary=154_880,
        context=202_752,
    ),
    "deepseek-v3.2": partial(latent.deepseek2, "deepseek32", draft_layers=1),
    "glm-5": GLM_5,
    "minicpm3-4b": latent.minicpm3,
    "plm-1.8b": latent.plm,
    "qwen3.5-9b": QWEN_3_5_9B,
    "qwen3.5-9b-mtp": partial(QWEN_3_5_9B, draft_layers=1),
    "qwen3.5-35b-a3b": partial(
        hybrid.qwen_hybrid, "qwen35moe", layers=40, expert_count=256, used=8, vocabulary=248_320
    ),
    "granite-4-h-tiny": hybrid.granite_hybrid,
    "nemotron-h-8b": hybrid.nemotron_h,
    "nemotron-3-nano-30b": partial(
        hybrid.nemotron_h,
        "nemotron_h_moe",
        pattern="MEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEMEM*EMEMEMEME".replace("E", "-"),
        embedding=2688,
        count=32,
        kv_heads=2,
        inner=4096,
        ssm_heads=64,
        width=1856,
    ),
    "jamba-mini": hybrid.jamba,
    "lfm2-1.2b": hybrid.lfm2,
    "lfm2-8b-a1b": partial(
        hybrid.lfm2, "lfm2moe", attends=(2, 6, 10, 14, 18, 21), layers=24, width=7168, vocabulary=65_536
    ),
    "falcon-h1-7b": hybrid.falcon_h1,
    "kimi-linear-48b": hybrid.kimi_linear,
    "plamo2-8b": hybrid.plamo2,
    "mamba-2.8b": hybrid.mamba,
    "codestral-mamba-7b": hybrid.mamba2,
    "rwkv6-1.6b": hybrid.rwkv6,
    "nanbeige-4.2-3b": looped.nanbeige,
    "hrm-text-1b": looped.hrm_text,
    "granite-switch-8b": looped.granite_switch,
    "talkie-13b": looped.talkie,
}
