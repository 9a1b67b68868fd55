"""The compute buffer of a card with what it copies: matrices and caches of the host, quantised caches in 16 bits."""

from __future__ import annotations

from llmops.core.layer_weights import output_role
from llmops.core.memory.ggml_cache import layer_cache_bytes, layer_cells
from llmops.core.memory.ggml_compute import HALF_BYTES, card_compute_bytes, misplaced_bytes
from llmops.core.memory.ggml_runtime import NO_COMPUTE, Range, card_compute_range, compute_range
from llmops.core.memory.ggml_settings import GgmlSettings, streams, ubatch_tokens
from llmops.core.memory.ggml_weights import HOST, Placement, largest_matrix_bytes, role_bytes
from llmops.core.model import AttentionLayer, ModelSpec
from llmops.core.version import Version

# Tokens of a batch from which a card copies and computes with what the host keeps, as `--op-offload` (the default)
# has it: GGML_OP_OFFLOAD_MIN_BATCH (ggml-cuda.cu, ggml-vulkan.cpp); the same before the option came in May 2025.
OFFLOADED_TOKENS = 32
IDLE_REASON = "no layer lies on it, but large batches are computed there (--op-offload); 0 with --no-op-offload"
# Flash attention reads 16-bit floats; a 32-bit cache is cast in the graph itself.
READ_AS_THEY_ARE = frozenset({"f16", "f32"})


def card_range(model: ModelSpec, settings: GgmlSettings, build: Version | None, placement: Placement) -> Range:
    """The compute buffer of one card: more for several that hold everything, and for what is copied to compute with.

    The high end holds all copies side by side, and 16-bit ones of a quantised cache, which only some cards need. Where
    no card holds a layer, the low end is a server that is told not to compute on them; of several that work in turn it
    is one without the output layer.
    """
    idle = placement.output == HOST
    if idle and not offloads_batches(settings):
        return NO_COMPUTE
    widened = widened_cache_bytes(model, settings)
    likely, beside = _copied(model, settings, build, placement)
    most = beside + widened
    found = {
        copied: card_compute_bytes(
            model,
            settings,
            build,
            in_turn=placement.works_in_turn,
            copied_bytes=copied,
            copied_output_bytes=copied_output_bytes(model, placement),
        )
        for copied in {likely, most}  # mostly the same: nothing is copied
    }
    part, low, high, why = card_compute_range(
        found[likely],
        build,
        most_bytes=found[most],
        widened=widened > 0,
        misplaced_bytes=misplaced_bytes(model, settings),
    )
    if placement.works_in_turn:
        low = compute_range(card_compute_bytes(model, settings, build, in_turn=True, logits=False), build)[1]
    return (part, 0, high, f"{why}; {IDLE_REASON}") if idle else (part, low, high, why)


def _copied(model: ModelSpec, settings: GgmlSettings, build: Version | None, placement: Placement) -> tuple[int, int]:
    """Bytes that a card copies from the host to compute large batches with: the largest, and all of it side by side."""
    if not offloads_batches(settings):
        return 0, 0
    matrix, cache = copied_matrix_bytes(model, placement), copied_cache_bytes(model, settings, build, placement)
    return max(matrix, cache), matrix + cache


def offloads_batches(settings: GgmlSettings) -> bool:
    """Whether batches are large enough for a card to compute what the host keeps."""
    return ubatch_tokens(settings) >= OFFLOADED_TOKENS


def copied_matrix_bytes(model: ModelSpec, placement: Placement) -> int:
    """The largest matrix of a layer that the host keeps and a card computes with (ggml-backend.cpp, op_offload)."""
    return largest_matrix_bytes(model) if placement.reads_from_host else 0


def copied_output_bytes(model: ModelSpec, placement: Placement) -> int:
    """The output matrix where the host keeps it; it is only copied for the logits of a whole batch."""
    return role_bytes(model, output_role(model)) if placement.output == HOST and placement.layers else 0


def copied_cache_bytes(model: ModelSpec, settings: GgmlSettings, build: Version | None, placement: Placement) -> int:
    """Keys and values of the largest layer of the host: a card computes its attention too for large batches.

    The scheduler gives operations beside those with weights to the card (ggml-backend.cpp, second pass), whole caches
    with them.
    """
    sizes = layer_cache_bytes(model, settings, build)
    last = len(placement.layers) - 1
    homes = (placement.layers[min(layer.layer or 0, last)] for layer in model.attention_layers)
    return max((size for size, home in zip(sizes, homes, strict=True) if home == HOST), default=0)


def widened_cache_bytes(model: ModelSpec, settings: GgmlSettings) -> int:
    """16-bit copies of one layer's cache for flash attention on CUDA and ROCm, 0 for a 16-bit cache.

    ggml-cuda/fattn-common.cuh, get_f16_extra_data: of the whole cache, whatever is used of it. Part of the compute
    buffer since pull request 23907 (June 2026); before, they grew beside it as conversations did.
    """
    if not settings.flash_attention:
        return 0
    return max((_widened(layer, settings) for layer in model.attention_layers), default=0)


def _widened(layer: AttentionLayer, settings: GgmlSettings) -> int:
    keys = settings.cache_type_k not in READ_AS_THEY_ARE
    values = settings.cache_type_v not in READ_AS_THEY_ARE and not layer.is_latent
    width = keys * layer.key_length + values * layer.value_length
    return HALF_BYTES * layer.kv_heads * width * streams(settings) * layer_cells(layer, settings)
