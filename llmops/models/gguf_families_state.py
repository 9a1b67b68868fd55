"""Rules of families with a state of fixed size: Mamba, gated delta, short convolution, RWKV, alone or with attention.

Sizes as n_embd_r and n_embd_s of src/llama-hparams.cpp count them, layers as the filters of create_memory choose them
(llama.cpp b11434).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from llmops.core.model import StateLayer
from llmops.models.gguf_facts import Facts
from llmops.models.gguf_families_attention import WINDOW, Caches, heads_of
from llmops.models.gguf_families_latent import INDEXER_LENGTH, indexed, indexers, is_latent, latent_layer

Sizes = Callable[[Facts, int], StateLayer]


def mamba_state(facts: Facts, layer: int) -> StateLayer:
    """Mamba, Mamba-2 (which has groups) and delta attention in the same keys."""
    inner, state = facts.integer("ssm.inner_size"), facts.integer("ssm.state_size")
    groups = facts.integer("ssm.group_count", 0)
    steps = max(facts.integer("ssm.conv_kernel") - 1, 0)
    kind = "mamba2" if groups else "mamba"
    return StateLayer(kind, steps * (inner + 2 * groups * state), state * inner, layer)


def gated_delta_state(facts: Facts, layer: int) -> StateLayer:
    """Gated delta attention: the same sizes by another name."""
    found = mamba_state(facts, layer)
    return StateLayer("gated_delta", found.convolution_elements, found.recurrent_elements, layer)


def kimi_delta_state(facts: Facts, layer: int) -> StateLayer:
    """Kimi's delta attention: convolutions of queries, keys and values, and a square matrix for each head."""
    length, heads = facts.integer("kda.head_dim", least=1), facts.per_layer("attention.head_count")[0]
    kernel = facts.integer("ssm.conv_kernel")
    steps = kernel - 1 if kernel else 3
    return StateLayer("kimi_delta", 3 * steps * heads * length, length * length * heads, layer)


def short_convolution_state(facts: Facts, layer: int) -> StateLayer:
    """The last tokens of a short convolution, nothing else."""
    steps = facts.integer("shortconv.l_cache", least=1) - 1
    return StateLayer("short_convolution", facts.integer("embedding_length") * steps, 0, layer)


def rwkv_state(facts: Facts, layer: int) -> StateLayer:
    """The shifted tokens and one matrix for each head."""
    embedding, head = facts.integer("embedding_length"), facts.integer("wkv.head_size", least=1)
    return StateLayer("rwkv", facts.integer("token_shift_count", 2) * embedding, embedding * head, layer)


def lightning_state(facts: Facts, layer: int) -> StateLayer:
    """Lightning attention: one matrix for each head."""
    heads = facts.per_layer("attention.head_count")[0]
    return StateLayer("lightning", 0, heads_of(facts).key ** 2 * heads, layer)


def recurrent(facts: Facts, *, sizes: Sizes) -> Caches:
    """A state in every layer and no attention."""
    return Caches((), tuple(sizes(facts, layer) for layer in range(facts.layers)))


def by_interval(facts: Facts, *, sizes: Sizes, interval: int) -> Caches:
    """The last layer of each interval attends, or those that the file lists."""
    listed = facts.switches("attention.recurrent_layers")
    if listed is not None:
        recurs: Sequence[bool] = (listed + (False,) * facts.layers)[: facts.layers]
    elif facts.has("attention.recurrent_layers"):
        recurs = (facts.integer("attention.recurrent_layers") > 0,) * facts.layers
    else:
        interval = facts.integer("full_attention_interval", interval, least=1)
        recurs = [(layer + 1) % interval != 0 for layer in range(facts.layers)]
    return _mixed(facts, recurs, sizes)


def by_heads(facts: Facts, *, sizes: Sizes) -> Caches:
    """Layers without key-value heads keep a state. A draft layer has heads, and so a cache even when it never runs."""
    heads = heads_of(facts)
    recurs = [heads.kv_heads[layer] == 0 and layer < facts.layers for layer in range(facts.blocks)]
    return _mixed(facts, recurs, sizes)


def glm5_next(facts: Facts) -> Caches:
    """Kimi's delta attention, and MLA with an indexer that keeps a key, a gate and a pooled key."""
    counts = facts.per_layer("attention.head_count_kv")
    mixed = _mixed(facts, [counts[layer] == 0 for layer in range(facts.layers)], kimi_delta_state)
    length = 3 * facts.integer(INDEXER_LENGTH, least=1)
    return Caches(indexed(mixed.attention, length, indexers(facts, [True] * facts.layers)).attention, mixed.state)


def short_convolution(facts: Facts) -> Caches:
    """LFM2: short convolutions, and attention that may have a window (src/models/lfm2.cpp)."""
    window = facts.integer(WINDOW, 0) if facts.architecture == "lfm2" else 0
    if not window:
        return by_heads(facts, sizes=short_convolution_state)
    heads = heads_of(facts)
    layers = range(facts.layers)
    return Caches(
        tuple(heads.layer(layer, window) for layer in layers if heads.kv_heads[layer]),
        tuple(short_convolution_state(facts, layer) for layer in layers if not heads.kv_heads[layer]),
    )


def side_by_side(facts: Facts) -> Caches:
    """Falcon-H1: every layer attends and keeps a state."""
    heads, layers = heads_of(facts), range(facts.layers)
    return Caches(tuple(heads.layer(layer) for layer in layers), tuple(mamba_state(facts, layer) for layer in layers))


def nemotron_h(facts: Facts) -> Caches:
    """Layers with a feed-forward part keep nothing; of the others those with heads attend."""
    widths = facts.per_layer("feed_forward_length", (0,) * facts.blocks)
    heads = heads_of(facts)
    alone = [layer for layer in range(facts.blocks) if widths[layer] == 0]
    recurs = [layer for layer in alone if heads.kv_heads[layer] == 0 and layer < facts.layers]
    return Caches(
        tuple(heads.layer(layer) for layer in alone if layer not in recurs),
        tuple(mamba_state(facts, layer) for layer in recurs),
    )


def _mixed(facts: Facts, recurs: Sequence[bool], sizes: Sizes) -> Caches:
    heads, compressed = heads_of(facts), is_latent(facts)
    return Caches(
        tuple(
            latent_layer(heads, layer) if compressed else heads.layer(layer)
            for layer, state in enumerate(recurs)
            if not state
        ),
        tuple(sizes(facts, layer) for layer, state in enumerate(recurs) if state),
    )
