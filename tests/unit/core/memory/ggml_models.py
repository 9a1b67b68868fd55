"""Models by their published shapes, for the figures that llama-server printed for them."""

from __future__ import annotations

from llmops.core.model import AttentionLayer, ModelSpec, TensorGroup

MIB = 1024**2


def layers(
    count: int, kv_heads: int, length: int, window: int | None = None, period: int = 1
) -> tuple[AttentionLayer, ...]:
    """Layers of one shape; with a window, the last of each period has full attention."""
    return tuple(
        AttentionLayer(kv_heads, length, length, None if number % period == period - 1 else window)
        for number in range(count)
    )


def model(
    attention: tuple[AttentionLayer, ...],
    embedding: int,
    feed_forward: int,
    heads: int,
    vocabulary: int,
    trained: int,
    experts: tuple[int, int, int] = (0, 0, 0),
) -> ModelSpec:
    """A spec with 1 GiB of layers (Q4_K and norms), 100 MiB of embeddings (Q6_K), 80 MiB of output (Q4_K), norms.

    `experts` are all, those used for a token, and the width of one.
    """
    groups = (
        TensorGroup("repeating", "q4_K", 100, 1, 1000 * MIB, 1000 * MIB),
        TensorGroup("repeating", "f32", 100, 1, 24 * MIB, 0),
        TensorGroup("input", "q6_K", 1, 1, 100 * MIB, 100 * MIB),
        TensorGroup("output", "q4_K", 1, 1, 80 * MIB, 80 * MIB),
        TensorGroup("other", "f32", 1, 1, MIB, 0),
    )
    total = sum(group.stored_bytes for group in groups)
    return ModelSpec(
        reference="/models/made.gguf",
        format="gguf",
        architecture="made",
        name=None,
        layers=len(attention),
        attention_layers=attention,
        embedding_length=embedding,
        feed_forward_length=feed_forward,
        attention_heads=heads,
        vocabulary_size=vocabulary,
        context_tokens_trained=trained,
        parameters=1,
        active_parameters=1,
        weights_bytes=total,
        active_weights_bytes=total,
        file_bytes=total,
        quantization="Q4_K_M",
        tensors=groups,
        tokenizer_merges=0,
        experts=experts[0],
        experts_used=experts[1],
        expert_feed_forward_length=experts[2],
    )


GEMMA_270M = model(layers(18, 1, 256, 512, 6), 640, 2048, 4, 262_144, 32_768)
GEMMA_12B = model(layers(48, 8, 256, 1024, 6), 3840, 15_360, 16, 262_208, 131_072)
QWEN_8B = model(layers(36, 8, 128), 4096, 12_288, 32, 151_936, 40_960)
QWEN_600M = model(layers(28, 8, 128), 1024, 3072, 16, 151_936, 40_960)
QWEN_30B = model(layers(48, 4, 128), 2048, 6144, 32, 151_936, 40_960, experts=(128, 8, 768))
LLAMA_8B = model(layers(32, 8, 128), 4096, 14_336, 32, 128_256, 131_072)
GPT_OSS_20B = model(layers(24, 8, 64, 128, 2), 2880, 2880, 64, 201_088, 131_072, experts=(32, 4, 2880))
