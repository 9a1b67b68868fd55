"""Scratch memory of a ggml server: the compute buffer of its largest graph, its inputs and the output buffer.

The graph is built as the engine builds it, one layer of every kind that the model has, and placed by ggml's own rules.
"""

from __future__ import annotations

from llmops.core.memory.ggml_altup import first_versions, versions
from llmops.core.memory.ggml_block import layer, scope_of
from llmops.core.memory.ggml_cache import layer_cells
from llmops.core.memory.ggml_graph import Graph
from llmops.core.memory.ggml_inputs import batch_tokens, copied_inputs, copied_masks, inputs, layer_input
from llmops.core.memory.ggml_layers import FLOAT_BYTES
from llmops.core.memory.ggml_settings import GgmlSettings, streams
from llmops.core.memory.ggml_shapes import layer_sequence
from llmops.core.model import AttentionLayer, ModelSpec
from llmops.core.version import Since, Timeline, Version

HALF_BYTES = 2

# Whether the server reserves logits for a whole physical batch. The change is between these two builds; the later one
# is taken, so that a build in between is never promised less than it uses.
RESERVES_LOGITS = Timeline(
    (
        Since(Version((0,)), value=True, source="llama.cpp before pull request 23861 (b9444 has it)"),
        Since(Version((9490,)), value=False, source="llama.cpp pull request 23861 (n_outputs_max), merged after b9444"),
    )
)


def compute_bytes(model: ModelSpec, settings: GgmlSettings, build: Version | None = None) -> int:
    """Bytes of the compute buffer of the processor where it computes whole layers, the likely value."""
    return compute_graph(model, settings, build).peak_bytes()


def card_compute_bytes(
    model: ModelSpec,
    settings: GgmlSettings,
    build: Version | None = None,
    *,
    in_turn: bool = False,
    logits: bool = True,
    copied_bytes: int = 0,
    copied_output_bytes: int = 0,
) -> int:
    """Bytes of the compute buffer of a card that computes whole layers: token embeddings come from the host.

    `in_turn`: several cards hold the whole model and work on batches in turn; `logits`: it holds the output layer.
    `copied_bytes`: what the card copies to compute the layers of large batches, at most beside all else that they need;
    `copied_output_bytes`: the output matrix that the host keeps, for builds that compute logits of whole batches.
    """
    whole = compute_graph(model, settings, build, on_card=True, in_turn=in_turn, logits=logits).peak_bytes()
    if RESERVES_LOGITS.at(build):
        whole += copied_output_bytes
    if not copied_bytes:
        return whole
    layers = compute_graph(model, settings, build, on_card=True, in_turn=in_turn, logits=False)
    return max(whole, copied_bytes + layers.peak_bytes())


def compute_graph(
    model: ModelSpec,
    settings: GgmlSettings,
    build: Version | None = None,
    *,
    on_card: bool = False,
    in_turn: bool = False,
    logits: bool = True,
) -> Graph:
    """The graph of one prompt batch: inputs, the layers that differ, logits."""
    graph = Graph()
    tokens = batch_tokens(settings)
    if in_turn:
        copied_inputs(graph, model, settings, build)
    state, masks = inputs(graph, model, settings, build, on_card=on_card)
    kinds = layer_sequence(model)
    extra = layer_input(graph, state, kinds, model, tokens, on_card=on_card)
    first = scope_of(graph, kinds[0], model, settings, masks)
    state = first_versions(first, state) if versions(first) > 1 else state
    for kind in kinds:
        state = layer(scope_of(graph, kind, model, settings, masks), state, extra)
    masks.read_all()
    if not logits:
        return graph
    outputs = tokens if RESERVES_LOGITS.at(build) else min(tokens, output_rows(settings))
    last = graph.new(FLOAT_BYTES * outputs * model.embedding_length, state)
    graph.new(FLOAT_BYTES * outputs * model.vocabulary_size, last)
    return graph


def input_bytes(
    model: ModelSpec, settings: GgmlSettings, build: Version | None = None, *, in_turn: bool = False
) -> int:
    """Host bytes that feed graphics cards: the masks, and the embeddings of all tokens of the physical batch.

    `in_turn`: several cards work on batches in turn, each of which has masks of its own.
    """
    graph = Graph()
    if in_turn:
        copied_masks(graph, model, settings, build)
    state, _ = inputs(graph, model, settings, build)
    # The host looks the embeddings of layers up; their projection lies with the first layer (src/llama-arch.cpp).
    layer_input(graph, state, layer_sequence(model), model, batch_tokens(settings), on_card=True)
    return graph.peak_bytes()


def misplaced_bytes(model: ModelSpec, settings: GgmlSettings) -> int:
    """The largest tensor that a graph of small tensors is known to place elsewhere: states or queries of a batch.

    Beside it the 16-bit copies of one layer of a 32-bit cache. In 380 starts of drawn sizes what was more than 8 % too
    low was one of them.
    """
    queries = max((model.attention_heads * layer.key_length for layer in model.attention_layers), default=0)
    vector = FLOAT_BYTES * batch_tokens(settings) * max(model.embedding_length, queries)
    return vector + max((_cast_bytes(layer, settings) for layer in model.attention_layers), default=0)


def _cast_bytes(layer: AttentionLayer, settings: GgmlSettings) -> int:
    """The 16-bit copies of keys and values that flash attention reads of a 32-bit cache."""
    value_type = settings.cache_type_k if layer.is_latent else settings.cache_type_v
    keys = layer.key_length if settings.cache_type_k == "f32" else 0
    values = (layer.value_length or layer.key_length) if value_type == "f32" else 0
    cells = streams(settings) * layer_cells(layer, settings)
    return HALF_BYTES * cells * layer.kv_heads * (keys + values) if settings.flash_attention else 0


def output_rows(settings: GgmlSettings) -> int:
    """Tokens of one batch that may want logits: the last of every slot, and those that are guessed after it."""
    return settings.slots * (1 + settings.draft_tokens)


def output_bytes(model: ModelSpec, settings: GgmlSettings) -> int:
    """Host bytes of the output buffer: one row of logits for each token that may want it."""
    return FLOAT_BYTES * model.vocabulary_size * output_rows(settings)
