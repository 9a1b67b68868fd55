"""Roles and sizes of the tensors of a Hugging Face model."""

from __future__ import annotations

import pytest

from llmops.models.hf_tensors import HfWeights, Shape, is_expert, parameters_of, role_of, weigh_kinds
from llmops.models.safetensors import Kind
from tests.unit.models.hub import llama_tensors

LAYERS = 46


def four_bits(_name: str) -> int | None:
    return 4


def plain(_name: str) -> int | None:
    return None


def weighed(kinds: dict[Kind, int], layers: int = 2, experts: int = 0, used: int = 0) -> HfWeights:
    return weigh_kinds(kinds, Shape(layers, experts, used), plain)


def test_a_dense_model() -> None:
    kinds = {Kind(name, *described): 1 for name, described in llama_tensors().items()}
    found = weighed(kinds)
    layer = 2 * 64 * 64 + 2 * 32 * 64 + 3 * 128 * 64 + 2 * 64
    assert found.parameters == found.active_parameters == 2 * layer + 2 * 6400 + 64
    assert found.stored_bytes == 2 * found.parameters
    assert found.active_bytes == 2 * (2 * layer + 6400 + 64)
    assert (found.tied_output, found.vocabulary_rows) == (False, 100)
    assert [(group.role, group.tensors) for group in found.groups] == [("input", 1), ("output", 2), ("repeating", 18)]
    assert found.groups[2].matrix_bytes == 2 * (2 * layer - 4 * 64)


def test_tied_embeddings_are_read_as_the_output() -> None:
    kinds = {Kind(name, *described): 1 for name, described in llama_tensors(tied=True).items()}
    found = weighed(kinds)
    assert found.tied_output
    assert found.active_bytes == found.stored_bytes


def test_of_experts_a_token_reads_its_share() -> None:
    one = Kind("model.layers.0.mlp.experts.*.up_proj.weight", "F8_E4M3", (8, 16))
    scale = Kind("model.layers.0.mlp.experts.*.up_proj.weight_scale_inv", "F32", (1, 1))
    found = weighed({one: 32, scale: 32, Kind("model.layers.0.mlp.gate.weight", "BF16", (32, 16)): 1}, 1, 32, 4)
    assert found.parameters == 32 * 128 + 512
    assert found.active_parameters == 4 * 128 + 512
    assert found.stored_bytes == 32 * (128 + 4) + 1024
    assert found.active_bytes == 4 * (128 + 4) + 1024


def test_what_no_token_of_text_reads() -> None:
    kinds = {
        Kind("model.layers.0.self_attn.q_proj.weight", "BF16", (4, 4)): 1,
        Kind("model.layers.1.eh_proj.weight", "BF16", (4, 8)): 1,
        Kind("model.layers.1.mlp.experts.*.up_proj.weight", "BF16", (4, 4)): 8,
        Kind("vision_tower.layers.0.fc1.weight", "BF16", (2, 2)): 1,
    }
    found = weighed(kinds, 1, 8, 2)
    assert (found.encoder_bytes, found.draft_bytes) == (8, 64 + 8 * 32)
    assert (found.active_bytes, found.active_parameters, found.parameters) == (32, 16, 16 + 32 + 128 + 4)


ROLES = {
    "repeating": (
        "model.layers.45.mlp.down_proj.weight", "language_model.model.layers.3.x.weight", "transformer.h.0.ln_1.weight",
        "model.language_model.layers.1.input_layernorm.weight", "backbone.layers.5.mixer.D", "gpt_neox.layers.2.x.bias",
        "model.decoder.layers.0.fc1.weight", "bert.encoder.layer.11.output.dense.weight", "transformer.blocks.7.w",
        "thinker.model.layers.2.mlp.gate.weight", "model.layers.3.self_attn.qkv_proj.lora_A.vision.weight",
    ),
    "draft": (
        "model.layers.46.eh_proj.weight", "model.layers.46.shared_head.norm.weight", "mtp.fc.weight",
        "mtp.layers.0.mlp.experts.*.up_proj.weight", "model.mtp.layers.0.x.weight",
    ),
    "encoder": (
        "visual.blocks.0.attn.qkv.weight", "model.visual.merger.mlp.0.weight", "vision_tower.encoder.layers.0.w.weight",
        "multi_modal_projector.linear_1.weight", "audio_tower.layers.3.fc1.weight", "model.embed_vision.w.weight",
        "mlp1.1.weight", "model.vision_tower.patch_embedder.position_embedding_table", "mm_projector.0.weight",
        "vision_model.embeddings.class_embedding", "model.embed_audio.embedding.weight", "talker.model.layers.2.w",
    ),
    "input": (
        "model.embed_tokens.weight", "transformer.wte.weight", "transformer.wpe.weight", "backbone.embeddings.weight",
        "model.language_model.embed_tokens_per_layer.weight", "model.decoder.embed_positions.weight",
        "transformer.word_embeddings.weight", "gpt_neox.embed_in.weight",
        "transformer.embedding.word_embeddings.weight",
    ),
    "output": (
        "lm_head.weight", "model.norm.weight", "transformer.ln_f.bias", "embed_out.weight", "backbone.norm_f.weight",
        "language_model.lm_head.qweight", "model.decoder.final_layer_norm.weight", "transformer.output_layer.weight",
        "model.embedding_norm.weight",
    ),
    "other": ("model.altup_projections.0.weight", "score.weight", "bert.pooler.dense.weight"),
}  # fmt: skip


@pytest.mark.parametrize(("role", "name"), [(role, name) for role, names in ROLES.items() for name in names])
def test_roles(role: str, name: str) -> None:
    assert role_of(name, LAYERS) == role


@pytest.mark.parametrize(
    ("name", "shape", "found"),
    [
        ("model.layers.0.mlp.experts.gate_up_proj", (8, 4, 4), True),
        ("model.layers.0.block_sparse_moe.input_linear.weight", (8, 4, 4), True),
        ("model.layers.0.moe.up_proj.weight", (8, 4, 4), True),
        ("model.layers.0.mlp.experts.gate_up_proj_bias", (8, 4), True),
        ("model.layers.0.mlp.gate.weight", (8, 4), False),
        ("model.layers.0.mlp.shared_experts.up_proj.weight", (4, 4), False),
        ("model.layers.0.linear_attn.conv1d.weight", (64, 1, 4), False),
    ],
)
def test_experts(name: str, shape: tuple[int, ...], found: bool) -> None:
    assert is_expert(Kind(name, "BF16", shape), 8) is found
    assert not is_expert(Kind(name, "BF16", shape), 0)


@pytest.mark.parametrize(
    ("name", "data_type", "shape", "parameters"),
    [
        ("a.qweight", "I32", (512, 1024), 512 * 1024 * 8),
        ("a.weight_packed", "I32", (1024, 512), 512 * 1024 * 8),
        ("a.weight", "U8", (1024, 2048), 1024 * 4096),
        ("a.weight", "U8", (131072, 1), 262144),
        ("a.experts.gate_up_proj_blocks", "U8", (2, 64, 90, 16), 2 * 64 * 90 * 32),
        ("a.experts.gate_up_proj_scales", "U8", (2, 64, 90), 0),
        ("a.qzeros", "I32", (8, 128), 0),
        ("a.scales", "F16", (8, 1024), 0),
        ("a.g_idx", "I32", (4096,), 0),
        ("a.weight_scale", "F8_E4M3", (64, 4), 0),
        ("a.weight_scale_2", "F32", (), 0),
        ("a.input_scale", "F32", (), 0),
        ("a.weight_shape", "I64", (2,), 0),
        ("a.weight.quant_state.bitsandbytes__nf4", "U8", (85,), 0),
        ("a.weight.nested_quant_map", "F32", (256,), 0),
        ("a.weight.absmax", "U8", (64,), 0),
        ("a.weight", "F8_E4M3", (4, 4), 16),
        ("a.weight", "BF16", (4, 4), 16),
        ("a.bias", "BF16", (4,), 4),
        ("a.e_score_correction_bias", "F32", (4,), 4),
    ],
)
def test_packed_weights_count_as_what_they_hold(
    name: str, data_type: str, shape: tuple[int, ...], parameters: int
) -> None:
    assert parameters_of(Kind(name, data_type, shape), four_bits) == parameters


def test_without_a_known_width_what_is_stored_counts() -> None:
    assert parameters_of(Kind("a.qweight", "I32", (4, 4)), plain) == 16
