"""What a model is, whatever file it was read from: layers, caches, weights. No table keyed by model name."""

from __future__ import annotations

from dataclasses import dataclass, field

# Bytes per element of each cache type: (bytes, elements) of one block, from ggml's type table.
CACHE_TYPE_BLOCKS: dict[str, tuple[int, int]] = {
    "f32": (4, 1),
    "f16": (2, 1),
    "bf16": (2, 1),
    "q8_0": (34, 32),
    "q5_1": (24, 32),
    "q5_0": (22, 32),
    "q4_1": (20, 32),
    "q4_0": (18, 32),
    "iq4_nl": (18, 32),
    "fp8": (1, 1),
}


def cache_bytes(elements: int, cache_type: str) -> int:
    """Bytes of a row of cache elements; raises KeyError for a type that no engine has."""
    block_bytes, block_elements = CACHE_TYPE_BLOCKS[cache_type]
    return elements * block_bytes // block_elements


@dataclass(frozen=True)
class AttentionLayer:
    """One layer that keeps keys and values: `window_tokens` None is full attention.

    `is_chunked`: the window is a chunk that starts anew (Llama 4) instead of sliding. `is_latent`: one compressed
    vector of `key_length` stands for keys and values of all heads (MLA); every rank of a split model keeps it whole.
    `layer` is its number in the model; None where the layers that cache are spread evenly over it.
    """

    kv_heads: int
    key_length: int
    value_length: int
    window_tokens: int | None = None
    is_chunked: bool = False
    is_latent: bool = False
    layer: int | None = None

    def cache_bytes_per_token(self, cache_type_k: str = "f16", cache_type_v: str = "f16") -> int:
        """Bytes of keys and values of one cached token in this layer."""
        keys = cache_bytes(self.kv_heads * self.key_length, cache_type_k)
        return keys + cache_bytes(self.kv_heads * self.value_length, cache_type_v)


@dataclass(frozen=True)
class StateLayer:
    """One layer that keeps a state of fixed size for each sequence instead of keys and values.

    `kind` is mamba, mamba2, gated_delta, kimi_delta, short_convolution or rwkv; both sizes count elements. Kernels of
    mamba2 work on `chunk_tokens` at once, which a GGUF file does not say.
    """

    kind: str
    convolution_elements: int
    recurrent_elements: int
    layer: int | None = None
    chunk_tokens: int = field(default=0, compare=False)


@dataclass(frozen=True)
class TensorGroup:
    """Weights of one storage type and one role: repeating (per layer), input (token embeddings), output, other.

    Further roles are encoder (reads pictures or sound) and draft (only guesses next tokens). `matrix_bytes` is the part
    in two- or more-dimensional tensors, the only ones that an engine may repack.
    """

    role: str
    storage_type: str
    tensors: int
    elements: int
    stored_bytes: int
    matrix_bytes: int


@dataclass(frozen=True)
class LayerShape:
    """The weights that these layers have alike: (GGUF name without layer and `.weight`, dimensions, input first)."""

    layers: tuple[int, ...]
    tensors: tuple[tuple[str, tuple[int, ...]], ...]


@dataclass(frozen=True)
class EncoderShape:
    """What reads pictures: its width, its inner width, and how its largest input becomes tokens of the model.

    `patches_per_token` patches become one token; `largest_tokens` are those of the largest input. `whole_tokens` must
    be in one step together, since they look at each other; 0 where a step may cut an input. `kind` is the file's own
    name for the encoder. A patch has `patch_length` elements, its position one of `positions` (0: not such a table);
    each token becomes `outputs` rows of the language model.
    """

    embedding_length: int
    feed_forward_length: int
    patches_per_token: int
    largest_tokens: int
    whole_tokens: int = 0
    kind: str = ""
    patch_length: int = 0
    positions: int = 0
    outputs: int = 1


@dataclass(frozen=True)
class ModelSpec:
    """A model as its own metadata describes it. Sizes in bytes, lengths in tokens or elements.

    `tokenizer_merges` None: the file does not say how many merge rules its tokenizer has. Layers that use the cache of
    another one are in none of the lists. `weights_basis` is tensors (their sizes were read) or config (computed from
    config.json because no weights were there). `data_type`, `quantization_method` and `cache_data_type` are a
    checkpoint's own words (bfloat16, fp8, ...); None where it has none. `encoder_weights_bytes` is the part of the
    weights that reads pictures or sound, `draft_layers` the layers that only guess next tokens and run when asked to.
    `layer_shapes`: the tensors of every layer of the main model, alike layers together; () where no tensors were read.
    `encoder_graph_bytes`: low and high end of what the encoder needs while it runs, where it is loaded by itself;
    `encoder` is its shape, where a config.json gives it.
    `layer_weights`: (bytes, those of them in routed experts) of every layer of the main model; () like that.
    `quantization_block`: rows and columns of a matrix that share a scale; 0 where none do, or all of them.
    `classes` are those of a checkpoint's `architectures`, and it `has_own_code` where it brings a class of its own.
    `notes` are sentences about what was assumed or what engines do differently with this model.
    """

    reference: str
    format: str
    architecture: str
    name: str | None
    layers: int
    attention_layers: tuple[AttentionLayer, ...]
    embedding_length: int
    feed_forward_length: int
    attention_heads: int
    vocabulary_size: int
    context_tokens_trained: int
    parameters: int
    active_parameters: int
    weights_bytes: int
    active_weights_bytes: int
    file_bytes: int
    quantization: str
    tensors: tuple[TensorGroup, ...]
    experts: int = 0
    experts_used: int = 0
    expert_feed_forward_length: int = 0
    tied_output: bool = False
    has_chat_template: bool = False
    source_paths: tuple[str, ...] = ()
    tokenizer_merges: int | None = None
    state_layers: tuple[StateLayer, ...] = ()
    weights_basis: str = "tensors"
    data_type: str | None = None
    quantization_method: str | None = None
    cache_data_type: str | None = None
    state_data_type: str | None = None
    encoder_weights_bytes: int = 0
    draft_layers: int = 0
    layer_shapes: tuple[LayerShape, ...] = ()
    layer_weights: tuple[tuple[int, int], ...] = ()
    notes: tuple[str, ...] = ()
    encoder_graph_bytes: tuple[int, int] = (0, 0)
    encoder: EncoderShape | None = None
    quantization_block: tuple[int, int] = (0, 0)
    classes: tuple[str, ...] = ()
    has_own_code: bool = False

    @property
    def cache_bytes_per_token(self) -> int:
        """16-bit bytes of one more token at full context: the layers whose cache still grows there."""
        return sum(layer.cache_bytes_per_token() for layer in self.attention_layers if layer.window_tokens is None)
