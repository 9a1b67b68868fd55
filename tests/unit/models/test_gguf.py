"""From a GGUF file to a ModelSpec."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from llmops.core.errors import UnknownArchitecture, UnreadableInput
from llmops.core.model import ModelSpec
from llmops.models.gguf import read_gguf
from tests.doubles import gguf_files as made
from tests.unit.models.disk import Disk


def spec_of(metadata: Mapping[str, object], tensors: Sequence[made.Tensor] | None = None, **options: Any) -> ModelSpec:
    tensors = made.model_tensors() if tensors is None else tensors
    content = made.header(metadata, tensors, **options) + bytes(made.data_bytes(tensors, options.get("alignment", 32)))
    return read_gguf(Disk(content).as_host(), "/models/m.gguf")


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("big_endian", [False, True], ids=["little", "big"])
def test_a_whole_model(version: int, big_endian: bool) -> None:
    tensors = made.model_tensors()
    spec = spec_of(made.model_metadata(), version=version, big_endian=big_endian)
    assert (spec.architecture, spec.name, spec.quantization) == ("llama", "made for a test", "F16")
    assert (spec.layers, spec.embedding_length, spec.feed_forward_length) == (2, 256, 512)
    assert (spec.attention_heads, spec.vocabulary_size, spec.context_tokens_trained) == (4, 64, 4096)
    assert spec.parameters == spec.active_parameters == sum(tensor.elements for tensor in tensors)
    assert spec.weights_bytes == sum(tensor.stored_bytes for tensor in tensors)
    assert spec.file_bytes == len(made.header(made.model_metadata(), tensors)) + made.data_bytes(tensors)
    assert spec.reference == "/models/m.gguf"
    assert spec.source_paths == ("/models/m.gguf",)


def test_an_eight_billion_class_cache() -> None:
    """36 layers x 8 heads x (128 + 128) x 2 bytes."""
    metadata = made.model_metadata("qwen3", layers=36, heads=32, kv_heads=8, embedding=4096)
    spec = spec_of(metadata, made.model_tensors(layers=36))
    assert spec.cache_bytes_per_token == 147_456


def test_head_lengths_of_the_file_beat_the_quotient() -> None:
    metadata = made.model_metadata(attention__key_length=192, attention__value_length=96)
    (layer, _) = spec_of(metadata).attention_layers
    assert (layer.kv_heads, layer.key_length, layer.value_length, layer.window_tokens) == (2, 192, 96, None)


def test_key_value_heads_default_to_all_heads() -> None:
    metadata = made.model_metadata()
    del metadata["llama.attention.head_count_kv"]
    assert [layer.kv_heads for layer in spec_of(metadata).attention_layers] == [4, 4]


def test_layers_without_key_value_heads_cache_nothing() -> None:
    metadata = made.model_metadata("deci", layers=4, kv_heads=[2, 0, 1, 0])
    spec = spec_of(metadata, made.model_tensors(layers=4))
    assert spec.layers == 4
    assert [layer.kv_heads for layer in spec.attention_layers] == [2, 1]


def test_draft_layers_are_outside_the_main_cache_and_are_not_read_for_a_token() -> None:
    metadata = made.model_metadata("glm4moe", layers=3, nextn_predict_layers=1)
    spec = spec_of(metadata, made.model_tensors(layers=3))
    without = spec_of(made.model_metadata("glm4moe", layers=2), made.model_tensors(layers=2))
    assert spec.layers == len(spec.attention_layers) == 2
    assert spec.active_weights_bytes == without.active_weights_bytes
    assert spec.weights_bytes > without.weights_bytes


def test_one_token_reads_the_output_matrix_and_not_the_input_embedding() -> None:
    untied, tied = spec_of(made.model_metadata()), spec_of(made.model_metadata(), made.model_tensors(tied=True))
    matrix_bytes = 256 * 64 * 2
    assert (untied.tied_output, tied.tied_output) == (False, True)
    assert untied.weights_bytes - untied.active_weights_bytes == matrix_bytes
    assert tied.weights_bytes == tied.active_weights_bytes == untied.active_weights_bytes


def test_a_token_reads_its_share_of_the_experts() -> None:
    metadata = made.model_metadata("qwen3moe", expert_count=8, expert_used_count=2)
    tensors = made.model_tensors(experts=8)
    spec = spec_of(metadata, tensors)
    stacked = [tensor for tensor in tensors if "_exps" in tensor.name]
    assert (spec.experts, spec.experts_used, spec.expert_feed_forward_length) == (8, 2, 512)
    assert spec.parameters - spec.active_parameters == sum(tensor.elements for tensor in stacked) * 6 // 8
    idle_bytes = sum(tensor.stored_bytes for tensor in stacked) * 6 // 8
    assert spec.active_weights_bytes == spec.weights_bytes - idle_bytes - 256 * 64 * 2


def test_one_expert_is_a_dense_model() -> None:
    spec = spec_of(made.model_metadata("hunyuan-dense", expert_count=1))
    assert (spec.experts, spec.experts_used) == (0, 0)
    assert spec.parameters == spec.active_parameters


def test_groups_name_role_and_storage_type() -> None:
    tensors = [*made.model_tensors(storage=made.Q8_0), made.Tensor("rope_freqs.weight", (32,), made.F32_TENSOR)]
    groups = {(group.role, group.storage_type): group for group in spec_of(made.model_metadata(), tensors).tensors}
    assert groups["input", "q8_0"].stored_bytes == 256 * 64 // 32 * 34
    assert groups["output", "q8_0"].matrix_bytes == 256 * 64 // 32 * 34
    assert (groups["output", "f32"].elements, groups["output", "f32"].matrix_bytes) == (256, 0)
    assert groups["repeating", "q8_0"].tensors == 14
    assert groups["other", "f32"].elements == 32


def test_without_a_named_file_type_the_dominant_storage_type_is_the_quantization() -> None:
    metadata = made.model_metadata()
    del metadata["general.file_type"]
    assert spec_of(metadata, made.model_tensors(storage=made.Q4_K)).quantization == "Q4_K"
    assert spec_of({**metadata, "general.file_type": 999}, made.model_tensors(storage=made.Q6_K)).quantization == "Q6_K"


def test_the_embedding_matrix_tells_the_vocabulary_where_no_tokens_are_listed() -> None:
    metadata = made.model_metadata()
    del metadata["tokenizer.ggml.tokens"]
    assert spec_of(metadata).vocabulary_size == 64
    assert spec_of({**metadata, "llama.vocab_size": 60}).vocabulary_size == 60


def test_a_chat_template_of_any_length_is_noticed() -> None:
    metadata = made.model_metadata()
    assert not spec_of(metadata).has_chat_template
    assert spec_of({**metadata, "tokenizer.chat_template": "{{ x }}" * 10_000}).has_chat_template


def test_the_alignment_of_the_file_is_honoured() -> None:
    metadata = {**made.model_metadata(), "general.alignment": 4096}
    tensors = made.model_tensors()
    assert spec_of(metadata, tensors, alignment=4096).weights_bytes == sum(tensor.stored_bytes for tensor in tensors)


@pytest.mark.parametrize("kind", ["adapter", "mmproj", "imatrix", "something new"])
def test_parts_of_models_are_not_models(kind: str) -> None:
    with pytest.raises(UnreadableInput, match="not a language model"):
        spec_of({**made.model_metadata(), "general.type": kind})


def test_a_projector_is_known_by_its_architecture_too() -> None:
    with pytest.raises(UnreadableInput, match="a multimodal projector, not a language model"):
        spec_of({"general.architecture": "clip"})


def test_a_vocabulary_alone_is_not_a_model() -> None:
    with pytest.raises(UnreadableInput, match="holds a vocabulary and no weights"):
        spec_of(made.model_metadata(), [])


def test_an_unknown_architecture_is_refused_with_what_was_found() -> None:
    metadata = made.model_metadata("novel", layers=4, kv_heads=[2, 0, 1, 1], attention__key_length=80)
    with pytest.raises(UnknownArchitecture) as refused:
        spec_of(metadata, made.model_tensors(layers=4))
    message = refused.value.message
    for fact in ("'novel'", "layers 4", "heads 4", "key-value heads 0 to 2", "key length 80", "trained context 4096"):
        assert fact in message
    assert refused.value.exit_code == 9
    assert refused.value.hint


def test_a_file_of_another_trade_is_an_unknown_architecture_too() -> None:
    with pytest.raises(UnknownArchitecture, match=r"'flux' .found: none of the usual facts"):
        spec_of({"general.architecture": "flux"})


@pytest.mark.parametrize("architecture", ["deepseek4", "qwen4exp", "t5", "llada", "eagle3", "hrm-text"])
def test_families_with_other_memories_are_not_guessed(architecture: str) -> None:
    with pytest.raises(UnknownArchitecture):
        spec_of(made.model_metadata(architecture))


@pytest.mark.parametrize(
    "key", ["block_count", "context_length", "embedding_length", "attention.head_count"], ids=lambda key: key
)
def test_a_missing_key_is_named(key: str) -> None:
    metadata = made.model_metadata()
    del metadata[f"llama.{key}"]
    with pytest.raises(UnreadableInput, match=key):
        spec_of(metadata)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("block_count", 0),
        ("block_count", 100_000),
        ("block_count", "two"),
        ("embedding_length", made.Typed(made.I32, -1)),
        ("attention.head_count", 0),
        ("attention.head_count", 1.5),
        ("attention.head_count_kv", [1, 2, 3]),
        ("attention.head_count_kv", made.Strings(2)),
        ("nextn_predict_layers", 2),
        ("expert_count", 4),
    ],
)
def test_an_impossible_value_is_named(key: str, value: object) -> None:
    with pytest.raises(UnreadableInput, match=r"m\.gguf: .* of llama "):
        spec_of({**made.model_metadata(), f"llama.{key}": value})
