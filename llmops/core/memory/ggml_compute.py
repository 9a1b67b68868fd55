"""Scratch memory of a ggml server: the compute buffer of the largest graph, the inputs and the output buffer.

The coefficients follow the tensors that are alive together at the widest point of a layer's graph; ggml's allocator
reuses everything else. They were compared with the `compute buffer size` that real servers print.
"""

from __future__ import annotations

from llmops.core.memory.ggml_cache import layer_cells
from llmops.core.memory.ggml_settings import GgmlSettings, stream_tokens, ubatch_tokens
from llmops.core.model import ModelSpec
from llmops.core.version import Since, Timeline, Version

FLOAT_BYTES = 4
MASK_BYTES = 2  # with flash attention the mask is 16-bit; without it 32-bit

# Whether the server reserves logits for a whole physical batch. The change is between these two builds; the later one
# is taken, so that a build in between is never promised less than it uses.
RESERVES_LOGITS = Timeline(
    (
        Since(Version((0,)), value=True, source="llama.cpp before pull request 23861 (b9444 has it)"),
        Since(Version((9490,)), value=False, source="llama.cpp pull request 23861 (n_outputs_max), merged after b9444"),
    )
)


def attention_columns(model: ModelSpec, settings: GgmlSettings) -> int:
    """Columns of the attention masks: full context once, and the window's cells once where the model has a window."""
    windowed = [layer for layer in model.attention_layers if layer.window_tokens is not None]
    return stream_tokens(settings) + max((layer_cells(layer, settings) for layer in windowed), default=0)


def activation_floats(model: ModelSpec) -> int:
    """Floats per token that are alive together in one layer: the feed-forward part is the widest."""
    embedding = model.embedding_length
    if model.experts_used:
        width = model.expert_feed_forward_length or model.feed_forward_length
        return model.experts_used * (2 * embedding + 2 * width) + embedding
    return 3 * model.feed_forward_length + 5 * embedding


def compute_bytes(model: ModelSpec, settings: GgmlSettings, build: Version | None = None) -> int:
    """Bytes of the compute buffer of a device that holds whole layers, the likely value."""
    tokens = ubatch_tokens(settings)
    columns = attention_columns(model, settings)
    masks = MASK_BYTES * tokens * columns
    candidates = [FLOAT_BYTES * tokens * activation_floats(model) + masks, logits_bytes(model, settings) + masks]
    if not settings.flash_attention:
        candidates.append(scores_bytes(model, settings))
    if RESERVES_LOGITS.at(build):
        candidates.append(FLOAT_BYTES * tokens * (model.vocabulary_size + model.embedding_length))
    return max(candidates)


def logits_bytes(model: ModelSpec, settings: GgmlSettings) -> int:
    """Bytes at the end of the graph: logits for one token of every slot; widest with small batches and many slots."""
    states = 5 * model.embedding_length * ubatch_tokens(settings)
    return FLOAT_BYTES * (settings.slots * model.vocabulary_size + states)


def scores_bytes(model: ModelSpec, settings: GgmlSettings) -> int:
    """Bytes at the widest point of attention without flash attention: a score for every head and cached token.

    What is alive beside the scores was fitted to the engine's own figures for seven models; models with windows keep
    the masks and projections of both kinds of layers.
    """
    keys = max((layer.key_length for layer in model.attention_layers), default=0)
    cached = max((layer.kv_heads * layer.key_length for layer in model.attention_layers), default=0)
    queries = model.attention_heads * keys
    beside = 3 * model.embedding_length + 3 * queries + 2 * cached
    if attention_columns(model, settings) > stream_tokens(settings):
        beside = 5 * model.embedding_length + 2 * queries + 4 * cached
    scores = model.attention_heads * stream_tokens(settings)
    return FLOAT_BYTES * ubatch_tokens(settings) * (scores + attention_columns(model, settings) + beside)


def input_bytes(model: ModelSpec, settings: GgmlSettings) -> int:
    """Host bytes that feed a graphics card: the masks and one embedding per token of the physical batch."""
    mask = FLOAT_BYTES if not settings.flash_attention else MASK_BYTES
    columns = attention_columns(model, settings)
    return ubatch_tokens(settings) * (mask * columns + FLOAT_BYTES * model.embedding_length)


def output_bytes(model: ModelSpec, settings: GgmlSettings) -> int:
    """Host bytes of the output buffer: one row of logits for every slot."""
    return FLOAT_BYTES * model.vocabulary_size * settings.slots
