"""What one decode step and one prompt token cost a model: bytes read, arithmetic, kernels; no hardware in it."""

from __future__ import annotations

from dataclasses import dataclass

from llmops.core.layer_weights import expert_bytes
from llmops.core.model import AttentionLayer, ModelSpec
from llmops.core.workload import Workload

# Kernels that ggml starts in one layer (norms, projections, rotation, cache writes, attention, feed-forward, sums), and
# how many more a state (convolution, norms, gates, scan) or experts (choosing, gathering, weighting) need.
KERNELS_PER_LAYER = 18
KERNELS_PER_STATE = 18
KERNELS_PER_EXPERTS = 15
# States are kept in 32 bits, whatever the weights; each step reads and writes them.
_STATE_BYTES = {"bfloat16": 2, "float16": 2, "auto": 2}
_STATE_ACCESSES = 2


@dataclass(frozen=True)
class Work:
    """Bytes and operations of one decode step: what all streams share, what each adds, and what a prompt token costs.

    `expert_bytes` are all experts', of which each stream touches `expert_share`. `prompt_operations` are outside of
    experts, `prompt_expert_operations` inside, both for one prompt token.
    """

    shared_bytes: float
    expert_bytes: float
    expert_share: float
    stream_bytes: float
    operations: float
    kernels: int
    prompt_operations: float
    prompt_expert_operations: float

    def touched(self, streams: float) -> float:
        """Expected share of the experts that so many tokens touch, each choosing its own at random."""
        return touched_share(self.expert_share, streams)


def touched_share(expert_share: float, streams: float) -> float:
    """1 - (1 - k/E)^m: the expected distinct experts of m tokens, as a share of all."""
    return 1.0 - (1.0 - expert_share) ** streams if 0.0 < expert_share < 1.0 else 1.0


def work(model: ModelSpec, workload: Workload, *, tensor_parallel: int = 1) -> Work:
    """The cost of the model in the middle of a reply of this workload."""
    share = model.experts_used / model.experts if model.experts else 0.0
    routed_bytes = expert_bytes(model)
    of_experts = min(1.0, routed_bytes * share / model.active_weights_bytes) if model.active_weights_bytes else 0.0
    tokens = workload.prompt_tokens + workload.reply_tokens / 2
    multiplied = 2.0 * prefill_parameters(model)
    expert_operations = min(multiplied, 2.0 * multiplied_parameters(model) * of_experts)
    return Work(
        shared_bytes=model.active_weights_bytes - routed_bytes * share,
        expert_bytes=routed_bytes,
        expert_share=share,
        stream_bytes=_cache_read_bytes(model, tokens, tensor_parallel) + _state_bytes(model),
        operations=2.0 * multiplied_parameters(model) + _attention_operations(model, tokens),
        kernels=_kernels(model),
        prompt_operations=multiplied - expert_operations + _attention_operations(model, workload.prompt_tokens / 2),
        prompt_expert_operations=expert_operations,
    )


def multiplied_parameters(model: ModelSpec) -> int:
    """Parameters that every generated token is multiplied with: of a table for tokens only one row is looked up."""
    looked_up = sum(group.elements for group in model.tensors if group.role == "input")
    if model.tied_output:
        looked_up = max(0, looked_up - model.vocabulary_size * model.embedding_length)
    return max(model.active_parameters - looked_up, 1)


def prefill_parameters(model: ModelSpec) -> int:
    """Parameters that every prompt token is multiplied with: the output layer is needed for the last token only."""
    return max(multiplied_parameters(model) - model.vocabulary_size * model.embedding_length, 1)


def _kernels(model: ModelSpec) -> int:
    experts = model.layers * KERNELS_PER_EXPERTS if model.experts else 0
    return model.layers * KERNELS_PER_LAYER + len(model.state_layers) * KERNELS_PER_STATE + experts


def _cache_read_bytes(model: ModelSpec, tokens: float, tensor_parallel: int) -> float:
    """Cache bytes that one stream's step reads: windows end it, and ranks without an own head repeat another's."""
    total = 0.0
    cache_type = "fp8" if (model.cache_data_type or "").startswith("fp8") else "f16"
    for layer in model.attention_layers:
        size = layer.cache_bytes_per_token(cache_type, cache_type) * min(tokens, layer.window_tokens or tokens)
        total += size * tensor_parallel / min(tensor_parallel, 1 if layer.is_latent else max(layer.kv_heads, 1))
    return total


def _state_bytes(model: ModelSpec) -> float:
    width = _STATE_BYTES.get(model.state_data_type or "float32", 4)
    elements = sum(layer.convolution_elements + layer.recurrent_elements for layer in model.state_layers)
    return float(_STATE_ACCESSES * width * elements)


def _attention_operations(model: ModelSpec, tokens: float) -> float:
    """Every head multiplies its query with the keys, and the weights with the values, of all cached tokens."""
    return sum(
        2.0 * model.attention_heads * _row_length(layer) * min(tokens, layer.window_tokens or tokens)
        for layer in model.attention_layers
    )


def _row_length(layer: AttentionLayer) -> int:
    return 2 * layer.key_length if layer.is_latent else layer.key_length + layer.value_length
