"""The layers of the GGUF file that a checkpoint would become, from its config.json: names and sizes of their tensors.

Names of gguf-py/gguf/tensor_mapping.py of llama.cpp b11434. Only what shapes a computing graph is there.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from llmops.core.errors import UnknownArchitecture, UnreadableInput
from llmops.core.model import LayerShape, ModelSpec
from llmops.models.hf_config import ConfigFacts, read_config
from llmops.models.hf_defaults import language_facts
from llmops.models.hf_families_state import mamba2_heads, mamba2_inner
from llmops.models.hf_files import CONFIG
from llmops.models.hf_heads import query_heads
from llmops.models.hf_parameters import parameters_of
from llmops.models.hf_weights import Weight

if TYPE_CHECKING:
    from llmops.host import Host

Named = tuple[str, tuple[int, ...]]

_MAMBA_1 = frozenset({"falcon_mamba", "jamba", "mamba"})

# By role and the last part of the module's name.
_MATRICES = {
    ("attention", "q_proj"): "attn_q",
    ("attention", "k_proj"): "attn_k",
    ("attention", "v_proj"): "attn_v",
    ("attention", "o_proj"): "attn_output",
    ("attention", "g_proj"): "attn_gate",
    ("attention", "q_a_proj"): "attn_q_a",
    ("attention", "q_b_proj"): "attn_q_b",
    ("attention", "kv_a_proj_with_mqa"): "attn_kv_a_mqa",
    ("attention", "wq_b"): "indexer.attn_q_b",
    ("attention", "wk"): "indexer.attn_k",
    ("attention", "weights_proj"): "indexer.proj",
    ("state", "q_proj"): "attn_q",
    ("state", "k_proj"): "attn_k",
    ("state", "v_proj"): "attn_v",
    ("state", "o_proj"): "attn_output",
    ("state", "in_proj_qkv"): "attn_qkv",
    ("state", "in_proj_z"): "attn_gate",
    ("state", "x_proj"): "ssm_x",
    ("feed_forward", "gate_proj"): "ffn_gate",
    ("feed_forward", "up_proj"): "ffn_up",
    ("feed_forward", "down_proj"): "ffn_down",
    ("feed_forward", "fc1_latent_proj"): "ffn_latent_down",
    ("feed_forward", "fc2_latent_proj"): "ffn_latent_up",
    ("feed_forward", "per_layer_input_gate"): "inp_gate",
    ("feed_forward", "per_layer_projection"): "proj",
    ("feed_forward", "linear_left"): "laurel_l",
    ("feed_forward", "linear_right"): "laurel_r",
    ("shared_experts", "gate_proj"): "ffn_gate_shexp",
    ("shared_experts", "up_proj"): "ffn_up_shexp",
    ("shared_experts", "down_proj"): "ffn_down_shexp",
    ("router", "gate"): "ffn_gate_inp",
    ("router", "modality_router"): "altup_router",
    ("router", "prediction_coefs"): "altup_predict_coef",
    ("router", "correction_coefs"): "altup_correct_coef",
    ("experts", "gate_proj"): "ffn_gate_exps",
    ("experts", "up_proj"): "ffn_up_exps",
    ("experts", "down_proj"): "ffn_down_exps",
}


def with_layer_shapes(host: Host, model: ModelSpec) -> ModelSpec:
    """A checkpoint with the layers of the file that it would become; as it is where config.json does not say them.

    Raises UnreadableInput or NoPermission where its config.json cannot be read again.
    """
    if model.layer_shapes or not model.source_paths or model.format == "gguf":
        return model
    directory = PurePosixPath(model.source_paths[0]).parent
    return replace(model, layer_shapes=converted_shapes(read_config(host, str(directory / CONFIG))))


def converted_shapes(whole: ConfigFacts) -> tuple[LayerShape, ...]:
    """The distinct sets of weights in the order of their first layer; () where config.json does not say them all."""
    try:
        weights = parameters_of(whole).weights
    except (UnknownArchitecture, UnreadableInput):
        return ()
    facts = language_facts(whole)
    layers: dict[int, dict[str, tuple[int, ...]]] = {}
    for weight in weights:
        if weight.layer is not None and weight.role != "encoder":
            layers.setdefault(weight.layer, {}).update(_tensors(facts, weight))
    alike: dict[tuple[Named, ...], list[int]] = {}
    for layer in sorted(layers):
        alike.setdefault(tuple(sorted(layers[layer].items())), []).append(layer)
    return tuple(LayerShape(tuple(numbers), tensors) for tensors, numbers in alike.items())


def _tensors(facts: ConfigFacts, weight: Weight) -> Iterator[Named]:
    """What one weight becomes: one tensor, two of them, or nothing that a graph depends on."""
    *_, owner, last = ("", *weight.module.split("."))
    name = _MATRICES.get((weight.role, last))
    if name is not None:
        experts = (weight.copies,) if weight.role == "experts" else ()
        yield name, (weight.columns, weight.rows, *experts)
    if last == "kv_b_proj":
        yield from _unfolding(facts, weight)
    elif weight.role == "state":
        yield from _state(facts, weight, owner, last)
    elif weight.role == "norm":
        yield from _norms(weight, owner)


def _unfolding(facts: ConfigFacts, weight: Weight) -> Iterator[Named]:
    """The matrix that unfolds compressed keys and values: two, which are multiplied into queries and output."""
    heads, value = query_heads(facts), facts.integer("v_head_dim", least=1)
    yield "attn_k_b", (weight.rows // heads - value, weight.columns, heads)
    yield "attn_v_b", (weight.columns, value, heads)


def _state(facts: ConfigFacts, weight: Weight, owner: str, last: str) -> Iterator[Named]:
    """The matrices of a state by what they belong to, and the channels that its convolution works on."""
    size = (weight.columns, weight.rows)
    if owner == "conv" and last in {"in_proj", "out_proj"}:
        yield f"shortconv.{last}", size
    elif last == "in_proj":
        yield "ssm_in", size
        yield "ssm_conv1d", (0, _channels(facts, weight))
    elif last == "out_proj":
        yield "ssm_out", size
    elif last == "in_proj_qkv":
        yield "ssm_conv1d", (0, weight.rows)
    elif last == "in_proj_ba":
        yield from _rates(facts, weight)
    elif last == "conv1d" and owner == "self_attn":  # Kimi: one convolution each for queries, keys and values
        yield "ssm_conv1d_q", (0, weight.rows)


def _channels(facts: ConfigFacts, weight: Weight) -> int:
    """Of Mamba half of the projection, the other half is a gate; of Mamba 2 all but the gate and the steps."""
    if facts.model_type in _MAMBA_1:
        return weight.rows // 2
    return weight.rows - mamba2_inner(facts) - mamba2_heads(facts)


def _rates(facts: ConfigFacts, weight: Weight) -> Iterator[Named]:
    """Qwen3-Next has one matrix for both rates of the delta rule, Qwen 3.5 one for each."""
    if facts.model_type == "qwen3_next":
        yield "ssm_ba", (weight.columns, weight.rows)
    else:
        yield from ((name, (weight.columns, weight.rows // 2)) for name in ("ssm_alpha", "ssm_beta"))


def _norms(weight: Weight, owner: str) -> Iterator[Named]:
    """Between attention and feed-forward part there is a norm, unless both read the same; some norm their queries."""
    if owner == "self_attn":
        yield "attn_q_norm", (weight.rows,)
    elif weight.copies > 1:
        yield "ffn_norm", (weight.rows,)
