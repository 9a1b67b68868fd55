"""Hugging Face model directories as one ModelSpec: tensors, or config.json alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from llmops.core.errors import UnknownArchitecture, UnreadableInput, UsageError
from llmops.core.model import AttentionLayer, ModelSpec
from llmops.models import read_model
from tests.doubles import gguf_files
from tests.doubles import safetensors_files as made
from tests.unit.models.hub import COMMIT, LLAMA, HubDisk, Shape, llama_tensors, put_in_cache, write_model

HOST = HubDisk(HOME="/home/me").as_host()
LAYER = 2 * 64 * 64 + 2 * 32 * 64 + 3 * 128 * 64 + 2 * 64
PARAMETERS = 2 * LAYER + 2 * 6400 + 64


def read(path: Path) -> ModelSpec:
    return read_model(HOST, str(path))


def refusal(path: Path) -> str:
    with pytest.raises(UnreadableInput) as refused:
        read(path)
    assert refused.value.hint
    return refused.value.message


@pytest.mark.parametrize("files", [1, 3])
def test_a_whole_model(tmp_path: Path, files: int) -> None:
    spec = read(write_model(tmp_path / "Small-1B", files=files))
    assert (spec.reference, spec.name, spec.format) == (str(tmp_path / "Small-1B"), "Small-1B", "safetensors")
    assert (spec.architecture, spec.layers, spec.vocabulary_size) == ("llama", 2, 100)
    assert spec.attention_layers == tuple(AttentionLayer(2, 16, 16, layer=layer) for layer in (0, 1))
    assert spec.cache_bytes_per_token == 2 * 2 * 2 * 16 * 2
    assert (spec.parameters, spec.weights_bytes, spec.weights_basis) == (PARAMETERS, 2 * PARAMETERS, "tensors")
    assert (spec.quantization, spec.data_type, spec.quantization_method) == ("bf16", "bfloat16", None)
    assert (spec.embedding_length, spec.feed_forward_length, spec.attention_heads) == (64, 128, 4)
    assert spec.context_tokens_trained == 4096
    assert not spec.tied_output
    assert len(spec.source_paths) == files
    assert spec.file_bytes == sum(Path(path).stat().st_size for path in spec.source_paths)


def test_config_alone_gives_the_same_weights(tmp_path: Path) -> None:
    whole = read(write_model(tmp_path / "whole"))
    alone = read(write_model(tmp_path / "alone", {}))
    assert alone.weights_basis == "config"
    assert alone.source_paths == (str(tmp_path / "alone" / "config.json"),)
    for name in ("parameters", "weights_bytes", "attention_layers", "tied_output", "vocabulary_size"):
        assert getattr(alone, name) == getattr(whole, name)
    assert alone.active_weights_bytes == pytest.approx(whole.active_weights_bytes, rel=0.001)


@pytest.mark.parametrize("name", ["config.json", "model.safetensors"])
def test_a_file_of_the_directory(tmp_path: Path, name: str) -> None:
    directory = write_model(tmp_path / "model")
    assert read(directory / name) == read(directory)


def test_the_index_file(tmp_path: Path) -> None:
    directory = write_model(tmp_path / "model", files=2)
    assert read(directory / "model.safetensors.index.json") == read(directory)


def test_a_weights_file_alone(tmp_path: Path) -> None:
    path = made.write(tmp_path / "m.safetensors", llama_tensors())
    assert "has no config.json beside it" in refusal(path)


def test_from_the_cache(tmp_path: Path) -> None:
    snapshot = put_in_cache(tmp_path / "hub", write_model(tmp_path / "model", files=2))
    for reference in ("org/name", f"org/name@{COMMIT[:8]}"):
        spec = read_model(HOST, reference, caches=(str(tmp_path / "hub"),))
        assert (spec.reference, spec.name, spec.parameters) == (reference, "name", PARAMETERS)
    assert read(snapshot).weights_bytes == 2 * PARAMETERS
    host = HubDisk(HF_HUB_CACHE=str(tmp_path / "hub")).as_host()
    assert read_model(host, "org/name").source_paths[0].startswith(str(snapshot))


def test_not_in_the_cache(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is not in the local Hugging Face cache") as refused:
        read_model(HOST, "org/other", caches=(str(tmp_path),))
    assert "hf download org/other" in (refused.value.hint or "")


def test_a_part_of_the_download_is_missing(tmp_path: Path) -> None:
    snapshot = put_in_cache(tmp_path / "hub", write_model(tmp_path / "model", files=3))
    name = "model-00002-of-00003.safetensors"
    (snapshot / name).resolve().rename(snapshot.parent.parent / "blobs" / "x.incomplete")
    with pytest.raises(UnreadableInput, match=f"files of the model are missing: {name}") as refused:
        read_model(HOST, "org/name", caches=(str(tmp_path / "hub"),))
    assert "1 of its downloads were not finished" in (refused.value.hint or "")


def test_a_truncated_part(tmp_path: Path) -> None:
    directory = write_model(tmp_path / "model", files=2)
    part = directory / "model-00001-of-00002.safetensors"
    part.write_bytes(part.read_bytes()[:-2])
    assert "is said to lie at" in refusal(directory)


def test_files_of_different_downloads(tmp_path: Path) -> None:
    directory = write_model(tmp_path / "model", files=3)
    part = directory / "model-00002-of-00003.safetensors"
    made.write(part, {f"model.layers.9.{number}.weight": ("BF16", (2, 2)) for number in range(7)})
    assert "holds other tensors than those that the index lists in it" in refusal(directory)
    made.write(part, {"model.layers.0.mlp.up_proj.weight": ("BF16", (2, 2))})
    assert "holds 1 tensors, and the index lists 7 in it" in refusal(directory)


def test_tied_embeddings(tmp_path: Path) -> None:
    spec = read(write_model(tmp_path / "m", llama_tensors(tied=True), tie_word_embeddings=True))
    assert spec.tied_output
    assert spec.weights_bytes == spec.active_weights_bytes == 2 * (PARAMETERS - 6400)
    assert read(write_model(tmp_path / "c", {}, tie_word_embeddings=True)).weights_bytes == spec.weights_bytes


def test_experts(tmp_path: Path) -> None:
    tensors: dict[str, Shape] = {name: shape for name, shape in llama_tensors().items() if ".mlp." not in name}
    for layer in range(2):
        tensors[f"model.layers.{layer}.mlp.gate.weight"] = ("BF16", (8, 64))
        for number in range(8):
            for name, shape in (("gate_proj", (32, 64)), ("up_proj", (32, 64)), ("down_proj", (64, 32))):
                tensors[f"model.layers.{layer}.mlp.experts.{number}.{name}.weight"] = ("BF16", shape)
    more = {"num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 32, "head_dim": 16}
    spec = read(write_model(tmp_path / "m", tensors, files=4, model_type="qwen3_moe", **more))
    idle = 2 * 6 * 3 * 32 * 64
    assert (spec.experts, spec.experts_used, spec.expert_feed_forward_length) == (8, 2, 32)
    assert spec.active_parameters == spec.parameters - idle
    assert spec.active_weights_bytes == spec.weights_bytes - 2 * idle - 2 * 6400


def test_an_encoder_beside_the_language_model(tmp_path: Path) -> None:
    text = {key: value for key, value in LLAMA.items() if key not in {"architectures", "torch_dtype"}}
    tensors: dict[str, Shape] = {f"language_model.{name}": shape for name, shape in llama_tensors().items()}
    tensors["vision_tower.encoder.layers.7.fc.weight"] = ("F16", (10, 10))
    tensors["multi_modal_projector.linear_1.weight"] = ("BF16", (64, 10))
    directory = write_model(tmp_path / "m", tensors, model_type="llava")
    config = {"model_type": "llava", "dtype": "bfloat16", "text_config": text, "vision_config": {"hidden_size": 10}}
    (directory / "config.json").write_text(json.dumps(config))
    spec = read(directory)
    assert spec.encoder_weights_bytes == 200 + 1280
    assert (spec.layers, spec.parameters, spec.data_type) == (2, PARAMETERS + 740, "bfloat16")
    assert spec.active_weights_bytes == 2 * (PARAMETERS - 6400)


def test_layers_that_only_guess_next_tokens(tmp_path: Path) -> None:
    plain = read(write_model(tmp_path / "plain", num_nextn_predict_layers=1))
    tensors = llama_tensors() | {"model.layers.2.eh_proj.weight": ("BF16", (64, 128))}
    spec = read(write_model(tmp_path / "draft", tensors, num_nextn_predict_layers=1))
    assert (plain.draft_layers, spec.draft_layers) == (0, 1)
    assert spec.weights_bytes == plain.weights_bytes + 2 * 64 * 128
    assert spec.active_weights_bytes == plain.active_weights_bytes


def packed(shape: tuple[int, ...]) -> dict[str, Shape]:
    rows, columns = shape
    return {
        "qweight": ("I32", (columns // 8, rows)),
        "qzeros": ("I32", (columns // 32, rows // 8)),
        "scales": ("F16", (columns // 32, rows)),
        "g_idx": ("I32", (columns,)),
    }


def test_packed_weights_count_as_parameters(tmp_path: Path) -> None:
    tensors: dict[str, Shape] = {}
    for name, (data_type, shape) in llama_tensors(data_type="F16").items():
        if name.endswith("_proj.weight"):
            tensors |= {f"{name.removesuffix('weight')}{part}": entry for part, entry in packed(shape).items()}
        else:
            tensors[name] = (data_type, shape)
    gptq = {"quant_method": "gptq", "bits": 4, "group_size": 32, "desc_act": True, "sym": True}
    spec = read(write_model(tmp_path / "m", tensors, torch_dtype="float16", quantization_config=gptq))
    assert spec.parameters == PARAMETERS
    assert spec.weights_bytes == made.data_bytes(tensors)
    assert spec.quantization_method == "gptq"
    assert "4" in spec.quantization
    assert spec.data_type == "float16"


def test_a_quantisation_in_a_file_of_its_own(tmp_path: Path) -> None:
    directory = write_model(tmp_path / "m", llama_tensors(data_type="F8_E4M3"))
    said = {"producer": {"name": "modelopt"}, "quantization": {"quant_algo": "FP8", "kv_cache_quant_algo": "FP8"}}
    (directory / "hf_quant_config.json").write_text(json.dumps(said))
    spec = read(directory)
    assert spec.quantization_method is not None
    assert spec.quantization_method.startswith("modelopt")
    assert spec.cache_data_type is not None


@pytest.mark.parametrize(
    ("scaling", "tokens"),
    [
        ({"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 4096}, 16384),
        ({"type": "yarn", "factor": 2, "original_max_position_embeddings": 1024}, 0),
        ({"rope_type": "llama3", "factor": 8.0, "original_max_position_embeddings": 4096}, 0),
        (None, 0),
    ],
)
def test_stretched_contexts_are_noted_and_not_promised(tmp_path: Path, scaling: object, tokens: int) -> None:
    spec = read(write_model(tmp_path / "m", rope_scaling=scaling))
    assert spec.context_tokens_trained == 4096
    assert [f"stretched to {tokens} tokens" in note for note in spec.notes] == [True] * bool(tokens)


def test_a_context_that_is_not_said_is_the_one_that_the_engine_assumes(tmp_path: Path) -> None:
    spec = read(write_model(tmp_path / "m", max_position_embeddings=...))
    assert spec.context_tokens_trained == 2048
    assert "2048 tokens are assumed" in spec.notes[0]


@pytest.mark.parametrize(
    ("said", "expected"),
    [("half", "float16"), ("torch.float16", "float16"), ("auto", "bfloat16"), ("float8_e4m3fn", "bfloat16")],
)
def test_the_type_is_one_that_engines_compute_in(tmp_path: Path, said: str, expected: str) -> None:
    assert read(write_model(tmp_path / "m", torch_dtype=said)).data_type == expected


def test_mistrals_own_form_and_a_repository_of_a_cache_are_named(tmp_path: Path) -> None:
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "params.json").write_text("{}")
    put_in_cache(tmp_path / "hub", write_model(tmp_path / "m"))
    for path, said in ((tmp_path / "own", "params.json"), (tmp_path / "hub" / "models--org--name", "org/name")):
        with pytest.raises(UnreadableInput) as refused:
            read(path)
        assert said in (refused.value.hint or "")


@pytest.mark.parametrize(
    ("name", "content", "found"),
    [
        ("tokenizer_config.json", b'{"chat_template": "{{ x }}"}', True),
        ("tokenizer_config.json", b'{"chat_template": null}', False),
        ("tokenizer_config.json", b'{"x": "' + b"y" * 2**20 + b'", "chat_template": [{"name": "a"}]}', True),
        ("tokenizer_config.json", b'{"x": "' + b"y" * 2**20 + b'"}', False),
        ("tokenizer_config.json", b"broken", False),
        ("chat_template.jinja", b"{{ x }}", True),
        ("README.md", b"chat_template", False),
    ],
)
def test_chat_templates(tmp_path: Path, name: str, content: bytes, found: bool) -> None:
    directory = write_model(tmp_path / "m")
    (directory / name).write_bytes(content)
    assert read(directory).has_chat_template is found


def test_directories_that_are_no_model(tmp_path: Path) -> None:
    assert "is not a model: it holds no config.json" in refusal(tmp_path)
    (tmp_path / "adapter_config.json").write_text("{}")
    assert "holds an adapter (LoRA), not a model" in refusal(tmp_path)
    gguf_files.write(tmp_path / "b.gguf", gguf_files.model_metadata(), gguf_files.model_tensors())
    (tmp_path / "config.json").write_text("{}")
    assert "is a directory of GGUF files: b.gguf" in refusal(tmp_path)


def test_a_family_that_is_not_known(tmp_path: Path) -> None:
    with pytest.raises(UnknownArchitecture):
        read(write_model(tmp_path / "m", model_type="nobody_knows"))


def test_an_encoder_alone_is_no_model(tmp_path: Path) -> None:
    directory = write_model(tmp_path / "m", {"vision_tower.layers.0.w.weight": ("BF16", (4, 4))})
    assert "its tensors are no layers of a language model" in refusal(directory)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"block_configs": []}, "block_configs is 'a list of 0'"),
        ({"model_type": "nemotron_h", "mamba_num_heads": 4, "mamba_head_dim": 16, "ssm_state_size": 16,
          "conv_kernel": 4}, "hybrid_override_pattern is missing"),
    ],
    ids=["blocks", "pattern"],
)  # fmt: skip
def test_lists_that_are_shorter_than_the_model(tmp_path: Path, changed: dict[str, Any], message: str) -> None:
    assert message in refusal(write_model(tmp_path / "m", {}, **changed))


def test_what_was_assumed_is_noted(tmp_path: Path) -> None:
    assert read(write_model(tmp_path / "whole")).notes == ()
    alone = read(write_model(tmp_path / "alone", {}, torch_dtype=...))
    assert alone.notes == (
        "its weights are computed from config.json, for no .safetensors file is there; those of the whole download are"
        " exact",
        "config.json does not name the type of its weights: bfloat16 is assumed",
    )
    window = read(write_model(tmp_path / "window", model_type="phi3", sliding_window=64))
    assert window.notes == ("the window is used by vLLM; llama.cpp keeps every token of this family",)


def test_a_file_that_names_every_expert_is_read(tmp_path: Path) -> None:
    named = {f"model.layers.{n // 128}.mlp.experts.{n % 128}.up_proj": {"quant_algo": "NVFP4"} for n in range(22_000)}
    path = write_model(tmp_path / "m", quantization_config={"quant_method": "modelopt", "quant_algo": "MIXED_PRECISION",
                                                            "quantized_layers": named})  # fmt: skip
    assert (path / "config.json").stat().st_size > 1_400_000
    assert read(path).quantization_method == "modelopt"


def test_a_file_of_more_values_than_any_model_has_is_refused(tmp_path: Path) -> None:
    path = write_model(tmp_path / "m", eos_token_id=list(range(140_000)))
    assert "140" in refusal(path)
    assert "values" in refusal(path)


def test_weights_that_no_engine_loads_are_named(tmp_path: Path) -> None:
    spec = read(write_model(tmp_path / "m", {}, quantization={"bits": 4, "group_size": 64}))
    assert spec.quantization == "mlx 4-bit"
    assert spec.notes[0] == "its weights are in the form of mlx, which neither vLLM nor llama.cpp loads"


def test_weights_of_another_form_are_named(tmp_path: Path) -> None:
    path = write_model(tmp_path / "old", {})
    (path / "pytorch_model.bin").write_bytes(b"PK")
    assert read(path).notes[-1] == "its weights are in files of another form (.bin, .pt), whose sizes are not read"
