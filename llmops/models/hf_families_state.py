"""Layers with a state of fixed size, and the models that mix them with attention (hybrids).

Elements are counted as llama.cpp counts them (n_embd_r and n_embd_s in llama-hparams.cpp); vLLM's shapes
(model_executor/layers/mamba/mamba_utils.py) hold the same numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from llmops.core.model import AttentionLayer, StateLayer
from llmops.models.gguf_facts import MAX_LAYERS
from llmops.models.hf_config import ConfigFacts
from llmops.models.hf_families_attention import latent_layer
from llmops.models.hf_heads import (
    MOST_HEAD_LENGTH,
    MOST_HEADS,
    bounded,
    draft_layers,
    head_length,
    kv_heads,
    layer_words,
    numbered,
    query_heads,
)
from llmops.models.hf_layers import Layers
from llmops.models.hf_windows import FULL_WORDS, window_tokens

# What one layer holds: keys and values, a state, both, or nothing (feed-forward only).
ATTENTION, STATE, BOTH, NOTHING = "attention", "state", "both", "nothing"
_WORDS = {
    **dict.fromkeys(FULL_WORDS, ATTENTION),
    **dict.fromkeys(("linear_attention", "mamba", "mamba2", "conv", "recurrent", "m"), STATE),
    **dict.fromkeys(("hybrid", "g"), BOTH),
    **dict.fromkeys(("mlp", "moe"), NOTHING),
}
_LETTERS = {"M": STATE, "*": ATTENTION, "-": NOTHING, "E": NOTHING}
MOST_STATE = 2**31 - 1
MOST_KERNEL = 1_024
# configuration_*.py of transformers: 256 tokens at once, but for these.
_CHUNKS = {"nemotron_h": 128}


def _kernel(facts: ConfigFacts, *keys: str) -> int:
    return bounded(facts, facts.first_of(*keys), most=MOST_KERNEL)


def _sized(facts: ConfigFacts, kind: str, convolution: int, recurrent: int) -> StateLayer:
    if max(convolution, recurrent) > MOST_STATE:
        raise facts.wrong(f"the state of a {kind} layer", max(convolution, recurrent))
    return StateLayer(kind, convolution, recurrent)


def gated_delta(facts: ConfigFacts) -> StateLayer:
    """Gated delta rule (Qwen3-Next, Qwen3.5): one matrix of key by value length for each value head."""
    key_length = bounded(facts, "linear_key_head_dim", most=MOST_HEAD_LENGTH)
    key_heads = bounded(facts, "linear_num_key_heads", most=MOST_HEADS)
    value_length = bounded(facts, "linear_value_head_dim", most=MOST_HEAD_LENGTH)
    values = value_length * bounded(facts, "linear_num_value_heads", most=MOST_HEADS)
    channels = values + 2 * key_heads * key_length
    return _sized(facts, "gated_delta", (_kernel(facts, "linear_conv_kernel_dim") - 1) * channels, key_length * values)


def kimi_delta(facts: ConfigFacts) -> StateLayer:
    """Kimi delta attention: a square matrix for each head, and convolutions of queries, keys and values."""
    heads, length, kernel = kimi_delta_sizes(facts)
    return _sized(facts, "kimi_delta", 3 * (kernel - 1) * heads * length, length * length * heads)


def kimi_delta_sizes(facts: ConfigFacts) -> tuple[int, int, int]:
    """Heads, head length and convolution kernel of a Kimi delta layer."""
    part = facts.part("linear_attn_config")
    if part is not None:
        heads, length = bounded(part, "num_heads", most=MOST_HEADS), bounded(part, "head_dim", most=MOST_HEAD_LENGTH)
        return heads, length, _kernel(part, "short_conv_kernel_size")
    heads = bounded(facts, "linear_num_heads", query_heads(facts), most=MOST_HEADS)
    length = bounded(facts, facts.first_of("linear_head_dim", "head_dim"), most=MOST_HEAD_LENGTH)
    return heads, length, _kernel(facts, "short_conv_kernel_size", "linear_conv_kernel_dim")


def mamba(facts: ConfigFacts) -> StateLayer:
    """Mamba (Jamba, Falcon-Mamba): a state for each inner channel."""
    inner = mamba_inner(facts)
    state = bounded(facts, facts.first_of("mamba_d_state", "state_size"), most=MOST_HEAD_LENGTH)
    return _sized(facts, "mamba", (_kernel(facts, "mamba_d_conv", "conv_kernel") - 1) * inner, state * inner)


def mamba2(facts: ConfigFacts) -> StateLayer:
    """Mamba2 (Granite, Nemotron-H, Bamba, Falcon-H1, Zamba2): the groups' inputs pass the convolution too."""
    inner = mamba2_inner(facts)
    groups = bounded(facts, facts.first_of("mamba_n_groups", "n_groups", "mamba_ngroups"), 1, most=MOST_HEADS)
    state = bounded(facts, facts.first_of("mamba_d_state", "ssm_state_size", "state_size"), most=MOST_HEAD_LENGTH)
    channels = inner + 2 * groups * state
    layer = _sized(facts, "mamba2", (_kernel(facts, "mamba_d_conv", "conv_kernel") - 1) * channels, state * inner)
    chunk = facts.integer(facts.first_of("mamba_chunk_size", "chunk_size"), _CHUNKS.get(facts.model_type, 256), least=1)
    return replace(layer, chunk_tokens=chunk)


def mamba_inner(facts: ConfigFacts) -> int:
    """Inner channels of a Mamba layer: given, or the hidden size times the expansion."""
    if facts.model_type in {"mamba", "falcon_mamba"} and facts.has("intermediate_size"):
        return facts.integer("intermediate_size", least=1)
    expansion = bounded(facts, facts.first_of("mamba_expand", "expand"), 2, most=64)
    return expansion * facts.integer("hidden_size", least=1)


def mamba2_heads(facts: ConfigFacts) -> int:
    """Heads of a Mamba2 layer."""
    names = ("mamba_n_heads", "mamba_num_heads", "n_mamba_heads", "num_heads")
    return bounded(facts, facts.first_of(*names), most=MOST_HEADS)


def mamba2_inner(facts: ConfigFacts) -> int:
    """Inner channels of a Mamba2 layer: given, heads times head length, or the hidden size times the expansion."""
    if facts.has("mamba_d_ssm"):
        return facts.integer("mamba_d_ssm", least=1)
    length = facts.first_of("mamba_d_head", "mamba_head_dim", "mamba_headdim")
    if facts.find(length)[1] not in (None, "auto"):
        return mamba2_heads(facts) * bounded(facts, length, most=MOST_HEAD_LENGTH)
    return bounded(facts, facts.first_of("mamba_expand", "expand"), 2, most=64) * facts.integer("hidden_size", least=1)


def short_convolution(facts: ConfigFacts) -> StateLayer:
    """LFM2: the last inputs of a short convolution and nothing else."""
    kernel = _kernel(facts, "conv_L_cache")
    return _sized(facts, "short_convolution", (kernel - 1) * facts.integer("hidden_size", least=1), 0)


def holdings(facts: ConfigFacts) -> tuple[str, ...] | None:
    """What each layer holds by the file's own list or pattern; None where it has neither."""
    pattern = facts.text("hybrid_override_pattern")
    if pattern is not None:
        return _held(facts, "hybrid_override_pattern", pattern, _LETTERS)
    for key in ("layer_types", "layers_block_type"):
        words = facts.texts(key)
        if words is not None:
            counted = facts.has("num_hidden_layers")
            listed = layer_words(facts, facts.layers(), key) if counted else words
            return _held(facts, key, listed or (), _WORDS)
    return None


def _held(facts: ConfigFacts, key: str, words: Sequence[str], known: dict[str, str]) -> tuple[str, ...]:
    if not 0 < len(words) <= MAX_LAYERS:
        raise facts.wrong(f"the number of layers in {key}", len(words))
    for word in words:
        if word not in known:
            raise facts.wrong(key, word)
    return tuple(known[word] for word in words)


def by_interval(facts: ConfigFacts) -> tuple[str, ...]:
    """Qwen3-Next, Qwen3.5: the last layer of each interval attends in full."""
    interval = facts.integer("full_attention_interval", 4, least=1)
    return tuple(STATE if (layer + 1) % interval else ATTENTION for layer in range(facts.layers()))


def by_group(facts: ConfigFacts) -> tuple[str, ...]:
    """Bailing: the last layer of each group attends in full, and so do those after the last whole group."""
    if not facts.has("short_conv_kernel_size"):  # the older linear attention of the same model_type
        raise facts.missing("short_conv_kernel_size")
    group = facts.integer("layer_group_size", least=1)
    count = facts.layers()
    whole = count // group * group
    return tuple(STATE if (layer + 1) % group and layer < whole else ATTENTION for layer in range(count))


def by_numbers(facts: ConfigFacts) -> tuple[str, ...]:
    """Kimi-Linear: the numbers of the layers that attend in full, from 1; the others hold a state."""
    part = facts.part("linear_attn_config")
    full = None if part is None else numbered(part, "full_attn_layers")
    if full is None:
        raise facts.missing("linear_attn_config.full_attn_layers")
    return tuple(ATTENTION if layer + 1 in full else STATE for layer in range(facts.layers()))


def by_indices(facts: ConfigFacts) -> tuple[str, ...]:
    """Bamba and LFM2: the numbers of the layers that attend, from 0; the others hold a state."""
    full = numbered(facts, facts.first_of("attn_layer_indices", "full_attn_idxs"))
    if full is None:
        raise facts.missing("attn_layer_indices")
    return tuple(ATTENTION if layer in full else STATE for layer in range(facts.layers()))


def by_period(facts: ConfigFacts) -> tuple[str, ...]:
    """Jamba: one layer of each period attends."""
    period = facts.integer("attn_layer_period", least=1)
    offset = facts.integer("attn_layer_offset")
    return tuple(ATTENTION if layer % period == offset else STATE for layer in range(facts.layers()))


def all_both(facts: ConfigFacts) -> tuple[str, ...]:
    """Falcon-H1: attention and a state side by side in every layer."""
    return (BOTH,) * facts.layers()


def all_state(facts: ConfigFacts) -> tuple[str, ...]:
    """Mamba: no attention at all."""
    return (STATE,) * facts.layers()


def hybrid(
    state: Callable[[ConfigFacts], StateLayer], otherwise: Callable[[ConfigFacts], tuple[str, ...]]
) -> Callable[[ConfigFacts], Layers]:
    """The rule of a family with one kind of state; `otherwise` says what layers hold where the file lists nothing."""

    def rule(facts: ConfigFacts) -> Layers:
        held = holdings(facts) or otherwise(facts)
        attention = _attention(facts, held)
        one = state(facts) if {STATE, BOTH} & set(held) else None
        states = tuple(
            replace(one, layer=layer) for layer, what in enumerate(held) if one is not None and what in {STATE, BOTH}
        )
        return Layers(len(held), attention, states, draft_layers(facts), _state_data_type(facts))

    return rule


def _attention(facts: ConfigFacts, held: Sequence[str]) -> tuple[AttentionLayer, ...]:
    numbers = [layer for layer, what in enumerate(held) if what in {ATTENTION, BOTH}]
    if not numbers:
        return ()
    if facts.has("kv_lora_rank"):
        return tuple(latent_layer(facts, layer) for layer in numbers)
    heads = query_heads(facts)
    length = 2 * facts.integer("hidden_size", least=1) // heads if facts.model_type == "zamba2" else None
    length = length or head_length(facts, heads)
    counts = kv_heads(facts, len(held))
    window = window_tokens(facts)
    return tuple(AttentionLayer(counts[layer], length, length, window, layer=layer) for layer in numbers)


def _state_data_type(facts: ConfigFacts) -> str | None:
    return facts.text("mamba_ssm_dtype") or facts.text("mamba_ssm_cache_dtype")
