"""The weights of layers, alike layers together."""

from __future__ import annotations

from llmops.core.model import LayerShape
from llmops.models.gguf_file import Tensor
from llmops.models.gguf_shapes import layer_shapes


def tensor(name: str, *dimensions: int) -> Tensor:
    return Tensor(name, dimensions, "F16", 1, 2, 0)


def test_alike_layers_are_one_entry_and_biases_are_left_out() -> None:
    tensors = [tensor(f"blk.{layer}.attn_q.weight", 64, 128) for layer in (0, 1, 2)]
    tensors += [tensor("blk.1.ffn_up.weight", 64, 256), tensor("blk.0.attn_norm.weight", 64)]
    tensors += [tensor("token_embd.weight", 64, 1000), tensor("blk.2.attn_q.bias", 64, 2)]
    assert layer_shapes(tensors, 2) == (
        LayerShape((0,), (("attn_norm", (64,)), ("attn_q", (64, 128)))),
        LayerShape((1,), (("attn_q", (64, 128)), ("ffn_up", (64, 256)))),
    )


def test_the_experts_of_old_files_count_once() -> None:
    tensors = [tensor(f"blk.0.ffn_up.{expert}.weight", 64, 32) for expert in range(4)]
    tensors += [tensor("blk.0.shortconv.conv.weight", 3, 64)]
    assert layer_shapes(tensors, 1) == (LayerShape((0,), (("ffn_up_exps", (64, 32)), ("shortconv.conv", (3, 64)))),)
