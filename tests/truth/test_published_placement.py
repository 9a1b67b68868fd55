"""Where engines on real machines put weights, caches and states, against the rules of llama.cpp's split by layer.

A row says how its layers were divided by its caches; weights and states must then follow, and the division must be one
that some free memory of the named cards gives. Storage types are those of llama.cpp's own recipes (llama-quant.cpp).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from llmops.core.memory.ggml import Demand, cache_on, state_on
from llmops.core.memory.ggml_settings import GgmlSettings
from llmops.core.memory.ggml_weights import HOST, Placement, device_weights, place_layers
from llmops.core.model import ModelSpec
from llmops.host.local import LocalHost
from llmops.models import read_model
from tests.doubles.gguf_files import F32_TENSOR, Q4_K, Q5_K, Q6_K, Q8_0, Tensor
from tests.truth.shapes import attention
from tests.truth.shapes.shape import Shape
from tests.truth.shapes.sizes import COMMAND_R_35B, QWEN_3_1_7B, QWEN_3_5_9B, QWEN_3_5_27B

MIB, GIB = 1024**2, 1024**3
Recipe = Callable[[str, int, int], int]


def small(name: str, layer: int, layers: int) -> int:
    """Q4_K_S: more bits for the values of the first four layers and the last products of the first eighth."""
    if name.endswith("attn_v.weight"):
        return Q5_K if layer < 4 else Q4_K
    if name.endswith("ffn_down.weight"):
        return Q5_K if layer < layers // 8 else Q4_K
    return Q6_K if name == "token_embd.weight" else Q4_K


def medium(name: str, layer: int, layers: int) -> int:
    """Q4_K_M: six bits for values and last products of the first and last eighth and every third layer between."""
    eighth = layers // 8
    wide = layer < eighth or layer >= 7 * layers // 8 or (layer - eighth) % 3 == 2
    if name.endswith(("attn_v.weight", "ffn_down.weight")):
        return Q6_K if wide else Q4_K
    return Q6_K if name == "token_embd.weight" else Q4_K


def made(shape: Shape, recipe: Recipe, directory: Path) -> ModelSpec:
    """The shape as a file in the storage types of a recipe."""
    layers = 1 + max(int(one.name.split(".")[1]) for one in shape.tensors if one.name.startswith("blk."))

    def stored(one: Tensor) -> Tensor:
        if one.storage == F32_TENSOR:
            return one
        layer = int(one.name.split(".")[1]) if one.name.startswith("blk.") else 0
        wanted = recipe(one.name, layer, layers)
        fills_blocks = one.dimensions[0] % 256 == 0 or wanted not in {Q4_K, Q5_K, Q6_K}
        return replace(one, storage=wanted if fills_blocks else Q8_0)

    typed = replace(shape, tensors=tuple(stored(one) for one in shape.tensors))
    return read_model(LocalHost(), str(typed.write(directory / "made.gguf")))


LLAMA_3B = partial(
    attention.llama, layers=28, embedding=3072, count=24, kv_heads=8, width=8192, vocabulary=128_256, tied=True
)


def mebibytes(placement: Placement, model: ModelSpec, settings: GgmlSettings, device: int) -> tuple[float, float]:
    """Cache and states of one device."""
    demand = Demand(model, settings, None, placement)
    return cache_on(device, demand) / MIB, state_on(device, demand) / MIB


def test_weights_of_every_layer_where_the_recipe_gives_some_more_bits(tmp_path: Path) -> None:
    """l69: Command-R 35B on a 4070 Ti and a 3090 Ti, 12 layers and 28 with the output: weights to 0.01 MiB."""
    shape = COMMAND_R_35B()  # a model whose parts of a layer work side by side, after one norm
    shape = replace(shape, tensors=tuple(one for one in shape.tensors if not one.name.endswith("ffn_norm.weight")))
    model = made(shape, small, tmp_path)
    placement = place_layers(40, 41, (int(9.9 * GIB), 25 * GIB))
    settings = GgmlSettings(1, 4096)
    assert [mebibytes(placement, model, settings, card)[0] for card in (0, 1)] == [1536.0, 3584.0]
    assert device_weights(model, placement, 0) / MIB == pytest.approx(5434.38, abs=0.01)
    assert device_weights(model, placement, 1) / MIB == pytest.approx(13_989.53, abs=0.01)
    assert device_weights(model, placement, HOST) / MIB == pytest.approx(1640.62, abs=0.01)


def test_two_cards_of_the_same_size(tmp_path: Path) -> None:
    """Ollama's own ground truth of two CUDA devices (llm/llama_server_test.go): Llama 3.2 3B at 32,768 tokens.

    Which layers get six bits follows the order of tensors in the file that was quantised, which is not known here.
    """
    model = made(LLAMA_3B(), medium, tmp_path)
    placement = place_layers(28, None, (24 * GIB, 24 * GIB))
    settings = GgmlSettings(1, 32_768)
    assert [mebibytes(placement, model, settings, card)[0] for card in (0, 1)] == [1920.0, 1664.0]
    sizes = [device_weights(model, placement, card) / MIB for card in (0, 1)]
    assert sizes == pytest.approx([852.89, 1065.46], rel=0.01)
    assert sum(sizes) == pytest.approx(1918.35, abs=0.02)
    assert device_weights(model, placement, HOST) / MIB == pytest.approx(308.23, abs=0.01)


def test_states_lie_with_their_layers_on_two_cards(tmp_path: Path) -> None:
    """Ollama's ground truth of a hybrid model on two cards: caches 9216 + 7168, states 90.40 + 59.23 MiB."""
    model = made(QWEN_3_5_27B(), medium, tmp_path)
    placement = place_layers(64, None, (38 * GIB, 27 * GIB))
    settings = GgmlSettings(1, 262_144)
    first, second = (mebibytes(placement, model, settings, card) for card in (0, 1))
    assert (first[0], second[0]) == (9216.0, 7168.0)
    assert first[1] == pytest.approx(90.40, abs=0.01)
    assert second[1] == pytest.approx(59.23, abs=0.01)


def test_layers_that_stay_on_the_host_keep_caches_and_states_there(tmp_path: Path) -> None:
    """l28: 13 of 32 layers of Qwen3.5 9B on the processor: `-ngl 20`, counting the output layer."""
    model = made(QWEN_3_5_9B(), medium, tmp_path)
    placement = place_layers(32, 20, (8 * GIB,))
    settings = GgmlSettings(1, 8192)
    host, card = (mebibytes(placement, model, settings, device) for device in (HOST, 0))
    assert (host[0], card[0]) == (96.0, 160.0)
    assert host[1] == pytest.approx(20.94, abs=0.01)
    assert card[1] == pytest.approx(29.31, abs=0.01)


def test_half_a_dense_model_on_a_card(tmp_path: Path) -> None:
    """l16: 19 of 36 layers of Qwen3 8B on the card."""
    model = made(attention.qwen3(context=131_072), medium, tmp_path)
    placement = place_layers(36, 20, (24 * GIB,))
    settings = GgmlSettings(1, 131_072)
    assert mebibytes(placement, model, settings, 0)[0] == 9728.0
    assert mebibytes(placement, model, settings, HOST)[0] == 8704.0


@pytest.mark.parametrize(
    ("shape", "storage", "host_mib"),
    [
        pytest.param(QWEN_3_1_7B, Q4_K, 166, id="l33"),
        pytest.param(QWEN_3_5_27B, Q4_K, 682.03, id="l63"),
        pytest.param(attention.llama, Q8_0, 532.31, id="8b-8-bit"),
    ],
)
def test_token_embeddings_stay_on_the_host(
    shape: Callable[[], Shape], storage: int, host_mib: float, tmp_path: Path
) -> None:
    """What `CPU_Mapped model buffer size` says when all layers are on the card: the table of tokens alone."""
    model = made(shape(), lambda *_: storage, tmp_path)
    placement = place_layers(model.layers, None, (24 * GIB,))
    assert device_weights(model, placement, HOST) / MIB == pytest.approx(host_mib, abs=1)
    assert device_weights(model, placement, HOST) + device_weights(model, placement, 0) == model.weights_bytes + (
        device_weights(model, placement, HOST) if model.tied_output else 0
    )


def test_experts_of_the_first_layers_on_the_host(tmp_path: Path) -> None:
    """`--n-cpu-moe`: the rest of those layers, their caches and the output stay on the card (common/common.h)."""
    model = made(attention.qwen3moe(), lambda *_: Q8_0, tmp_path)
    placement = replace(place_layers(48, None, (24 * GIB,)), host_expert_layers=10)
    routed = 3 * 2048 * 768 * 128 // 32 * 34
    everything = place_layers(48, None, (24 * GIB,))
    moved = device_weights(model, everything, 0) - device_weights(model, placement, 0)
    assert moved == 10 * routed
    assert device_weights(model, placement, HOST) - device_weights(model, everything, HOST) == moved
    assert mebibytes(placement, model, GgmlSettings(1, 4096), HOST) == (0, 0)


def test_ollama_with_a_part_of_the_experts_model_on_the_processor(tmp_path: Path) -> None:
    """o19: 18.5 of 30.2 GiB on the card, with 1.9 of 3 GiB of cache: 30 of 48 layers without the output."""
    model = made(attention.qwen3moe(), lambda *_: Q8_0, tmp_path)
    placement = Placement((HOST,) * 18 + (0,) * 30, HOST)
    settings = GgmlSettings(1, 32_768)
    assert device_weights(model, placement, 0) / GIB == pytest.approx(18.5, rel=0.01)
    assert device_weights(model, placement, HOST) / GIB == pytest.approx(11.7, rel=0.01)
    assert mebibytes(placement, model, settings, 0)[0] / 1024 == pytest.approx(1.9, abs=0.05)
