"""What a graph of a ggml server begins with: embeddings, masks, places of new cells (src/llama-graph.cpp, b11434)."""

from __future__ import annotations

from llmops.core.memory.ggml_cache import layer_cells
from llmops.core.memory.ggml_graph import Graph
from llmops.core.memory.ggml_latent import indexed_tokens
from llmops.core.memory.ggml_layers import FLOAT_BYTES
from llmops.core.memory.ggml_settings import GgmlSettings, stream_tokens, ubatch_tokens
from llmops.core.memory.ggml_shapes import LayerKind
from llmops.core.model import AttentionLayer, ModelSpec, cache_bytes
from llmops.core.version import Since, Timeline, Version

INDEX_BYTES = 8
VALUE_ROTATION_LENGTH = 64

# Bytes of one element of the masks with flash attention: an input, and a copy of it that is cast. Without: 4.
MASK_BYTES = Timeline(
    (
        Since(Version((0,)), value=(4, 2), source="llama.cpp: 32-bit masks, cast to 16 bits in the graph"),
        Since(Version((9490,)), value=(2, 0), source="llama.cpp pull request 23764 (May 2026), merged before 23861"),
    )
)
# Vectors of a whole batch for tokens that come as vectors: none; an input; an input and two more for mixed batches.
INPUT_VECTORS = Timeline(
    (
        Since(Version((0,)), value=0, source="llama.cpp before pull request 18550"),
        Since(Version((7600,)), value=1, source="llama.cpp pull request 18550 (January 2026, about b7650)"),
        Since(Version((10_810,)), value=3, source="llama.cpp: in b11434 (build_inp_embd), not yet in b10809"),
    )
)
# Families whose graphs take tokens and no vectors (src/models/granite-switch.cpp, b11434), and as many vectors as its
# adapters hold instead (against that build's own pass: -1.4 to +8 %).
TOKENS_ONLY = {"graniteswitch": 1}

# Whether the transposed values of a cache without flash attention are placed element by element.
PLACES_ELEMENTS = Timeline(
    (
        Since(Version((0,)), value=False, source="llama.cpp before pull request 14285: values are copied in one piece"),
        Since(Version((6000,)), value=True, source="llama.cpp pull request 14285 (July 2025), in use since August"),
    )
)
# src/llama-context.cpp: with the whole model on several cards, inputs exist this often, to work on batches in turn.
PIPELINE_COPIES = 4


def batch_tokens(settings: GgmlSettings) -> int:
    """Tokens of the reserved graph: the physical batch, rounded up so that every slot has as many.

    The context limits it as it is asked for, before it is padded (src/llama-context.cpp).
    """
    tokens = min(ubatch_tokens(settings), settings.slots * settings.context_tokens_per_slot)
    return -(-tokens // settings.slots) * settings.slots


def inputs(
    graph: Graph, model: ModelSpec, settings: GgmlSettings, build: Version | None, *, on_card: bool = False
) -> tuple[int, Masks]:
    """Token embeddings, beside them inputs for batches that bring vectors (build_inp_embd); then the masks."""
    vector = FLOAT_BYTES * batch_tokens(settings) * model.embedding_length
    vectors = 0 if on_card else INPUT_VECTORS.at(build)
    vectors = min(vectors, TOKENS_ONLY.get(model.architecture, vectors))
    if vectors:
        graph.kept(vector)
    mixed = graph.new(vector) if vectors > 1 else None
    masks = _masks(graph, model, settings, build)
    _zeros(graph, model, settings)
    state = graph.new(vector)
    if mixed is not None:
        looked_up = graph.new(vector)
        graph.kept(vector, mixed)
        graph.read(looked_up)
    return state, masks


def _masks(graph: Graph, model: ModelSpec, settings: GgmlSettings, build: Version | None) -> Masks:
    """Masks, places of new cells and rotations, of the full cache and of the windows; all layers read them."""
    size, cast = MASK_BYTES.at(build) if settings.flash_attention else (FLOAT_BYTES, 0)
    tokens = batch_tokens(settings)
    made = Masks(graph)
    for layers in caches(model):
        cells = max(layer_cells(layer, settings) for layer in layers)
        by_element = not settings.flash_attention and PLACES_ELEMENTS.at(build)
        width = max(layer.kv_heads * layer.value_length for layer in layers) if by_element else 1
        made.add(INDEX_BYTES * tokens * max(width, 1))
        made.add_mask(size * tokens * cells, cast * tokens * cells, windowed=layers[0].window_tokens is not None)
        if rotates(layers[0].key_length, settings.cache_type_k):
            made.add(FLOAT_BYTES * key_rotation_length(layers[0].key_length) ** 2)
        if rotates(layers[0].value_length, settings.cache_type_v):
            made.add(FLOAT_BYTES * VALUE_ROTATION_LENGTH**2)
    return made


class Masks:
    """What the attention of all layers reads besides the cache; a 32-bit mask is cast where a layer first needs it."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._numbers: list[int] = []
        self._to_cast: dict[bool, tuple[int, int]] = {}
        self._cast: dict[bool, int] = {}

    def add(self, size_bytes: int) -> None:
        """A tensor that is there from the start."""
        self._numbers.append(self._graph.new(size_bytes))

    def add_mask(self, size_bytes: int, cast_bytes: int, *, windowed: bool) -> None:
        """A mask; `cast_bytes` is its copy for flash attention, 0 where that reads the mask itself."""
        if cast_bytes:
            self._to_cast[windowed] = (self._graph.new(size_bytes), cast_bytes)
        else:
            self.add(size_bytes)

    def cast(self, *, windowed: bool) -> tuple[int, ...]:
        """The copy that attention with or without a window reads, made where it is first asked for."""
        if windowed in self._to_cast:
            source, size = self._to_cast.pop(windowed)
            self._cast[windowed] = self._graph.new(size, source)
        return (self._cast[windowed],) if windowed in self._cast else ()

    def read_all(self) -> None:
        """The last layer has read them."""
        self._graph.read(*self._numbers, *self._cast.values())


def copied_inputs(graph: Graph, model: ModelSpec, settings: GgmlSettings, build: Version | None) -> None:
    """What several cards hold besides, so that one can begin with a batch while another still computes the last."""
    for _ in range(PIPELINE_COPIES - 1):
        graph.kept(FLOAT_BYTES * batch_tokens(settings) * model.embedding_length)
    copied_masks(graph, model, settings, build)


def copied_masks(graph: Graph, model: ModelSpec, settings: GgmlSettings, build: Version | None) -> None:
    """The masks of the batches that wait for their turn."""
    size = MASK_BYTES.at(build)[0] if settings.flash_attention else FLOAT_BYTES
    for layers in caches(model):
        cells = max(layer_cells(layer, settings) for layer in layers)
        graph.kept((PIPELINE_COPIES - 1) * size * batch_tokens(settings) * cells)


def _zeros(graph: Graph, model: ModelSpec, settings: GgmlSettings) -> None:
    """The mask of the indexer, and what opens it: one tensor for each layer, all of them placed at the start."""
    layers = sum(len(shape.layers) for shape in model.layer_shapes if "indexer.proj" in dict(shape.tensors))
    if layers:
        cells, tokens = stream_tokens(settings), batch_tokens(settings)
        graph.kept(2 * tokens * cells)
        graph.kept(FLOAT_BYTES * tokens * indexed_tokens(cells) * layers)


def rotates(length: int, cache_type: str) -> bool:
    """Whether the engine rotates what it stores in this type (src/llama-kv-cache.cpp, attn_rot)."""
    return cache_bytes(32, cache_type) < 64 and length % 64 == 0 and length > 0


def key_rotation_length(length: int) -> int:
    """The side of the rotation of keys: the largest power of two that divides the length of a head."""
    return length & -length


def caches(model: ModelSpec) -> tuple[tuple[AttentionLayer, ...], ...]:
    """The layers of the full cache and those of the windows, each where there are any."""
    full = tuple(layer for layer in model.attention_layers if layer.window_tokens is None)
    windows = tuple(layer for layer in model.attention_layers if layer.window_tokens is not None)
    return tuple(layers for layers in (full, windows) if layers)


class LayerInput:
    """The second embedding of every token in models that have one for each layer (Gemma 3n and 4), of all layers.

    It is looked up at the start, and joined with a projection of the first one where the first layer reads it.
    """

    def __init__(self, graph: Graph, size_bytes: int, state: int, *, on_card: bool) -> None:
        self._graph, self._size, self._state = graph, size_bytes, state
        self._looked_up = graph.new(size_bytes) if on_card else graph.new(size_bytes, graph.new(size_bytes))
        self._joined: int | None = self._looked_up if on_card else None

    def joined(self) -> int:
        """The tensor that every layer reads a part of."""
        if self._joined is None:
            projected = self._graph.new(self._size, self._state)
            normed = self._graph.new(self._size, projected)
            self._joined = self._graph.new(self._size, self._graph.over(self._size, normed, self._looked_up))
        return self._joined


def layer_input(
    graph: Graph, state: int, kinds: tuple[LayerKind, ...], model: ModelSpec, tokens: int, *, on_card: bool
) -> LayerInput | None:
    """What the layers read besides the state; None in most models."""
    width = max((kind.tensors["inp_gate"][-1] for kind in kinds if "inp_gate" in kind.tensors), default=0)
    size = FLOAT_BYTES * tokens * width * model.layers
    return LayerInput(graph, size, state, on_card=on_card) if width else None
