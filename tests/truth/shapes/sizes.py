"""Published sizes of models that more than one table names."""

from __future__ import annotations

from functools import partial

from tests.truth.shapes import attention, hybrid, latent

COMMAND_R_35B = partial(
    attention.llama, layers=40, embedding=8192, count=64, kv_heads=64, width=22_528, vocabulary=256_000, tied=True
)
DEEPSEEK_V2_LITE = partial(
    latent.deepseek2,
    layers=27,
    embedding=2048,
    count=16,
    query_rank=0,
    expert_count=64,
    used=6,
    expert_width=1408,
    shared=2,
    width=10_944,
    dense=1,
    vocabulary=102_400,
)
GEMMA_2_2B = partial(
    attention.gemma,
    "gemma2",
    layers=26,
    embedding=2304,
    count=8,
    kv_heads=4,
    width=9216,
    window=4096,
    vocabulary=256_000,
    context=8192,
)
GEMMA_2_9B = partial(
    attention.gemma,
    "gemma2",
    layers=42,
    embedding=3584,
    width=14_336,
    window=4096,
    vocabulary=256_000,
    context=8192,
)
GEMMA_4_12B = partial(
    attention.gemma4,
    layers=48,
    embedding=3840,
    count=16,
    kv_heads=(1, 8),
    width=15_360,
    window=1024,
    shared=0,
    inner=0,
)
GLM_5 = partial(
    latent.deepseek2,
    "glm-dsa",
    layers=78,
    draft_layers=1,
    embedding=6144,
    count=64,
    plain=192,
    value=256,
    query_rank=2048,
    width=12_288,
    vocabulary=154_880,
    context=202_752,
    indexer=(32, 128),
)
QWEN_3_1_7B = partial(attention.qwen3, layers=28, embedding=2048, count=16, width=6144)
QWEN_3_5_9B = partial(
    hybrid.qwen_hybrid, "qwen35", layers=32, embedding=4096, kv_heads=4, width=12_288, vocabulary=248_320
)
QWEN_3_5_27B = partial(
    hybrid.qwen_hybrid,
    "qwen35",
    layers=64,
    embedding=5120,
    count=24,
    kv_heads=4,
    value_heads=48,
    width=17_408,
    vocabulary=248_320,
)
