"""Projectors: what their files say, what they add to a model, and where they lie."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from llmops.core.errors import UnreadableInput
from llmops.core.hardware import Gpu, Hardware, Memory
from llmops.core.memory.ggml import budgets
from llmops.core.memory.ggml_settings import GgmlSettings
from llmops.engines.found import InForce, Installation
from llmops.engines.llama_server.projector import with_its_projector
from llmops.host.local import LocalHost
from llmops.models import read_model
from llmops.models.gguf_projector import UNKNOWN_GRAPH_BYTES, graph_of, read_or_weigh, read_projector, with_projectors
from tests.doubles import gguf_files as made
from tests.unit.core.memory.ggml_models import LLAMA_8B

HOST = LocalHost()
MIB, GIB = 1024**2, 1024**3
# Gemma 3's encoder: 896 x 896 pixels in patches of 14.
SEEING: dict[str, int | str] = {
    "general.architecture": "clip",
    "clip.vision.image_size": 896,
    "clip.vision.patch_size": 14,
    "clip.vision.embedding_length": 1152,
    "clip.vision.feed_forward_length": 4304,
    "clip.vision.attention.head_count": 16,
}
TENSORS = (made.Tensor("v.patch_embd.weight", (14, 14, 3, 1152)), made.Tensor("mm.input_projection.weight", (1152, 64)))
INSTALLATION = Installation("llama-server", "unit", ("/usr/bin/llama-server",), None, None, None)


def test_weights_and_graph(tmp_path: Path) -> None:
    projector = read_projector(HOST, str(made.write(tmp_path / "mmproj.gguf", SEEING, TENSORS)))
    assert projector.stored_bytes == sum(tensor.stored_bytes for tensor in TENSORS)
    low, high = projector.graph_bytes
    assert low == 108 * MIB
    assert high == 1150 * MIB, "llama.cpp printed 1132 for Gemma 3 before its encoder had flash attention"


def test_pictures_as_they_are() -> None:
    """An encoder that merges patches: 248.10 MiB printed for 1472 x 1472 pixels in patches of 16."""
    low, high = graph_of(SEEING | {"clip.vision.patch_size": 16, "clip.vision.spatial_merge_size": 2})
    assert 200 * MIB < low < 248.10 * MIB < high
    assert graph_of(SEEING | {"clip.vision.patch_size": 16, "clip.projector_type": "qwen3vl_merger"}) == (low, high)


def test_sound_has_scores_too() -> None:
    hearing: dict[str, int | str] = {
        "clip.audio.embedding_length": 1280,
        "clip.audio.feed_forward_length": 5120,
        "clip.audio.attention.head_count": 20,
    }
    low, high = graph_of(hearing)
    assert 40 * MIB < low < high < 300 * MIB
    assert graph_of(SEEING | hearing) == graph_of(SEEING), "the larger one; they run one after the other"


@pytest.mark.parametrize(
    "wrong",
    [{}, {"clip.vision.patch_size": 0}, {"clip.vision.image_size": 1 << 40}, {"clip.vision.embedding_length": "x"}],
)
def test_an_encoder_that_says_nothing_usable_gets_an_allowance(wrong: dict[str, int | str]) -> None:
    assert graph_of(SEEING | wrong if wrong else {}) == UNKNOWN_GRAPH_BYTES


def test_a_model_is_no_projector(tmp_path: Path) -> None:
    path = made.write(tmp_path / "model.gguf", made.model_metadata(), made.model_tensors())
    with pytest.raises(UnreadableInput, match="no projector"):
        read_projector(HOST, str(path))


def test_a_file_that_is_no_gguf_counts_as_large_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "blob").write_bytes(b"x" * 1000)
    (found,) = read_or_weigh(HOST, (str(tmp_path / "blob"),))
    assert (found.stored_bytes, found.graph_bytes) == (1000, UNKNOWN_GRAPH_BYTES)
    with pytest.raises(UnreadableInput):
        read_or_weigh(HOST, (str(tmp_path / "nowhere"),))


def test_it_lies_on_the_first_card_with_its_graph(tmp_path: Path) -> None:
    projector = read_projector(HOST, str(made.write(tmp_path / "mmproj.gguf", SEEING, TENSORS)))
    model = with_projectors(LLAMA_8B, (projector,))
    assert model.weights_bytes == LLAMA_8B.weights_bytes + projector.stored_bytes
    assert model.active_weights_bytes == LLAMA_8B.active_weights_bytes
    cards = tuple(Gpu(number, None, "made", 24 * GIB, 24 * GIB) for number in range(2))
    machine = Hardware(memory=Memory(total_bytes=64 * GIB, available_bytes=60 * GIB), gpus=cards)
    settings = GgmlSettings(1, 4096)
    rows = zip(budgets(machine, model, settings), budgets(machine, LLAMA_8B, settings), strict=True)
    host, first, second = ((ours.used_bytes - plain.used_bytes, ours.ranges[0][3]) for ours, plain in rows)
    assert first[0] == projector.stored_bytes + 1150 * MIB
    assert "encoder" in first[1]
    assert (host[0], second[0]) == (0, 0)
    (alone,) = budgets(replace(machine, gpus=()), model, settings)
    assert "encoder" in alone.ranges[0][3]


def test_nothing_beside_a_model_changes_nothing() -> None:
    assert with_projectors(LLAMA_8B, ()) is LLAMA_8B


def test_the_projector_of_a_running_server_counts(tmp_path: Path) -> None:
    path = str(made.write(tmp_path / "mmproj.gguf", SEEING, TENSORS))
    words = ("/usr/bin/llama-server", "--model", "m.gguf")
    model, said = with_its_projector(HOST, LLAMA_8B, INSTALLATION, InForce(arguments=(*words, "--mmproj", path)))
    assert model.encoder_weights_bytes > 0
    assert said == ()
    by_variable = InForce(arguments=words, environment=(("LLAMA_ARG_MMPROJ", path),))
    assert with_its_projector(HOST, LLAMA_8B, INSTALLATION, by_variable)[0] == model
    assert with_its_projector(HOST, LLAMA_8B, INSTALLATION, InForce(arguments=words)) == (LLAMA_8B, ())


def test_a_projector_that_cannot_be_read_is_told() -> None:
    gone = InForce(arguments=("/usr/bin/llama-server", "-mm", "/nowhere/mmproj.gguf"))
    model, said = with_its_projector(HOST, LLAMA_8B, INSTALLATION, gone)
    assert model is LLAMA_8B
    assert "not counted" in said[0]


def test_an_encoder_inside_the_file_of_a_model(tmp_path: Path) -> None:
    """Ollama's library has them so: its keys begin with the model's architecture."""
    plain = read_model(HOST, str(made.write(tmp_path / "plain.gguf", made.model_metadata(), made.model_tensors())))
    keys = {key.replace("clip", plain.architecture): value for key, value in SEEING.items() if "vision" in key}
    both = made.write(tmp_path / "both.gguf", made.model_metadata() | keys, (*made.model_tensors(), *TENSORS))
    seeing = read_model(HOST, str(both))
    extra = sum(tensor.stored_bytes for tensor in TENSORS)
    assert seeing.encoder_weights_bytes == extra == seeing.weights_bytes - plain.weights_bytes
    assert seeing.encoder_graph_bytes == (108 * MIB, 1150 * MIB)
    assert seeing.active_parameters == plain.active_parameters
    assert seeing.active_weights_bytes == plain.active_weights_bytes
    assert plain.encoder_graph_bytes == (0, 0)
