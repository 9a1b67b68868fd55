"""What vLLM takes beside weights and cache, as ranges: the profiled step, libraries and links, captured graphs."""

from __future__ import annotations

from llmops.core.memory.vllm_defaults import Batch, CardFacts
from llmops.core.memory.vllm_encoder import encoder_pass
from llmops.core.memory.vllm_facts import GRAPH_LAYER_BYTES, GRAPHS_INSIDE, LOGIT_BYTES
from llmops.core.memory.vllm_groups import stage_layers
from llmops.core.memory.vllm_settings import VllmSettings
from llmops.core.memory.vllm_weights import Span
from llmops.core.model import ModelSpec
from llmops.core.units import GIB, MIB

# Copies of a token's hidden state that are alive at the widest point of a layer, in 16 bit.
HIDDEN_COPIES = 6
# The forward pass against the formula: compiled code frees earlier, a first boot without a compile cache later.
FORWARD_SHARE = (0.3, 1.6)
# The profiled pass of an encoder whose shape is not known, with its largest picture or sound.
ENCODER_HIGH_BYTES = 768 * MIB
# Rows as wide as the model that kernels for experts keep for each chosen expert of a token: the input and the output;
# those for weights of 4-bit floats sort the rows before and after, and add them up in 32 bits (cutlass_moe.py).
EXPERT_COPIES, FLOAT4_EXPERT_COPIES = 1, 6
# `non-torch` of eleven logs: one card 0.02 to 0.21 GiB; several exchange through buffers, 0.2 to 1.4 GiB for each.
ONE_CARD_BYTES = (16 * MIB, 300 * MIB)
SEVERAL_CARDS_BYTES = (200 * MIB, 1_434 * MIB)
# Kernels for experts keep work spaces of their own: a published pool lay 70 MB below a range without this.
EXPERT_KERNEL_BYTES = 256 * MIB
# Memory that a card shares with the host: what the system takes meanwhile counts too (0.3 to 5.7 GiB on GB10).
UNIFIED_BYTES = (300 * MIB, 6 * GIB)
# Sizes of the batches that graphs are captured for (vllm/config/vllm.py): up to twice the requests, at most 512.
LARGEST_CAPTURE = 512
GRAPH_BASE_BYTES = 100 * MIB
# Models with states took 0.36 to 0.69 GiB for two to seven graphs in five logs of 0.16 to 0.20, 0.07 to 0.26 others.
STATE_GRAPH_BASE_BYTES = 640 * MIB
# Graphs may take more than was estimated, and the allocator leaves holes: an out-of-memory during the capture was seen
# with 1.39 GiB free beside 1.28 GiB of graphs.
CAPTURE_MARGIN_BYTES = 160 * MIB
NO_CARD = CardFacts()


def activation(model: ModelSpec, settings: VllmSettings, batch: Batch, card: CardFacts = NO_CARD) -> Span:
    """Peak of the profiled step on one card: the wider of a forward pass and of choosing tokens from all logits.

    What the encoder made stays while the model's own pass runs; its pass comes before and may be wider.
    """
    forward = batch.tokens * step_token_bytes(model, settings)
    hidden = batch.tokens * model.embedding_length * 2
    logits = batch.requests * model.vocabulary_size
    low_each, high_each = LOGIT_BYTES.at(settings.version)
    least = batch.tokens * least_token_bytes(model, settings.tensor_parallel)
    low = max(int(forward * FORWARD_SHARE[0]), least, int(logits * low_each))
    high = max(int(forward * FORWARD_SHARE[1]), int(logits * high_each) + 2 * hidden)
    why = f"{batch.tokens} tokens and the logits of {batch.requests} requests in the profiled step"
    encoder = encoder_pass(model, settings, batch, card)
    if encoder is not None:
        return max(low, encoder.low), max(high + encoder.kept, encoder.high), f"{why}; or {encoder.reason}"
    if model.encoder_weights_bytes:
        return low, high + ENCODER_HIGH_BYTES, f"{why}; an encoder is profiled too"
    return low, high, why


def least_token_bytes(model: ModelSpec, ranks: int) -> int:
    """What no kernel avoids: the stream, what is added to it, and a dense layer's inner rows before and after.

    0 for experts, whose kernels may keep their rows to themselves.
    """
    return 0 if model.experts else 2 * (2 * model.embedding_length + 2 * model.feed_forward_length // ranks)


def step_token_bytes(model: ModelSpec, settings: VllmSettings) -> int:
    """Bytes of temporaries for one token of a rank's own step.

    Engines side by side gather the tokens of all before the experts (prepare_finalize/naive_dp_ep.py).
    """
    if not model.experts or settings.expert_ranks == 1:
        return token_bytes(model, settings.tensor_parallel)
    parts = 1 if settings.expert_parallel else settings.expert_ranks
    return token_bytes(model, settings.tensor_parallel, expert_parts=parts, gathered=settings.data_parallel)


def token_bytes(model: ModelSpec, ranks: int, *, expert_parts: int | None = None, gathered: int = 1) -> int:
    """Bytes of temporaries for one token in the widest layer, in 16 bit; each expert is cut into `expert_parts`.

    `gathered` tokens meet at the experts for each one that the rank began with.
    """
    inner = 3 * model.feed_forward_length // ranks
    if model.experts:
        expert = (model.expert_feed_forward_length or model.feed_forward_length) // (expert_parts or ranks)
        copies = FLOAT4_EXPERT_COPIES if "fp4" in model.quantization else EXPERT_COPIES
        rows = max(2 * expert, model.embedding_length) + (copies - 1) * model.embedding_length
        met = (gathered - 1) * model.embedding_length
        inner = max(inner, gathered * model.experts_used * (rows + expert) + met)
    return 2 * (HIDDEN_COPIES * model.embedding_length + inner)


def libraries(model: ModelSpec, settings: VllmSettings, *, unified: bool) -> Span:
    """Memory that PyTorch does not manage: kernels, work spaces, the links between cards."""
    low, high = ONE_CARD_BYTES
    why = "kernels and work spaces depend on card and driver"
    if unified:
        low, high = UNIFIED_BYTES
        why = "what the system takes of shared memory meanwhile counts as the engine's"
    elif settings.world > 1 or (model.experts and settings.data_parallel > 1):
        low, high = SEVERAL_CARDS_BYTES
        why = "buffers of the links between cards depend on how they are connected"
    return low, high + (EXPERT_KERNEL_BYTES if model.experts else 0), why


def graphs(model: ModelSpec, settings: VllmSettings, batch: Batch, stage: int = 0) -> Span:
    """Captured graphs of one card of a stage, over all batch sizes; nothing where the engine runs without them."""
    captures = settings.device in {"cuda", "rocm"} or graphs_inside(settings)
    if settings.enforce_eager or not captures:
        return 0, 0, "no graphs are captured"
    layers = stage_layers(model.layers, settings)[stage]
    # With adapters every size is captured twice, with and without one (cudagraph_specialize_lora).
    sizes = captured_sizes(batch.requests) * (2 if settings.adapters else 1)
    base = STATE_GRAPH_BASE_BYTES if model.state_layers else GRAPH_BASE_BYTES
    high = base + sizes * layers * GRAPH_LAYER_BYTES.at(settings.version)
    return 0, high, f"graphs of {sizes} batch sizes and {layers} layers; small ones share memory"


def captured_sizes(requests: int) -> int:
    """How many batch sizes are captured: 1, 2, 4, every 8 below 256, every 16 from there."""
    most = min(2 * requests, LARGEST_CAPTURE)
    sizes = [size for size in (1, 2, 4, *range(8, 256, 8), *range(256, LARGEST_CAPTURE + 1, 16)) if size <= most]
    return len(sizes)


def graphs_inside(settings: VllmSettings) -> bool:
    """Whether the pool is made smaller by an estimate of the graphs; else they come on top of what was requested."""
    inside = GRAPHS_INSIDE.get(settings.device)
    return inside is not None and inside.at(settings.version)
