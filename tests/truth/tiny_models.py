"""Makes tiny models with random weights that vLLM really loads: one for each rule of its cache. No network."""

from __future__ import annotations

import argparse
import json
import random
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from llmops.load import random_prompt

VOCABULARY, HIDDEN, FEED_FORWARD, HEADS = 512, 128, 256, 4
LENGTH = 2_048
_BASE: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "hidden_size": HIDDEN,
    "intermediate_size": FEED_FORWARD,
    "num_attention_heads": HEADS,
    "max_position_embeddings": LENGTH,
    "hidden_act": "silu",
    "rms_norm_eps": 1e-6,
    "tie_word_embeddings": True,
    "torch_dtype": "bfloat16",
    "bos_token_id": 1,
    "eos_token_id": 2,
}
# A pool of bfloat16 numbers around zero that tensors are cut from: random, and soon made.
_POOL_ELEMENTS = 16_384
_CHAT_TEMPLATE = "{% for message in messages %}{{ message['content'] }} {% endfor %}"


@dataclass(frozen=True)
class Tiny:
    """One model: its config.json and the shape of each of its tensors."""

    name: str
    config: dict[str, Any]
    tensors: dict[str, tuple[int, ...]]


def full_attention() -> Tiny:
    """Qwen3: four layers, two key-value heads of 64."""
    config = {
        **_BASE, "architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "num_hidden_layers": 4,
        "num_key_value_heads": 2, "head_dim": 64, "rope_theta": 10_000.0, "attention_bias": False,
    }  # fmt: skip
    tensors = {**_outside(), **_layers(4, {**_attention(2, 64, norms=True), **_feed_forward(), **_two_norms()})}
    return Tiny("full", config, tensors)


def sliding_window() -> Tiny:
    """Gemma 3: six layers, every sixth sees everything, the others 256 tokens."""
    config = {
        **_BASE, "architectures": ["Gemma3ForCausalLM"], "model_type": "gemma3_text", "num_hidden_layers": 6,
        "num_key_value_heads": 1, "head_dim": 64, "sliding_window": 256, "sliding_window_pattern": 6,
        "layer_types": ["sliding_attention"] * 5 + ["full_attention"], "hidden_activation": "gelu_pytorch_tanh",
        "hidden_act": "gelu_pytorch_tanh", "query_pre_attn_scalar": 64, "rope_theta": 1_000_000.0,
        "rope_local_base_freq": 10_000.0,
    }  # fmt: skip
    norms = {
        f"{name}_layernorm.weight": (HIDDEN,)
        for name in ("input", "post_attention", "pre_feedforward", "post_feedforward")
    }
    tensors = {**_outside(), **_layers(6, {**_attention(1, 64, norms=True), **_feed_forward(), **norms})}
    return Tiny("window", config, tensors)


def latent_attention() -> Tiny:
    """DeepSeek V2: three layers with a latent vector of 512 and 64 rotated elements, no experts."""
    latent, rotated, plain, value = 512, 64, 64, 64
    config = {
        **_BASE, "architectures": ["DeepseekV2ForCausalLM"], "model_type": "deepseek_v2", "num_hidden_layers": 3,
        "num_key_value_heads": HEADS, "kv_lora_rank": latent, "q_lora_rank": None, "qk_rope_head_dim": rotated,
        "qk_nope_head_dim": plain, "v_head_dim": value, "n_routed_experts": 2, "first_k_dense_replace": 3,
        "moe_layer_freq": 1, "n_shared_experts": 1, "num_experts_per_tok": 1, "moe_intermediate_size": 64,
        "rope_theta": 10_000.0, "head_dim": plain + rotated, "tie_word_embeddings": False,
    }  # fmt: skip
    attention = {
        "self_attn.q_proj.weight": (HEADS * (plain + rotated), HIDDEN),
        "self_attn.kv_a_proj_with_mqa.weight": (latent + rotated, HIDDEN),
        "self_attn.kv_a_layernorm.weight": (latent,),
        "self_attn.kv_b_proj.weight": (HEADS * (plain + value), latent),
        "self_attn.o_proj.weight": (HIDDEN, HEADS * value),
    }
    outside = {**_outside(), "lm_head.weight": (VOCABULARY, HIDDEN)}
    return Tiny("latent", config, {**outside, **_layers(3, {**attention, **_feed_forward(), **_two_norms()})})


def short_convolution() -> Tiny:
    """LFM2: six layers of which two attend and four keep the last two positions of a convolution."""
    kinds = ["conv", "conv", "full_attention", "conv", "conv", "full_attention"]
    config = {
        **_BASE, "architectures": ["Lfm2ForCausalLM"], "model_type": "lfm2", "num_hidden_layers": 6,
        "num_key_value_heads": 2, "layer_types": kinds, "conv_L_cache": 3,
        "conv_dim": HIDDEN, "conv_dim_out": HIDDEN, "conv_bias": False, "norm_eps": 1e-6,
        "block_dim": HIDDEN, "block_ff_dim": FEED_FORWARD, "block_auto_adjust_ff_dim": False, "block_multiple_of": 256,
        "rope_theta": 10_000.0, "full_attn_idxs": [2, 5],
    }  # fmt: skip
    tensors = {"model.embed_tokens.weight": (VOCABULARY, HIDDEN), "model.embedding_norm.weight": (HIDDEN,)}
    shared = {
        "feed_forward.w1.weight": (FEED_FORWARD, HIDDEN),
        "feed_forward.w3.weight": (FEED_FORWARD, HIDDEN),
        "feed_forward.w2.weight": (HIDDEN, FEED_FORWARD),
        "operator_norm.weight": (HIDDEN,),
        "ffn_norm.weight": (HIDDEN,),
    }
    convolution = {
        "conv.in_proj.weight": (3 * HIDDEN, HIDDEN),
        "conv.out_proj.weight": (HIDDEN, HIDDEN),
        "conv.conv.weight": (HIDDEN, 1, 3),
    }
    length = HIDDEN // HEADS
    attention = {
        "self_attn.q_proj.weight": (HIDDEN, HIDDEN),
        "self_attn.k_proj.weight": (2 * length, HIDDEN),
        "self_attn.v_proj.weight": (2 * length, HIDDEN),
        "self_attn.out_proj.weight": (HIDDEN, HIDDEN),
        "self_attn.q_layernorm.weight": (length,),
        "self_attn.k_layernorm.weight": (length,),
    }
    for number, kind in enumerate(kinds):
        parts = {**shared, **(convolution if kind == "conv" else attention)}
        tensors.update({f"model.layers.{number}.{part}": shape for part, shape in parts.items()})
    return Tiny("hybrid", config, tensors)


def _outside() -> dict[str, tuple[int, ...]]:
    return {"model.embed_tokens.weight": (VOCABULARY, HIDDEN), "model.norm.weight": (HIDDEN,)}


def _layers(count: int, parts: dict[str, tuple[int, ...]]) -> dict[str, tuple[int, ...]]:
    return {f"model.layers.{layer}.{part}": shape for layer in range(count) for part, shape in parts.items()}


def _attention(kv_heads: int, length: int, *, norms: bool) -> dict[str, tuple[int, ...]]:
    parts: dict[str, tuple[int, ...]] = {
        "self_attn.q_proj.weight": (HEADS * length, HIDDEN),
        "self_attn.k_proj.weight": (kv_heads * length, HIDDEN),
        "self_attn.v_proj.weight": (kv_heads * length, HIDDEN),
        "self_attn.o_proj.weight": (HIDDEN, HEADS * length),
    }
    return parts | {f"self_attn.{one}_norm.weight": (length,) for one in ("q", "k") if norms}


def _feed_forward() -> dict[str, tuple[int, ...]]:
    return {
        "mlp.gate_proj.weight": (FEED_FORWARD, HIDDEN),
        "mlp.up_proj.weight": (FEED_FORWARD, HIDDEN),
        "mlp.down_proj.weight": (HIDDEN, FEED_FORWARD),
    }


def _two_norms() -> dict[str, tuple[int, ...]]:
    return {"input_layernorm.weight": (HIDDEN,), "post_attention_layernorm.weight": (HIDDEN,)}


MODELS = {made.name: made for made in (full_attention(), sliding_window(), latent_attention(), short_convolution())}


def write_model(model: Tiny, directory: Path) -> Path:
    """Write config.json, the tokenizer and the weights; the directory of the model."""
    target = directory / model.name
    target.mkdir(parents=True, exist_ok=True)
    (target / "config.json").write_text(json.dumps(model.config, indent=2), encoding="utf-8")
    _write_tokenizer(target)
    _write_weights(model, target / "model.safetensors")
    return target


def _write_weights(model: Tiny, path: Path) -> None:
    """The safetensors format: the length of a JSON header, the header, the tensors one after another."""
    numbers = random.Random(model.name)
    pool = b"".join(struct.pack("<f", numbers.gauss(0, 0.02))[2:] for _ in range(_POOL_ELEMENTS))
    header: dict[str, object] = {}
    end = 0
    for name, shape in model.tensors.items():
        size = 2
        for extent in shape:
            size *= extent
        header[name] = {"dtype": "BF16", "shape": list(shape), "data_offsets": [end, end + size]}
        end += size
    head = json.dumps(header).encode()
    head += b" " * (-len(head) % 8)
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(head)) + head)
        for left in range(end, 0, -len(pool)):
            file.write(pool[:left])


def _write_tokenizer(target: Path) -> None:
    # The words of our prompts come first, so that each is a token of its own and no two prompts are the same.
    ordinary = sorted(set(random_prompt(4_000, 1).split()))
    known = ["<unk>", "<s>", "</s>", *ordinary]
    known += [f"w{number}" for number in range(len(known), VOCABULARY)]
    words = {word: number for number, word in enumerate(known)}
    tokenizer: dict[str, object] = {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None,
        "pre_tokenizer": {"type": "Whitespace"}, "post_processor": None, "decoder": None,
        "model": {"type": "WordLevel", "vocab": words, "unk_token": "<unk>"},
    }  # fmt: skip
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast", "unk_token": "<unk>", "bos_token": "<s>", "eos_token": "</s>",
        "model_max_length": LENGTH, "chat_template": _CHAT_TEMPLATE,
    }  # fmt: skip
    (target / "tokenizer.json").write_text(json.dumps(tokenizer), encoding="utf-8")
    (target / "tokenizer_config.json").write_text(json.dumps(settings), encoding="utf-8")


def main() -> None:
    """`python -m tests.truth.tiny_models DIRECTORY` writes all of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", type=Path)
    for model in MODELS.values():
        print(write_model(model, parser.parse_args().directory))


if __name__ == "__main__":
    main()
