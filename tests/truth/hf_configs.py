"""config.json files of published models, by the keys that decide what their layers keep and weigh."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

CONFIGS = Path(__file__).parent / "configs"

_GRANITE = ["mamba"] * 5 + ["attention"] + ["mamba"] * 9 + ["attention"] + ["mamba"] * 9 + ["attention"]
_GRANITE += ["mamba"] * 9 + ["attention"] + ["mamba"] * 4
_LFM2_ATTENTION = (2, 5, 8, 10, 12, 14)
_LFM2_MOE_ATTENTION = (2, 6, 10, 14, 18, 21)

# Named as the shapes of the same models in tests/truth/shapes/published.py.
CONFIG_VALUES: dict[str, dict[str, Any]] = {
    "gemma2-9b": {
        "model_type": "gemma2", "num_hidden_layers": 42, "hidden_size": 3584, "num_attention_heads": 16,
        "num_key_value_heads": 8, "head_dim": 256, "sliding_window": 4096,
    },
    "gemma3n-e4b": {
        "model_type": "gemma3n",
        "text_config": {
            "model_type": "gemma3n_text", "num_hidden_layers": 35, "hidden_size": 2048, "num_attention_heads": 8,
            "num_key_value_heads": 2, "head_dim": 256, "sliding_window": 512, "num_kv_shared_layers": 15,
            "layer_types": (["sliding_attention"] * 4 + ["full_attention"]) * 7,
        },
    },
    "command-r7b": {
        "model_type": "cohere2", "num_hidden_layers": 32, "hidden_size": 4096, "num_attention_heads": 32,
        "num_key_value_heads": 8, "sliding_window": 4096, "sliding_window_pattern": 4,
    },
    "llama-4-scout": {
        "model_type": "llama4",
        "text_config": {
            "model_type": "llama4_text", "num_hidden_layers": 48, "hidden_size": 5120, "num_attention_heads": 40,
            "num_key_value_heads": 8, "head_dim": 128, "attention_chunk_size": 8192,
            "no_rope_layers": [1, 1, 1, 0] * 12,
        },
    },
    "kimi-k2": {
        "model_type": "kimi_k2", "num_hidden_layers": 61, "hidden_size": 7168, "num_attention_heads": 64,
        "num_key_value_heads": 64, "kv_lora_rank": 512, "qk_rope_head_dim": 64, "num_nextn_predict_layers": 0,
    },
    "glm-4.7-flash": {
        "model_type": "glm4_moe_lite", "num_hidden_layers": 47, "hidden_size": 2048, "num_attention_heads": 20,
        "num_key_value_heads": 20, "kv_lora_rank": 512, "qk_rope_head_dim": 64,
    },
    "minicpm3-4b": {
        "model_type": "minicpm3", "num_hidden_layers": 62, "hidden_size": 2560, "num_attention_heads": 40,
        "num_key_value_heads": 40, "kv_lora_rank": 256, "q_lora_rank": 768, "qk_nope_head_dim": 64,
        "qk_rope_head_dim": 32,
    },
    "granite-4-h-tiny": {
        "model_type": "granitemoehybrid", "num_hidden_layers": 40, "hidden_size": 1536, "num_attention_heads": 12,
        "num_key_value_heads": 4, "layer_types": _GRANITE, "mamba_d_conv": 4, "mamba_d_head": 64,
        "mamba_d_state": 128, "mamba_expand": 2, "mamba_n_groups": 1, "mamba_n_heads": 48,
    },
    "nemotron-h-8b": {
        "model_type": "nemotron_h", "num_hidden_layers": 52, "hidden_size": 4096, "num_attention_heads": 32,
        "num_key_value_heads": 8, "attention_head_dim": 128, "conv_kernel": 4, "mamba_num_heads": 128,
        "mamba_head_dim": 80, "n_groups": 8, "ssm_state_size": 128,
        "hybrid_override_pattern": "M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M-",
    },
    "jamba-mini": {
        "model_type": "jamba", "num_hidden_layers": 32, "hidden_size": 4096, "num_attention_heads": 32,
        "num_key_value_heads": 8, "attn_layer_period": 8, "attn_layer_offset": 4, "mamba_d_conv": 4,
        "mamba_d_state": 16, "mamba_expand": 2,
    },
    "lfm2-1.2b": {
        "model_type": "lfm2", "num_hidden_layers": 16, "hidden_size": 2048, "num_attention_heads": 32,
        "num_key_value_heads": 8, "conv_L_cache": 3, "full_attn_idxs": list(_LFM2_ATTENTION),
    },
    "lfm2-8b-a1b": {
        "model_type": "lfm2_moe", "num_hidden_layers": 24, "hidden_size": 2048, "num_attention_heads": 32,
        "num_key_value_heads": 8, "conv_L_cache": 3,
        "layer_types": ["full_attention" if layer in _LFM2_MOE_ATTENTION else "conv" for layer in range(24)],
    },
    "falcon-h1-7b": {
        "model_type": "falcon_h1", "num_hidden_layers": 44, "hidden_size": 3072, "num_attention_heads": 12,
        "num_key_value_heads": 2, "head_dim": 128, "mamba_d_conv": 4, "mamba_d_head": 128, "mamba_d_ssm": 3072,
        "mamba_d_state": 256, "mamba_n_groups": 1, "mamba_n_heads": 24, "mamba_expand": 2,
    },
    "kimi-linear-48b": {
        "model_type": "kimi_linear", "num_hidden_layers": 27, "hidden_size": 2304, "num_attention_heads": 32,
        "num_key_value_heads": 32, "head_dim": 72, "kv_lora_rank": 512, "qk_rope_head_dim": 64,
        "linear_attn_config": {
            "full_attn_layers": [4, 8, 12, 16, 20, 24], "num_heads": 32, "head_dim": 128, "short_conv_kernel_size": 4,
        },
    },
    "mamba-2.8b": {
        "model_type": "mamba", "num_hidden_layers": 64, "hidden_size": 2560, "intermediate_size": 5120,
        "state_size": 16, "conv_kernel": 4, "expand": 2,
    },
    "codestral-mamba-7b": {
        "model_type": "mamba2", "num_hidden_layers": 64, "hidden_size": 4096, "num_heads": 128, "head_dim": 64,
        "state_size": 128, "n_groups": 8, "conv_kernel": 4, "expand": 2,
    },
}  # fmt: skip

# Shapes whose models have a whole config.json among those of the published figures.
SAME_MODEL = {
    "qwen3-8b": "qwen3-8b",
    "gemma3-12b": "gemma-3-12b",
    "gpt-oss-20b": "gpt-oss-20b",
    "qwen3-next-80b": "qwen3-coder-next",
    "deepseek-v3": "deepseek-v3_r1",
    "llama-3.1-8b": "llama-3.1-8b",
    "qwen3-30b-a3b": "qwen3-30b-a3b",
    "gemma4-e4b": "gemma-4-e4b",
    "gemma4-26b-a4b": "gemma-4-26b-a4b",
    "glm-4.5-air": "glm-4.5-air",
    "deepseek-v2-lite": "deepseek-v2-lite",
    "deepseek-v3.2": "deepseek-v3.2",
    "glm-5": "glm-5",
    "nemotron-3-nano-30b": "nemotron-3-nano-30b",
    "qwen3.5-9b": "qwen3.5-9b",
    "qwen3.5-35b-a3b": "qwen3.5_3.6-35b-a3b",
}


@cache
def names() -> tuple[str, ...]:
    """Every whole config.json, by the name of its directory."""
    return tuple(sorted(path.parent.name for path in CONFIGS.glob("*/config.json")))


@cache
def values_of(name: str) -> dict[str, Any]:
    """One config.json, whole or in part."""
    if name in CONFIG_VALUES:
        return CONFIG_VALUES[name]
    found: dict[str, Any] = json.loads((CONFIGS / SAME_MODEL.get(name, name) / "config.json").read_text())
    return found
